"""Run folders as a report reads them: summary rows, and which examples each decoder solved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.errors import UserError
from unmask.evaluate.folder import read_config, read_samples
from unmask.evaluate.summary import Totals, row
from unmask.report.stats import Paired, paired

ABSENT = 2  # in a verdict array: this example has no sample
# Settings of a run, beside its model and its examples, that a result depends on (a folder from before one of them was
# written down has None).
SETTINGS = ("canvas_length", "early_stop", "raw", "seed", "dtype", "fingerprint")
Group = tuple[Any, ...]
DEFAULTS = ("default", "llada-default", "dream-default")


@dataclass
class Result:
    """One decoder in one run folder."""

    folder: Path
    row: dict[str, Any]
    data: str  # checksum of the examples: only equal ones can be paired
    verdicts: bytearray  # per example: 1 right, 0 wrong, ABSENT

    @property
    def label(self) -> str:
        return self.row["label"]

    @property
    def place(self) -> tuple[str, str]:
        return (self.row["model"], self.row["task"])

    @property
    def group(self) -> Group:
        """What has to be equal for two results to stand side by side."""
        return (*self.place, self.data, *(self.row[name] for name in SETTINGS))

    @property
    def complete(self) -> bool:
        return bool(self.row["complete"])

    @property
    def total(self) -> int:
        """Examples of the run, decoded or not."""
        return len(self.verdicts)


def load(folders: Iterable[Path]) -> list[Result]:
    """Every decoder of every folder with at least one sample, in the order given."""
    results = [result for folder in folders for result in read(folder) if result.row["n"]]
    if not results:
        raise UserError("there is no finished example to report in the given folders")
    return results


def read(folder: Path) -> list[Result]:
    config = read_config(folder)
    n = config["task"]["n"]
    labels = [entry["label"] for entry in config["decoders"]]
    totals = {label: Totals() for label in labels}
    verdicts = {label: bytearray([ABSENT]) * n for label in labels}
    for sample in read_samples(folder):
        if sample["decoder"] in totals and 0 <= sample["index"] < n:
            totals[sample["decoder"]].add(sample)
            verdicts[sample["decoder"]][sample["index"]] = sample["correct"]
    return [
        Result(folder, row(config, entry, totals[entry["label"]]), config["task"]["sha256"], verdicts[entry["label"]])
        for entry in config["decoders"]
    ]


def compare(result: Result, reference: Result) -> Paired | None:
    """`result` against `reference` on the examples that both have; None where they are not comparable."""
    if result is reference or result.data != reference.data:
        return None
    pairs = zip(reference.verdicts, result.verdicts, strict=True)
    both = [(a == 1, b == 1) for a, b in pairs if ABSENT not in (a, b)]
    return paired([a for a, _ in both], [b for _, b in both]) if both else None


def by_place(results: Iterable[Result]) -> dict[tuple[str, str], dict[str, Result]]:
    """(model, task) -> label -> result. Two answers to one question are for the user to choose between."""
    found: dict[tuple[str, str], dict[str, Result]] = {}
    for result in results:
        place = found.setdefault(result.place, {})
        if result.label in place:
            raise UserError(
                f"{place[result.label].folder} and {result.folder} both hold {result.label} on {result.row['task']} "
                f"with {result.row['model']}: report them apart, or use --table summary"
            )
        place[result.label] = result
    return found


def unlike(results: Sequence[Result]) -> list[str]:
    """Names of what differs between results of one place, so that their numbers do not compare."""
    names = [name for name in SETTINGS if len({result.row[name] for result in results}) > 1]
    return ["examples"] * (len({result.data for result in results}) > 1) + names


def own_default(group: Iterable[Result]) -> Result | None:
    """The model's own decoder in a group: called `default`, else by its name, else any model's default."""
    known = {result.label: result for result in group if result.label in DEFAULTS}
    family = next((f"{result.row['family']}-default" for result in known.values()), "")
    return known.get("default") or known.get(family) or next(iter(known.values()), None)


def references(results: Sequence[Result], against: str | None) -> dict[Group, Result]:
    """Per group: the decoder named `against`; by default the model's own, or else the first."""
    groups: dict[Group, list[Result]] = {}
    for result in results:
        groups.setdefault(result.group, []).append(result)
    if against and all(result.label != against for result in results):
        labels = ", ".join(dict.fromkeys(result.label for result in results))
        raise UserError(f"no decoder {against!r} in these runs to compare against; they hold {labels}")

    def reference(group: list[Result]) -> Result:
        named = next((result for result in group if result.label == against), None)
        return named or (own_default(group) if not against else None) or group[0]

    return {key: reference(group) for key, group in groups.items()}
