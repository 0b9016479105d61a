"""Load on `unmask serve`: nothing lost, nothing mixed up, memory flat, and faster together than one at a time.

    python benchmarks/serve_load.py                                  # 64 clients, 500 requests, tiny
    taskset -c 0,1 python benchmarks/serve_load.py --threads 2       # on two cores of a larger machine
    python benchmarks/serve_load.py --page docs/serving.md           # writes the measured table into the page

Every answer is compared with `unmask.generate` for that prompt. Half of the requests stream. The server, the
clients and the comparison share the machine, as they would on a laptop. The requests of many clients come in
rounds, and one-at-a-time requests before, between and after them: a machine that is slower for a while is slower
for both. Besides the clock, the server's own processor time is read, which other programs cannot take.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from textwrap import fill
from typing import Any

from unmask.cli import SPIN

os.environ.setdefault(*SPIN)  # as the command line does; before torch is loaded

import httpx
import torch

import unmask

MARKS = ("<!-- load: written by benchmarks/serve_load.py -->", "<!-- /load -->")
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> int:
    args = parse()
    model = unmask.load(args.model, device=args.device)
    prompts = make_prompts(args, model)
    start = time.perf_counter()
    wanted = {prompt: answer(model, prompt, args) for prompt in prompts}
    print(f"{len(prompts)} prompts by unmask.generate: {time.perf_counter() - start:.1f} s", file=sys.stderr)
    server, url = serve(args)
    try:
        result = asyncio.run(measure(args, url, server.pid, wanted))
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    result["exit_code"] = code
    print(json.dumps(result, indent=2))
    if args.page:
        write_page(args.page, result)
    return 0 if verdict(result) else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--decoder", default="rpd")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--canvas", type=int, help="positions per answer; the model's own number by default")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=2, help="parts the requests come in")
    parser.add_argument("--prompts", type=int, default=100, help="distinct ones")
    parser.add_argument("--alone", type=int, default=90, help="one-at-a-time requests, in rounds + 1 parts")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=0, help="torch threads of the server; 0 leaves it to torch")
    parser.add_argument("--page", type=Path, help="a page with the marks between which the table is written")
    return parser.parse_args()


def make_prompts(args: argparse.Namespace, model: unmask.Model) -> list[str]:
    """Both kinds of request the embedded model knows; for any other model, sentences of different lengths."""
    if args.model == "tiny":
        from unmask import tasks

        half = (args.prompts + 1) // 2
        examples = [
            list(tasks.get(name).examples("test", limit=half, seed=7)) for name in ("wordproblems", "functions")
        ]
        return [example.prompt for pair in zip(*examples, strict=True) for example in pair][: args.prompts]
    rng, words = random.Random(0), ["the", "user", "and", "system", "assistant", "thing"]
    return [f"{i} " + " ".join(rng.choices(words, k=rng.randint(1, 12))) for i in range(args.prompts)]


def answer(model: unmask.Model, prompt: str, args: argparse.Namespace) -> str:
    out = unmask.generate(model, prompt, args.decoder, canvas_length=args.canvas)
    assert not isinstance(out, list)
    return out.text


def serve(args: argparse.Namespace) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "unmask", "serve", "--model", args.model, "--name", "m", "--port", "0"]
    # The deadline is the server's protection, not what is measured: a slow machine answers late, and loses nothing.
    command += ["--device", args.device, "--batch", str(args.batch), "--deadline", "600"]
    threads = {"OMP_NUM_THREADS": str(args.threads)} if args.threads else {}
    server = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env={**os.environ, **threads}
    )
    assert server.stderr
    line = ""
    while not (found := re.search(r"http://[\d.]+:\d+", line)):
        line = server.stderr.readline()
        assert line, "the server did not start"
    # Its log is drained as long as it runs.
    threading.Thread(target=lambda: [None for _ in server.stderr or ()], daemon=True).start()
    return server, found[0]


async def measure(args: argparse.Namespace, url: str, pid: int, wanted: dict[str, str]) -> dict[str, Any]:
    limits = httpx.Limits(max_connections=args.clients, max_keepalive_connections=args.clients)
    prompts = cycle(wanted)
    single, many = args.alone // (args.rounds + 1), args.requests // args.rounds
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
        while (await client.get("/health")).status_code != 200:
            await asyncio.sleep(0.1)
        await asyncio.gather(*(ask(client, args, prompt, False) for prompt in islice(prompts, args.batch)))  # warm
        alone = [await phase(client, args, pid, wanted, 1, islice(prompts, single))]
        together = []
        for _ in range(args.rounds):
            together.append(await phase(client, args, pid, wanted, args.clients, islice(prompts, many)))
            alone.append(await phase(client, args, pid, wanted, 1, islice(prompts, single)))
    return {
        "model": args.model, "decoder": args.decoder, "cores": len(os.sched_getaffinity(0)), "batch": args.batch,
        "hardware": processor(), "torch": torch.__version__, "clients": args.clients,
        "requests": {"together": sum(p["requests"] for p in together), "alone": sum(p["requests"] for p in alone)},
        **{key: sum(p[key] for p in together) for key in ("right", "wrong", "lost")},
        "alone_wrong_or_lost": sum(p["wrong"] + p["lost"] for p in alone),
        "memory_mib": [mib for p in together for mib in p["memory_mib"]],
        "latency_seconds": {key: [p[key] for p in together] for key in ("p50", "max")},
        "by_the_clock": ratios(together, alone, "seconds"), "by_processor_time": ratios(together, alone, "cpu"),
        "other_programs_cores": round(statistics.mean(p["others"] for p in [*alone, *together]), 2),
    }  # fmt: skip


async def phase(
    client: httpx.AsyncClient, args: argparse.Namespace, pid: int, wanted: dict[str, str], clients: int,
    work: Iterator[str],
) -> dict[str, Any]:  # fmt: skip
    latencies: list[float] = []
    memory: list[float] = []
    outcome = {"right": 0, "wrong": 0, "lost": 0}

    async def worker(number: int) -> None:
        for count, prompt in enumerate(work):
            start = time.perf_counter()
            try:
                text = await ask(client, args, prompt, (number + count) % 2 == 1)
                outcome["right" if text == wanted[prompt] else "wrong"] += 1
            except (httpx.HTTPError, KeyError, AssertionError) as error:
                outcome["lost"] += 1
                print(f"lost: {error!r}", file=sys.stderr)
            latencies.append(time.perf_counter() - start)
            memory.append(resident(pid))

    start, spent, ours, everybody = time.perf_counter(), cpu(pid), cpu(os.getpid()), machine_cpu()
    await asyncio.gather(*(worker(n) for n in range(clients)))
    seconds, spent, ours = time.perf_counter() - start, cpu(pid) - spent, cpu(os.getpid()) - ours
    total = len(latencies)
    return {
        **outcome, "requests": total, "seconds": seconds, "cpu": spent,
        "others": max(0.0, machine_cpu() - everybody - spent - ours) / seconds,
        "memory_mib": [memory[total * i // 5 - 1] for i in range(1, 6)],
        "p50": round(statistics.median(latencies), 2), "max": round(max(latencies), 2),
    }  # fmt: skip


def ratios(together: list[dict], alone: list[dict], key: str) -> dict[str, Any]:
    """Right answers per second in each round, over the mean of the one-at-a-time parts before and after it."""
    rate = [p["right"] / p[key] for p in together]
    single = [p["right"] / p[key] for p in alone]
    speedups = [r / statistics.mean(single[i : i + 2]) for i, r in enumerate(rate)]
    return {
        "requests_per_second": [round(r, 3) for r in rate], "one_at_a_time": [round(r, 3) for r in single],
        "speedups": [round(s, 3) for s in speedups], "speedup": round(statistics.median(speedups), 3),
    }  # fmt: skip


async def ask(client: httpx.AsyncClient, args: argparse.Namespace, prompt: str, stream: bool) -> str:
    body = {
        "model": "m", "messages": [{"role": "user", "content": prompt}], "decoder": args.decoder, "stream": stream,
        "canvas_length": args.canvas,
    }  # fmt: skip
    answer = await client.post("/v1/chat/completions", json=body)
    answer.raise_for_status()
    if not stream:
        return answer.json()["choices"][0]["message"]["content"]
    assert answer.text.rstrip().endswith("data: [DONE]")
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    return "".join(event["choices"][0]["delta"].get("content", "") for event in events)


def resident(pid: int) -> float:
    """MiB of the server's memory in RAM."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return round(int(found[1]) / 1024, 1) if found else 0.0


def cpu(pid: int) -> float:
    """Seconds of processor time of a process, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def machine_cpu() -> float:
    """Seconds of processor time that anybody has used: all but idle and waiting for disks."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICKS


def processor() -> str:
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return found[1].strip() if found else platform.processor()


def checks(result: dict[str, Any]) -> dict[str, bool]:
    memory = result["memory_mib"]
    return {
        "none lost": result["lost"] == 0,
        "none mixed up": result["wrong"] == 0 and result["alone_wrong_or_lost"] == 0,
        "memory flat": memory[-1] <= 1.1 * memory[0],
        "at least 1.3 x one at a time, by the clock": result["by_the_clock"]["speedup"] >= 1.3,
        "ended cleanly": result["exit_code"] == 0,
    }


def verdict(result: dict[str, Any]) -> bool:
    for name, passed in checks(result).items():
        print(f"{'ok  ' if passed else 'FAIL'} {name}", file=sys.stderr)
    return all(checks(result).values())


def write_page(page: Path, result: dict[str, Any]) -> None:
    text = page.read_text(encoding="utf-8")
    begin, end = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    page.write_text(f"{text[:begin]}\n\n{table(result)}\n\n{text[end:]}", encoding="utf-8")


def table(result: dict[str, Any]) -> str:
    clock, own, memory = result["by_the_clock"], result["by_processor_time"], result["memory_mib"]
    asked, latency = result["requests"], result["latency_seconds"]

    def row(name: str, ratio: dict[str, Any]) -> str:
        columns = (ratio["requests_per_second"], ratio["one_at_a_time"], ratio["speedups"])
        return f"| {name} | {' | '.join(map(spread, columns))} |"

    setting = (
        f"`{result['model']}`, `{result['decoder']}`, {result['cores']} cores ({result['hardware']}), torch "
        f"{result['torch']}, {result['batch']} rows in a step; n = {asked['together']} requests of "
        f"{result['clients']} clients in {len(clock['speedups'])} rounds, {asked['alone']} one at a time in "
        f"{len(clock['one_at_a_time'])} parts before, between and after. Meanwhile other programs used "
        f"{result['other_programs_cores']} of the {result['cores']} cores, on average."
    )
    outcome = (
        f"{result['right']} of {asked['together']} answers were those of `unmask.generate`; {result['lost']} were "
        f"lost, {result['wrong']} were wrong. Memory: {memory[0]:.0f} MiB after a fifth of the first round, "
        f"{memory[-1]:.0f} MiB at the end, {max(memory):.0f} MiB at most. Median latency {spread(latency['p50'])} s, "
        f"longest {max(latency['max']):.1f} s. A range goes over the rounds."
    )
    rows = [row("of the clock", clock), row("of the server's processor time", own)]
    head = ["| answers per second | together | one at a time | ratio |", "|---|---:|---:|---:|"]
    return "\n".join([fill(setting, 118), "", *head, *rows, "", fill(outcome, 118)])


def spread(values: list[float]) -> str:
    low, high = (f"{value:.2f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} – {high}"


if __name__ == "__main__":
    sys.exit(main())
