"""Seeds and splits shared by the generated tasks: pure functions of text, equal on every platform.

A generated problem has two identities: its *text* and its *signature* (the program and the numbers under the
wording). Each identity is hashed to one of three buckets, and a problem belongs to a split only if both fall in
that split's bucket; mixed ones belong nowhere. Two splits therefore share neither a text nor a signature, by
construction and for any number of samples.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from hashlib import blake2b

from ..errors import unknown
from .base import Example

# Share of each bucket out of 256. A held-out example costs about 256/26 signatures and as many wordings.
HELD_OUT = 26
SPLITS = ("train", "validation", "test")


def bucket(text: str) -> str:
    """The split in whose bucket `text` falls: 10 % test, 10 % validation, 80 % train."""
    byte = blake2b(text.encode(), digest_size=1).digest()[0]
    if byte < HELD_OUT:
        return "test"
    return "validation" if byte < 2 * HELD_OUT else "train"


def rng_for(*parts: object) -> random.Random:
    """A generator seeded by what it is for, e.g. `rng_for("wordproblems", 1, "test", seed, index)`."""
    digest = blake2b("/".join(map(str, parts)).encode(), digest_size=16).digest()
    return random.Random(int.from_bytes(digest, "big"))


def stream(
    name: str,
    version: int,
    generate: Callable[[random.Random, str], Example],
    split: str,
    limit: int | None,
    seed: int,
) -> Iterator[Example]:
    """Examples 0, 1, 2, ... of a split. Each has its own generator, so none depends on `limit` or its neighbours."""
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    index = 0
    while limit is None or index < limit:
        example = generate(rng_for(name, version, split, seed, index), split)
        yield Example(
            f"{name}/{split}/{seed}/{index}", example.prompt, example.answer, example.response, example.meta
        )
        index += 1
