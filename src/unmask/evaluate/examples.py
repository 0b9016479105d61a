"""A task's examples on disk: any number of them, in any order, at a constant cost in memory."""

from __future__ import annotations

import hashlib
import json
import pickle
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress

from unmask.tasks.base import Example


class Examples:
    """A private spool file and its offsets. `digest` identifies the set: ids, prompts, answers, in order."""

    def __init__(self, examples: Iterable[Example]) -> None:
        self._file = tempfile.TemporaryFile(prefix="unmask-")  # noqa: SIM115 (lives as long as the object)
        self._offsets = array("q", [0])
        sha = hashlib.sha256()
        for example in examples:
            sha.update(json.dumps([example.id, example.prompt, example.answer]).encode() + b"\n")
            self._file.write(pickle.dumps(example, protocol=5))
            self._offsets.append(self._file.tell())
        self.digest = sha.hexdigest()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> Example:
        start, stop = self._offsets[index], self._offsets[index + 1]
        self._file.seek(start)
        return pickle.loads(self._file.read(stop - start))

    def __iter__(self) -> Iterator[Example]:
        return (self[index] for index in range(len(self)))

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()
