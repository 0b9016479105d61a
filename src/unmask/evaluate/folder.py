"""A run folder: config.json, samples.jsonl, summary.json. Survives kill -9 at any instruction.

A sample is one line, written whole and synchronised before the run goes on. Only the last line can be torn,
and whoever opens the folder next cuts it off. Evaluations and diagnostics keep their samples alike; the `Kind`
says which it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from unmask.errors import UserError

CONFIG, SAMPLES, SUMMARY, LOCK = "config.json", "samples.jsonl", "summary.json", ".lock"
VISIT = ("engine", "versions", "hardware", "started")  # of a configuration: what may differ when a run is resumed


@dataclass(frozen=True)
class Kind:
    """What a folder holds, as its configuration names it, and the fields that every whole sample has."""

    format: str
    fields: frozenset[str]
    version: int = 1


EVAL = Kind("unmask.eval", frozenset({"decoder", "index", "correct"}))


class RunFolder:
    """The sink. `identity` is the part of the configuration that must not change between two visits."""

    def __init__(self, path: Path, identity: Mapping[str, Any], kind: Kind = EVAL) -> None:
        self.path, self.samples, self.kind = path, path / SAMPLES, kind
        self.done: dict[str, bytearray] = {}  # decoder -> one flag per example
        self._lock: IO[str] | None = None
        self._out: IO[str] | None = None
        try:
            check_identity(path, identity, kind)  # before anything is touched
            path.mkdir(parents=True, exist_ok=True)
            self._lock = take_lock(path)
            check_identity(path, identity, kind)  # again: the holder of the lock may just have created it
            repair(self.samples, kind)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise UserError(f"the run folder {path} cannot be written: {error.strerror or error}") from None
            raise

    def describe(self, config: Mapping[str, Any]) -> None:
        """Write the configuration, or what is new about this visit; from here on samples may follow."""
        if not (self.path / CONFIG).exists():
            write_json(self.path / CONFIG, {"format": self.kind.format, "version": self.kind.version, **config})
        else:
            self.revisit(json.loads(dumps({key: config[key] for key in VISIT if key in config})))
        self._out = self.samples.open("a", encoding="utf-8")

    def revisit(self, visit: dict[str, Any]) -> None:
        """Another machine or other versions: samples of both follow, so the configuration has to name both."""
        held = read_config(self.path, self.kind)
        known = [{key: held[key] for key in VISIT if key in held}, *held.get("visits", [])]
        if all({**old, "started": None} != {**visit, "started": None} for old in known):
            write_json(self.path / CONFIG, {**held, "visits": [*held.get("visits", []), visit]})

    def write(self, samples: Iterable[Mapping[str, Any]]) -> None:
        assert self._out is not None
        self._out.writelines(dumps(sample) + "\n" for sample in samples)
        self._out.flush()
        os.fsync(self._out.fileno())

    def flush(self) -> None:
        """After an interruption in the middle of `write`: what it had taken in is on disk."""
        if self._out is not None:
            self._out.flush()

    def finish(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        write_json(self.path / SUMMARY, rows)
        return rows

    def close(self) -> None:
        for handle in (self._out, self._lock):
            if handle is not None:
                handle.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def take_lock(path: Path) -> IO[str]:
    """The kernel drops the lock with its process, so a killed run never leaves the folder locked."""
    import fcntl

    handle = (path / LOCK).open("a", encoding="utf-8")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise UserError(f"another run is writing to {path}: wait for it, or use another --out") from None
    return handle


def check_identity(path: Path, identity: Mapping[str, Any], kind: Kind = EVAL) -> None:
    """Refuse a folder that holds another run, or anything that is not a run."""
    if not path.exists():
        return
    if not path.is_dir():
        raise UserError(f"{path} is a file: give a folder with --out")
    if not (path / CONFIG).exists():
        strangers = [p.name for p in path.iterdir() if p.name not in (LOCK, CONFIG + ".partial")]
        if strangers:
            raise UserError(f"{path} holds {strangers[0]} and no run: give an empty or new folder with --out")
        return
    held = read_config(path, kind)
    held.setdefault("unmask", held.get("versions", {}).get("unmask"))  # where older folders have it
    for key, wanted in json.loads(dumps(identity)).items():
        if held.get(key) != wanted:
            raise UserError(
                f"{path} holds a run of another configuration ({difference(key, held.get(key), wanted)}): "
                "use another --out"
            )


def difference(key: str, held: Any, wanted: Any) -> str:
    """The first setting in which two values differ, by name."""
    if isinstance(held, dict) and isinstance(wanted, dict):
        for name in [*wanted, *held]:
            if held.get(name) != wanted.get(name):
                return difference(f"{key}.{name}", held.get(name), wanted.get(name))
    if isinstance(held, list) and isinstance(wanted, list) and len(held) == len(wanted):
        for number, (a, b) in enumerate(zip(held, wanted, strict=True)):
            if a != b:
                return difference(f"{key}[{number}]", a, b)
    return f"{key} {dumps(held)}, not {dumps(wanted)}"


def read_config(path: Path, kind: Kind = EVAL) -> dict[str, Any]:
    try:
        data = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is not a run folder: it has no {CONFIG}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path / CONFIG} cannot be read: {error}") from None
    held = data.get("format") if isinstance(data, dict) else None
    if held != kind.format:
        if str(held).startswith("unmask."):
            raise UserError(f"{path} holds another kind of run ({held}, not {kind.format}): give another folder")
        raise UserError(f"{path / CONFIG} is not the configuration of an unmask run")
    if data.get("version") != kind.version:
        raise UserError(
            f"{path} was written by format {data.get('version')}; this unmask reads format {kind.version}"
        )
    return data


def read_samples(path: Path, kind: Kind = EVAL) -> Iterator[dict[str, Any]]:
    """Finished samples in file order, each example of each decoder once; a torn last line is no sample."""
    seen: dict[str, set[int]] = {}
    file = path / SAMPLES
    if not file.exists():
        return
    with file.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            sample = parse(line, kind)
            if sample is None:
                if handle.peek(1):
                    raise UserError(f"{file}, line {number} is damaged: restore the file or delete that line")
                return
            known = seen.setdefault(sample.get("decoder", ""), set())
            if sample["index"] not in known:
                known.add(sample["index"])
                yield sample


def parse(line: bytes, kind: Kind = EVAL) -> dict[str, Any] | None:
    """A sample, or None for anything that is not a whole one."""
    if not line.endswith(b"\n"):
        return None
    try:
        sample = json.loads(line)
        return sample if isinstance(sample, dict) and kind.fields <= sample.keys() else None
    except ValueError:
        return None


def repair(file: Path, kind: Kind = EVAL) -> None:
    """Cut off what a killed writer left of its last line."""
    if not file.exists():
        return
    good = 0
    with file.open("rb") as handle:
        for line in handle:
            if parse(line, kind) is None:
                break
            good += len(line)
        rest = handle.read()
    if rest:
        return  # damage in the middle is not a torn line: read_samples names it
    with file.open("r+b") as handle:
        handle.truncate(good)
        os.fsync(handle.fileno())


def write_json(path: Path, value: Any) -> None:
    """Beside the target, then moved into place: never half a file."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as handle:
        handle.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        handle.flush()
        os.fsync(handle.fileno())
    partial.replace(path)


def dumps(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return json.dumps(value, separators=(",", ":"), allow_nan=False)  # half a surrogate pair has no UTF-8
