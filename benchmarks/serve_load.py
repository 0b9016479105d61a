"""Load on `unmask serve`: nothing lost, nothing mixed up, memory flat, and faster together than one at a time.

    python benchmarks/serve_load.py                                  # 64 clients, 500 requests, tiny
    taskset -c 0,1 python benchmarks/serve_load.py --threads 2       # on two cores of a larger machine

Every answer is compared with `unmask.generate` for that prompt. Half of the requests stream. The server, the
clients and the comparison share the machine, as they would on a laptop.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx

import unmask


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
        result_code = server.wait(60)
    result["exit_code"] = result_code
    print(json.dumps(result, indent=2))
    return 0 if verdict(result) else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--decoder", default="rpd")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--canvas", type=int, help="positions per answer; the model's own number by default")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--prompts", type=int, default=100, help="distinct ones")
    parser.add_argument("--alone", type=int, default=60, help="requests of the one-at-a-time run")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=0, help="torch threads of the server; 0 leaves it to torch")
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
    command = [sys.executable, "-c", "import sys; from unmask.cli import main; sys.exit(main())", "serve"]
    command += [
        "--model",
        args.model,
        "--name",
        "m",
        "--port",
        "0",
        "--device",
        args.device,
        "--batch",
        str(args.batch),
    ]
    threads = {"OMP_NUM_THREADS": str(args.threads)} if args.threads else {}
    log = Path(os.devnull).open("w")  # noqa: SIM115
    server = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=log, text=True, env={**os.environ, **threads})
    assert server.stderr
    line = ""
    while not (found := re.search(r"http://[\d.]+:\d+", line)):
        line = server.stderr.readline()
        assert line, "the server did not start"
    # Its log is drained by a thread of the event loop's executor as long as it runs.
    import threading

    threading.Thread(target=lambda: [None for _ in server.stderr or ()], daemon=True).start()
    return server, found[0]


async def measure(args: argparse.Namespace, url: str, pid: int, wanted: dict[str, str]) -> dict:
    limits = httpx.Limits(max_connections=args.clients, max_keepalive_connections=args.clients)
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
        while (await client.get("/health")).status_code != 200:
            await asyncio.sleep(0.1)
        prompts = list(wanted)
        await asyncio.gather(*(ask(client, args, prompt, False) for prompt in prompts[: args.batch]))  # warm
        alone = await run(client, args, pid, wanted, 1, args.alone)
        together = await run(client, args, pid, wanted, args.clients, args.requests)
    alone.pop("memory")
    return {
        "model": args.model, "decoder": args.decoder, "cores": len(os.sched_getaffinity(0)), "batch": args.batch,
        "one_at_a_time": alone, "together": together,
        "speedup": round(together["requests_per_second"] / alone["requests_per_second"], 3),
    }  # fmt: skip


async def run(
    client: httpx.AsyncClient, args: argparse.Namespace, pid: int, wanted: dict[str, str], clients: int, total: int
) -> dict:
    work = iter([list(wanted)[i % len(wanted)] for i in range(total)])
    latencies: list[float] = []
    memory: list[float] = []
    outcome = {"right": 0, "wrong": 0, "lost": 0}

    async def worker(number: int) -> None:
        for count, prompt in enumerate(work):
            start = time.perf_counter()
            try:
                text = await ask(client, args, prompt, (number + count) % 2 == 1)
                outcome["right" if text == wanted[prompt] else "wrong"] += 1
            except (httpx.HTTPError, KeyError, AssertionError):
                outcome["lost"] += 1
            latencies.append(time.perf_counter() - start)
            memory.append(resident(pid))

    start = time.perf_counter()
    await asyncio.gather(*(worker(n) for n in range(clients)))
    seconds = time.perf_counter() - start
    fifths = [memory[len(memory) * i // 5 - 1] for i in range(1, 6)]
    return {
        **outcome, "clients": clients, "requests": total, "seconds": round(seconds, 2),
        "requests_per_second": round(total / seconds, 3), "memory": {"mib_after_each_fifth": fifths},
        "latency": {"p50": round(statistics.median(latencies), 2), "max": round(max(latencies), 2)},
    }  # fmt: skip


async def ask(client: httpx.AsyncClient, args: argparse.Namespace, prompt: str, stream: bool) -> str:
    message = {"role": "user", "content": prompt}
    body = {
        "model": "m",
        "messages": [message],
        "decoder": args.decoder,
        "stream": stream,
        "canvas_length": args.canvas,
    }
    answer = await client.post("/v1/chat/completions", json=body)
    answer.raise_for_status()
    if not stream:
        return answer.json()["choices"][0]["message"]["content"]
    assert answer.text.rstrip().endswith("data: [DONE]")
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    return "".join(event["choices"][0]["delta"].get("content", "") for event in events)


def resident(pid: int) -> float:
    """MiB of the server's memory in RAM."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    return round(int(found[1]) / 1024, 1) if found else 0.0


def verdict(result: dict) -> bool:
    together = result["together"]
    fifths = together["memory"]["mib_after_each_fifth"]
    checks = {
        "none lost": together["lost"] == 0,
        "none mixed up": together["wrong"] == 0,
        "memory flat": fifths[-1] <= 1.1 * fifths[0],
        "at least 1.3 x one at a time": result["speedup"] >= 1.3,
        "ended cleanly": result["exit_code"] == 0,
    }
    for name, passed in checks.items():
        print(f"{'ok  ' if passed else 'FAIL'} {name}", file=sys.stderr)
    return all(checks.values())


if __name__ == "__main__":
    sys.exit(main())
