"""An endless, seeded stream of training examples, made by worker processes while the device trains.

Shard k is a pure function of (seed, k): a run that resumes at shard k sees exactly what an uninterrupted
run would have seen. Only the train split is drawn, so no held-out text or program can appear.
"""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WIDTH = 256  # longest prompt + response + end marker kept


@dataclass
class Shard:
    tokens: np.ndarray  # (n, WIDTH) uint16: prompt, response, end-of-turn, then end-of-text
    prompt: np.ndarray  # (n,) prompt length
    used: np.ndarray  # (n,) prompt + response + end marker

    def __len__(self) -> int:
        return len(self.prompt)


class Maker:
    """Examples of both tasks -> token rows. One per worker process."""

    def __init__(self, folder: str, seed: int, share: float) -> None:
        from unmask.models.spec import read_spec
        from unmask.models.tokenizer import load_tokenizer
        from unmask.tasks.functions import generate as function
        from unmask.tasks.wordproblems import generate as wordproblem

        self.tokenizer = load_tokenizer(Path(folder), read_spec(Path(folder)))
        self.makers, self.seed, self.share = (wordproblem, function), seed, share
        self.end = self.tokenizer.fast.token_to_id("<|eot_id|>")
        self.fill = self.tokenizer.fast.token_to_id("<|endoftext|>")
        # One render per shard would do, but the template must stay the tokenizer's: cut it around a marker.
        before, after = self.tokenizer.render([{"role": "user", "content": "\x00"}]).split("\x00")
        self.before, self.after = self.tokenizer.encode(before), self.tokenizer.encode(after)

    def shard(self, index: int, size: int, split: str = "train") -> Shard:
        from unmask.tasks.splits import rng_for

        rng = rng_for("training", self.seed, split, index)
        which = [int(rng.random() >= self.share) for _ in range(size)]
        examples = [self.makers[w](rng, split) for w in which]
        encode = self.tokenizer.fast.encode_batch_fast
        prompts = [e.ids for e in encode([e.prompt.strip() for e in examples], add_special_tokens=False)]
        responses = [e.ids for e in encode([e.response for e in examples], add_special_tokens=False)]
        tokens = np.full((size, WIDTH), self.fill, dtype=np.uint16)
        prompt, used = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for i, (p, r) in enumerate(zip(prompts, responses, strict=True)):
            row = [*self.before, *p, *self.after, *r, self.end]
            tokens[i, : len(row)] = row  # the generators keep every example within WIDTH
            prompt[i], used[i] = len(row) - len(r) - 1, len(row)
        return Shard(tokens, prompt, used)


_maker: Maker | None = None


def _start(folder: str, seed: int, share: float) -> None:
    global _maker
    _maker = Maker(folder, seed, share)


def _make(index: int, size: int) -> Shard:
    assert _maker is not None
    return _maker.shard(index, size)


def stream(folder: Path, seed: int, share: float, size: int, first: int, workers: int) -> Iterator[Shard]:
    """Shards first, first + 1, ... of `size` examples, in order, made ahead by `workers` processes."""
    context = mp.get_context("spawn")
    with context.Pool(workers, _start, (str(folder), seed, share)) as pool:
        waiting = [pool.apply_async(_make, (first + i, size)) for i in range(2 * workers)]
        index = first + len(waiting)
        while True:
            shard = waiting.pop(0).get()
            waiting.append(pool.apply_async(_make, (index, size)))
            index += 1
            yield shard
