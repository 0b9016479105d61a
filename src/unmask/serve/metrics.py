"""Counters in Prometheus' text format: a few dozen lines instead of a dependency."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from unmask.guardrails import KINDS

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Histogram:
    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.counts, self.total, self.sum = [0] * len(BUCKETS), 0, 0.0

    def observe(self, value: float) -> None:
        for i, bound in enumerate(BUCKETS):
            self.counts[i] += value <= bound
        self.total += 1
        self.sum += value

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.text}\n# TYPE {self.name} histogram"
        for bound, count in zip(BUCKETS, self.counts, strict=True):
            yield f'{self.name}_bucket{{le="{bound:g}"}} {count}'
        yield f'{self.name}_bucket{{le="+Inf"}} {self.total}'
        yield f"{self.name}_sum {self.sum:.6f}\n{self.name}_count {self.total}"


class Metrics:
    """Written by the scheduler's thread and the event loop; read by /metrics."""

    def __init__(self, gauges: dict[str, tuple[str, Callable[[], float]]] | None = None) -> None:
        self.lock = threading.Lock()
        self.gauges = gauges or {}
        self.requests: dict[tuple[str, int], int] = {}
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.warnings = dict.fromkeys(KINDS, 0)
        self.step = Histogram("unmask_step_seconds", "Duration of one step of the batch.")
        self.request = Histogram("unmask_request_seconds", "Duration of requests that decode, queueing included.")

    def count_request(self, path: str, status: int, seconds: float, decodes: bool) -> None:
        with self.lock:
            key = (path, status)
            self.requests[key] = self.requests.get(key, 0) + 1
            if decodes and status == 200:
                self.request.observe(seconds)

    def count_step(self, rows: int, seconds: float) -> None:
        with self.lock:
            self.counters["unmask_steps_total"] += 1
            self.counters["unmask_row_steps_total"] += rows
            self.step.observe(seconds)

    def count_row(self, tokens: int, forwards: int) -> None:
        with self.lock:
            self.counters["unmask_rows_total"] += 1
            self.counters["unmask_tokens_total"] += tokens
            self.counters["unmask_forwards_total"] += forwards

    def count_warnings(self, codes: Iterable[str]) -> None:
        with self.lock:
            for code in codes:
                self.warnings[code] = self.warnings.get(code, 0) + 1

    def render(self) -> str:
        with self.lock:
            return "\n".join(self.lines()) + "\n"

    def lines(self) -> Iterator[str]:
        yield "# HELP unmask_requests_total Requests by endpoint and status.\n# TYPE unmask_requests_total counter"
        for (path, status), count in sorted(self.requests.items()):
            yield f'unmask_requests_total{{path="{path}",status="{status}"}} {count}'
        for name, text in COUNTERS.items():
            yield f"# HELP {name} {text}\n# TYPE {name} counter\n{name} {self.counters[name]}"
        yield "# HELP unmask_warnings_total Answers by what went wrong in their decode."
        yield "# TYPE unmask_warnings_total counter"
        for code, count in sorted(self.warnings.items()):
            yield f'unmask_warnings_total{{code="{code}"}} {count}'
        for name, (text, value) in self.gauges.items():
            yield f"# HELP {name} {text}\n# TYPE {name} gauge\n{name} {value()!r}"
        yield from self.step.lines()
        yield from self.request.lines()


COUNTERS = {
    "unmask_steps_total": "Steps of the batch.",
    "unmask_row_steps_total": "Steps times the rows that took part.",
    "unmask_rows_total": "Rows decoded to the end.",
    "unmask_tokens_total": "Answer tokens, before the first end token.",
    "unmask_forwards_total": "Forward passes the finished rows took part in.",
}
