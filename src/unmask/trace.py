"""What happened in one decode, step by step: one versioned format, in memory and as JSON lines.

Line 1 is the header, then one line per step, then the end. docs/trace.md describes every field. Columns are
float32 and written with their shortest exact spelling, so a trace round-trips without loss.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unmask import schema
from unmask.decoders.base import ROUTES, Commit, StepView
from unmask.errors import UserError
from unmask.files import write_whole

FORMAT, VERSION = "unmask.trace", 1
PHASES = ("backbone", "projection", "scoring", "other")


@dataclass
class Step:
    """One step of one row. Arrays run over the positions that were scored, left to right."""

    nfe: int  # forward calls this row has taken part in, this step included
    positions: np.ndarray
    token: np.ndarray
    confidence: np.ndarray
    entropy: np.ndarray
    verdict: np.ndarray  # a route where committed, a reason where not
    committed: np.ndarray  # bool
    columns: dict[str, np.ndarray] = field(default_factory=dict)  # K, r, S, E, score; NaN where not computed
    threshold: float | None = None
    projected: int = 0  # rows x layers read through the head
    branches: int = 0  # lookahead rows run beside the canvas
    seconds: dict[str, float] = field(default_factory=dict)  # per phase, this row's share

    @classmethod
    def record(cls, view: StepView, commit: Commit, nfe: int) -> Step:
        token = view.token if commit.token is None else commit.token
        columns = {k: _f32(v) for k, v in commit.columns.items() if not np.isnan(v).all()}
        return cls(
            nfe, view.positions.astype(np.int32), np.asarray(token, dtype=np.int32), _f32(view.confidence),
            _f32(view.entropy), commit.verdict, commit.take.copy(), columns, commit.threshold,
        )  # fmt: skip

    def commits(self) -> Iterator[tuple[int, int, str]]:
        """(canvas position, token, route) of what this step committed."""
        for i in np.flatnonzero(self.committed):
            yield int(self.positions[i]), int(self.token[i]), str(self.verdict[i])

    def to_json(self) -> dict[str, Any]:
        committed = self.committed
        return {
            "nfe": self.nfe,
            "positions": self.positions.tolist(),
            "tokens": self.token.tolist(),
            "c": _floats(self.confidence),
            "H": _floats(self.entropy),
            "routes": _by_verdict(self.verdict, committed),
            "waits": _by_verdict(self.verdict, ~committed),
            **{name: _floats(column) for name, column in self.columns.items()},
            "threshold": None if self.threshold is None else _float(self.threshold),
            "projected": self.projected,
            "branches": self.branches,
            "seconds": self.seconds,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Step:
        n = len(data["positions"])
        verdict, committed = np.full(n, "", dtype=object), np.zeros(n, dtype=bool)
        for group in ("routes", "waits"):
            for name, indices in data[group].items():
                verdict[indices] = name
                committed[indices] = group == "routes"
        return cls(
            data["nfe"], np.array(data["positions"], dtype=np.int32), np.array(data["tokens"], dtype=np.int32),
            _parse(data["c"]), _parse(data["H"]), verdict, committed,
            {name: _parse(column) for name, column in data.items() if name not in schema.STEP},
            None if data["threshold"] is None else float(data["threshold"]),
            data["projected"], data["branches"], dict(data["seconds"]),
        )  # fmt: skip


@dataclass
class Trace:
    header: dict[str, Any]
    steps: list[Step] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)

    @property
    def canvas_length(self) -> int:
        return int(self.header["canvas_length"])

    def commit_steps(self) -> np.ndarray:
        """The step (from 0) at which each canvas position was committed; -1 where it was given or still masked."""
        order = np.full(self.canvas_length, -1, dtype=np.int64)
        for number, step in enumerate(self.steps):
            order[step.positions[step.committed]] = number
        return order

    def route_counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for step in self.steps:
            for _, _, route in step.commits():
                counts[route] = counts.get(route, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: _rank(item[0])))

    def seconds(self) -> dict[str, float]:
        return {phase: sum(step.seconds.get(phase, 0.0) for step in self.steps) for phase in PHASES}

    def canvases(self) -> Iterator[np.ndarray]:
        """Canvas ids before each step, and after the last one (masks included)."""
        canvas = np.full(self.canvas_length, self.header["mask_id"], dtype=np.int64)
        for position, token in self.header.get("fixed", {}).items():
            canvas[int(position)] = token
        yield canvas.copy()
        for step in self.steps:
            canvas[step.positions[step.committed]] = step.token[step.committed]
            yield canvas.copy()

    def canvas(self) -> np.ndarray:
        """Canvas ids after the last step."""
        *_, last = self.canvases()
        return last

    def piece(self, token: int) -> str:
        return self.header.get("pieces", {}).get(str(token), f"<{token}>")

    def lines(self) -> Iterator[str]:
        yield _dumps({"format": FORMAT, "version": VERSION, **self.header})
        for step in self.steps:
            yield _dumps({"step": step.to_json()})
        yield _dumps({"end": self.end})

    def save(self, path: str | Path) -> None:
        write_whole(path, "\n".join(self.lines()) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path} cannot be read: {error}") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, name: str = "trace") -> Trace:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
        trace, number = None, 0
        filled: set[int] = set()
        try:
            for number, line in lines:  # noqa: B007 (the except clause names it)
                data = json.loads(line)
                if trace is None:
                    trace = cls._open(data, name)
                elif "step" in data:
                    schema.check_step(data["step"], trace.header, filled)
                    trace.steps.append(Step.from_json(data["step"]))
                else:
                    schema.check_end(data["end"])
                    trace.end = data["end"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(f"{name}, line {number}: not a valid trace line ({error})") from None
        if trace is None or not trace.end:
            raise UserError(f"{name} is not a complete trace: it has no {'header' if trace is None else 'end'}")
        return trace

    @classmethod
    def _open(cls, data: Any, name: str) -> Trace:
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise UserError(f"{name} is not an unmask trace")
        version = data.pop("version", None)
        if version != VERSION:
            raise UserError(f"{name} has trace version {version}; this unmask reads version {VERSION}")
        schema.check_header(data)
        return cls(header=data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and list(self.lines()) == list(other.lines())


def _f32(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


def _float(value: Any) -> Any:
    value = float(str(value))  # the shortest decimal that reads back as the same float32
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else ("inf" if value > 0 else "-inf")


def _floats(values: np.ndarray) -> list[Any]:
    return [_float(value) for value in values]


def _parse(values: list[Any]) -> np.ndarray:
    return np.array([math.nan if v is None else float(v) for v in values], dtype=np.float32)


def _by_verdict(verdict: np.ndarray, which: np.ndarray) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for i in np.flatnonzero(which):
        groups.setdefault(str(verdict[i]), []).append(int(i))
    return groups


def _rank(route: str) -> tuple[int, str]:
    return (ROUTES.index(route) if route in ROUTES else len(ROUTES), route)


def _dumps(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
