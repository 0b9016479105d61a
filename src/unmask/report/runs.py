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


@dataclass
class Result:
    """One decoder in one run folder."""

    folder: Path
    row: dict[str, Any]
    data: str  # checksum of the examples: only equal ones can be paired
    verdicts: bytearray  # per example: 1 right, 0 wrong, ABSENT
    family: str = ""

    @property
    def label(self) -> str:
        return self.row["label"]

    @property
    def group(self) -> tuple[str, str, str]:
        """What has to be equal for two results to stand side by side."""
        return (self.row["model"], self.row["task"], self.data)


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
    family = config["model"].get("family", "")
    return [
        Result(
            folder, row(config, entry, totals[entry["label"]]), config["task"]["sha256"], verdicts[entry["label"]],
            family,
        )
        for entry in config["decoders"]
    ]  # fmt: skip


def compare(result: Result, reference: Result) -> Paired | None:
    """`result` against `reference` on the examples that both have; None where they are not comparable."""
    if result is reference or result.data != reference.data:
        return None
    pairs = zip(reference.verdicts, result.verdicts, strict=True)
    both = [(a == 1, b == 1) for a, b in pairs if ABSENT not in (a, b)]
    return paired([a for a, _ in both], [b for _, b in both]) if both else None


def references(results: Sequence[Result], against: str | None) -> dict[tuple[str, str, str], Result]:
    """Per group: the decoder named `against`; by default the model's own, or else the first."""
    chosen: dict[tuple[str, str, str], Result] = {}
    for result in results:
        chosen.setdefault(result.group, result)
    wanted = (against,) if against else ("dream-default", "llada-default", "default")
    for result in results:
        if result.label in wanted:
            chosen[result.group] = result
    if against and all(result.label != against for result in results):
        labels = ", ".join(dict.fromkeys(result.label for result in results))
        raise UserError(f"no decoder {against!r} in these runs to compare against; they hold {labels}")
    return chosen
