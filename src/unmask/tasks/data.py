"""Benchmark data from where the user has it: a file, a folder, UNMASK_DATA, or the hub; checked before use.

A set is identified by the content that scores depend on (questions, answers, tests), not by a file's bytes: the
same benchmark as published, as on the hub, or with other line ends has the same checksum.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError, unknown

Record = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """One split of one benchmark: its files' name, its size, its checksum, its place on the hub."""

    file: str  # NAME of NAME.jsonl or NAME.jsonl.gz
    rows: int
    sha256: str
    hub: tuple[str, str | None, str]  # repository, configuration, split
    where: Mapping[str, Any] | None = None  # only the file's rows with these values belong to the split


@dataclass(frozen=True)
class Benchmark:
    """A benchmark's splits, and how one row of any of its published forms reads."""

    name: str
    splits: Mapping[str, Source]
    adapt: Callable[[Record], Record]  # raises KeyError where a field is missing
    identity: tuple[str, ...]  # the fields that the checksum covers

    def load(self, split: str, data: Path | None = None) -> list[Record]:
        """Every row of the split, in source order. Anything but the whole, unchanged split is an error."""
        if split not in self.splits:
            raise unknown(f"split of {self.name}", split, self.splits)
        source = self.splits[split]
        place, raw = self.open(source, data)
        rows = [self.read(record, place) for record in raw if belongs(record[1], source)]
        if len(rows) != source.rows:
            raise UserError(f"{place} has {len(rows)} rows of {self.name} {split}; the benchmark has {source.rows}")
        for index, row in enumerate(rows):
            row.setdefault("id", f"{self.name}/{split}/{index}")  # where the benchmark itself has none
        try:
            found = checksum(rows, self.identity)
        except RecursionError:
            raise UserError(f"{place} has a field that is nested too deep: is this {self.name}?") from None
        if found != source.sha256:
            raise UserError(
                f"{place} differs from {self.name} {split} as published (content sha256 {found[:12]}…, expected "
                f"{source.sha256[:12]}…): scores would not compare, get an unchanged copy"
            )
        return rows

    def read(self, numbered: tuple[int, Record], place: str) -> Record:
        number, record = numbered
        try:
            return self.adapt(record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:  # missing fields, fields of other kinds
            missing = f"has no field {error}" if isinstance(error, KeyError) else f"is not a row of it ({error})"
            raise UserError(f"{place}, line {number} {missing}: is this {self.name}?") from None

    def open(self, source: Source, data: Path | None) -> tuple[str, Iterable[tuple[int, Record]]]:
        """A name for messages, and numbered raw records."""
        if data is not None:
            path = data if data.is_file() else find(data, source)
            if path is None:
                raise UserError(f"{data} holds no {source.file}.jsonl: {self.how(source)}")
            return str(path), read_jsonl(path)
        folder = os.environ.get("UNMASK_DATA")
        if folder:
            path = find(Path(folder), source)
            if path is None:
                raise UserError(f"UNMASK_DATA={folder} holds no {source.file}.jsonl: {self.how(source)}")
            return str(path), read_jsonl(path)
        return f"{source.hub[0]} on the hub", enumerate(self.download(source), start=1)

    def how(self, source: Source) -> str:
        return f"{self.by_hand(source)}, or pip install 'unmask[eval]' and leave both out to download {source.hub[0]}"

    def by_hand(self, source: Source) -> str:
        return f"give the file with --data FILE, or a folder with {source.file}.jsonl in UNMASK_DATA"

    def download(self, source: Source) -> Iterator[Record]:
        try:
            from datasets import load_dataset
        except ImportError:
            raise UserError(f"the data of {self.name} is not here: {self.how(source)}") from None
        repo, config, split = source.hub
        logger = logging.getLogger("huggingface_hub")
        level = logger.level
        logger.setLevel(logging.ERROR)  # it tells of every retry; what came of them is for us to say
        try:
            return iter(load_dataset(repo, config, split=split))
        except Exception as error:  # whatever the network, the hub or the library raise
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UserError(f"{repo} could not be downloaded ({first}): {self.by_hand(source)}") from None
        finally:
            logger.setLevel(level)


def find(folder: Path, source: Source) -> Path | None:
    if not folder.is_dir():
        raise UserError(f"{folder} does not exist: name a JSONL file, or a folder that holds {source.file}.jsonl")
    for suffix in (".jsonl", ".jsonl.gz"):
        if (folder / f"{source.file}{suffix}").is_file():
            return folder / f"{source.file}{suffix}"
    return None


def belongs(record: Record, source: Source) -> bool:
    return source.where is None or all(record.get(key, value) == value for key, value in source.where.items())


def read_jsonl(path: Path) -> Iterator[tuple[int, Record]]:
    """Numbered records of a JSONL file, gzip-compressed or not."""
    number = 0
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines
        ):
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise UserError(f"{path}, line {number} is not a JSON object")
                yield number, record
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text (after line {number})") from None
    except RecursionError:
        raise UserError(f"{path}, line {number} is nested too deep to be a row") from None
    except ValueError as error:
        raise UserError(f"{path}, line {number} is not JSON: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read (after line {number}): {error}") from None


def checksum(rows: Iterable[Record], fields: tuple[str, ...]) -> str:
    sha = hashlib.sha256()
    for row in rows:
        sha.update(
            json.dumps([same(row[field]) for field in fields], ensure_ascii=False).encode("utf-8", "surrogatepass")
            + b"\n"
        )
    return sha.hexdigest()


def same(value: Any) -> Any:
    """Without line-end style and outer white space, in which copies of a set differ."""
    if isinstance(value, str):
        return value.replace("\r\n", "\n").strip()
    return [same(item) for item in value] if isinstance(value, list) else value
