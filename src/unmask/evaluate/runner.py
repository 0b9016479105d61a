"""One evaluation from settings to summary: prepare what can fail, then run what is not on disk yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from unmask.evaluate.environment import versions
from unmask.evaluate.folder import RunFolder, read_config, read_samples
from unmask.evaluate.local import Executor, Local
from unmask.evaluate.plan import Plan, prepare
from unmask.evaluate.progress import Progress, Silent
from unmask.evaluate.settings import Settings
from unmask.evaluate.summary import Totals, rows, summarise


class Stopped(Exception):
    """Ctrl-C: the folder is whole, its summary is of what is done, and the same command goes on from there."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        super().__init__("stopped")
        self.rows = rows


def run(
    settings: Settings,
    out: Path,
    *,
    engine: Callable[[Plan], Executor] = Local,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Evaluate into the folder `out`, or finish what an earlier run left there; the rows of summary.json."""
    plan = prepare(settings)
    with closing(plan.examples), RunFolder(out, plan.identity) as folder:
        totals = recall(folder, plan)
        if any(plan.todo(folder.done, decoder) for decoder in settings.decoders):
            with closing(engine(plan)) as executor:
                folder.describe({**plan.identity, **about(executor)})
                work(plan, executor, folder, totals, progress or Silent())
        return folder.finish(rows(read_config(out), totals))


def work(plan: Plan, executor: Executor, folder: RunFolder, totals: dict[str, Totals], progress: Progress) -> None:
    try:
        for decoder in plan.settings.decoders:
            total = totals.setdefault(decoder.label, Totals())
            progress.start(decoder.label, len(plan.examples), total)
            todo = plan.todo(folder.done, decoder)
            if not todo:
                continue
            for samples in executor.run(decoder, todo):
                folder.write(samples)
                for sample in samples:
                    total.add(sample)
                progress.update(decoder.label, samples)
    except KeyboardInterrupt:  # perhaps between a sample's writing and its counting: what is on disk counts
        folder.flush()
        raise Stopped(folder.finish(summarise(folder.path))) from None
    finally:
        progress.stop()


def recall(folder: RunFolder, plan: Plan) -> dict[str, Totals]:
    """Which examples of which decoders are on disk already (into `folder.done`), and what they add up to."""
    totals: dict[str, Totals] = {}
    for sample in read_samples(folder.path):
        label = sample["decoder"]
        folder.done.setdefault(label, bytearray(len(plan.examples)))[sample["index"]] = 1
        totals.setdefault(label, Totals()).add(sample)
    return totals


def about(executor: Executor) -> dict[str, Any]:
    """What is worth knowing, but may differ when a run is resumed elsewhere: then it is listed under `visits`."""
    return {
        "engine": executor.name,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(),
        "hardware": executor.hardware(),
    }
