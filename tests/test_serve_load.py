"""A small version of benchmarks/serve_load.py: many clients at once, every answer the right one, memory flat."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import checkpoints
import unmask
from serving import chat, expected, running, settings, wait_until

CLIENTS, REQUESTS = 16, 64


def test_many_clients_lose_nothing_and_mix_nothing_up(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = checkpoints.write_checkpoint(tmp_path_factory.mktemp("load") / "small", "llada", layers=6)
    small, rng = unmask.load(folder, device="cpu"), random.Random(0)
    words = ["the", "user", "and", "system", "assistant", "thing"]
    prompts = [" ".join(rng.choices(words, k=1 + i % 9)) for i in range(20)]
    wanted = [expected(small, prompt) for prompt in prompts]
    memory: list[int] = []
    with running(small, settings(batch=8)) as live:
        local = threading.local()

        def one(number: int) -> bool:
            if not hasattr(local, "client"):
                local.client = live.client()
            out = chat(local.client, prompts[number % 20], stream=number % 3 == 0)
            if number % 3 == 0:
                text = "".join(chunk.choices[0].delta.content or "" for chunk in out)
            else:
                text = out.choices[0].message.content
            memory.append(resident())
            return text == wanted[number % 20]

        with ThreadPoolExecutor(CLIENTS) as pool:
            assert all(pool.map(one, range(REQUESTS)))
        wait_until(lambda: live.idle)
        steps, rows = (live.service.metrics.counters[f"unmask_{name}_total"] for name in ("steps", "row_steps"))
        assert rows / steps > 3, "the requests were not decoded together"
    assert memory[-1] < memory[len(memory) // 4] * 1.15


def resident() -> int:
    """Pages of this process in memory (zero where the system does not say)."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) if path.exists() else 0
