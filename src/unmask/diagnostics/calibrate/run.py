"""A calibration from request to report: states, proposal, trial, held-out comparison.

The folder holds `states/`, `trial/` and `held-out/`, each resumable on its own, so the same command goes on where an
interrupted one stopped; then `rpd.json` (the settings, for `-o @file`), `calibration.json` (all of the evidence) and
`report.html`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask import decoders, tasks
from unmask.errors import UserError
from unmask.evaluate.folder import CONFIG, LOCK, Kind, check_identity, take_lock, write_json

if TYPE_CHECKING:
    from unmask.evaluate.progress import Progress
    from unmask.models.spec import ModelSpec

Progresses = Callable[[str], "Progress | None"]  # what tells the user of each part, by its name

CALIBRATION = Kind("unmask.calibration", frozenset())
SETTINGS, EVIDENCE, PAGE = "rpd.json", "calibration.json", "report.html"
FEWEST = 20  # examples below which a decode tells nothing
TRACES_SEED, TRIAL_SEED = 325, 1  # different examples of an endless task


@dataclass(frozen=True)
class Request:
    """What a calibration depends on. The traces, the trial and the held-out examples share no example."""

    model: str
    task: str = "wordproblems"
    traces: Path | None = None  # gold traces from a file, instead of the task's own
    risk: float = 0.02
    limit: int = 400  # traces
    patterns: int = 2  # masks per trace and level: more traces say more than more masks of one
    trial: int = 64
    held_out: int = 160
    batch_size: int = 8
    canvas_length: int | None = None
    device: str | None = None
    dtype: str | None = None
    revision: str | None = None
    data: Path | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.risk < 1.0:
            raise UserError(f"--risk is a share between 0 and 1, as in 0.02, not {self.risk:g}")
        for option, count in (("trial", self.trial), ("held-out", self.held_out)):
            if count < FEWEST:
                raise UserError(f"--{option} {count} is too few examples to compare settings on: at least {FEWEST}")

    @property
    def quick(self) -> Request:
        """About a tenth of the work: enough to see the report, not to rely on it."""
        return replace(self, limit=min(self.limit, 120), patterns=1, trial=FEWEST, held_out=24)

    def held(self) -> dict[str, Any]:
        """As config.json holds it. A file's place is left out: the states know the checksum of its traces."""
        left_out = ("traces", "device", "dtype", "data")
        kept = {name: value for name, value in asdict(self).items() if name not in left_out}
        return {**kept, "model": str(self.model), "traces": "file" if self.traces else "task"}


def calibrate(request: Request, out: Path, progress: Progresses | None = None) -> dict[str, Any]:
    """Everything that is not in the folder yet; what `calibration.json` holds."""
    from unmask.diagnostics.calibrate.page import write_page

    check_identity(out, {"request": request.held()}, CALIBRATION)
    source, trial, held_out = splits(request)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = take_lock(out)
    except OSError as error:
        raise UserError(f"the folder {out} cannot be written: {error.strerror or error}") from None
    with lock:
        if not (out / CONFIG).exists():
            write_json(out / CONFIG, {"format": CALIBRATION.format, "version": 1, "request": request.held()})
        try:
            document = work(request, out, source, trial, held_out, progress or (lambda _: None))
        except UserError:
            leave_no_trace(out)
            raise
        write_json(out / SETTINGS, document["settings"])
        write_json(out / EVIDENCE, document)
        write_page(document, out / PAGE)
    return document


def leave_no_trace(out: Path) -> None:
    """A request refused before its first forward leaves nothing: no folder that a corrected one would be refused
    for, and no empty one either."""
    if not (out / "states").exists():
        (out / CONFIG).unlink(missing_ok=True)
        if [path.name for path in out.iterdir()] == [LOCK]:
            (out / LOCK).unlink()
            out.rmdir()


def splits(request: Request) -> tuple[tuple[str, int], tuple[str, int], tuple[str, int]]:
    """(split, seed) of the traces, the trial and the held-out examples."""
    task = tasks.get(request.task)
    if getattr(task, "endless", False):
        return ("validation", TRACES_SEED), ("validation", TRIAL_SEED), ("test", 0)
    known = task.benchmark.splits  # type: ignore[attr-defined]
    if "train" in known:
        return ("train", TRACES_SEED), ("train", 0), ("test", 0)
    raise UserError(
        f"task {request.task} has no training split, so nothing would be held out: calibrate on wordproblems or "
        "gsm8k, and evaluate the settings on it"
    )


def work(
    request: Request, out: Path, source: tuple[str, int], trial: tuple[str, int], held_out: tuple[str, int],
    progress: Progresses,
) -> dict[str, Any]:  # fmt: skip
    from unmask.diagnostics.calibrate import decode, evidence, rules, summary
    from unmask.diagnostics.states import first_layer
    from unmask.diagnostics.survey import STATES
    from unmask.evaluate.folder import read_samples

    spec = read_model_spec(request)
    length = request.canvas_length or spec.canvas_length
    usual = decoders.get("rpd").resolve(spec, length).params()
    config = collect(request, length, out / "states", source, progress)
    tokens, states = evidence.read(read_samples(out / "states", STATES))
    proposal = rules.propose(tokens, request.risk, spec.layers, first_layer(spec.layers), float(usual["beta"]))
    strict = rules.propose(
        tokens, request.risk, spec.layers, first_layer(spec.layers), float(usual["beta"]), float(usual["theta_h"])
    )
    arms = decode.trial_arms(proposal, strict, float(usual["beta"]))
    tried = decode.decode(fields(request, trial, request.trial), arms, out / "trial", progress("trial"))
    proposal, chosen = decode.settle(proposal, strict, tried)
    rules.measure(proposal, tokens, float(usual["beta"]))
    params = proposal.params()
    pair = {"uncalibrated": {}, "calibrated": params}
    before, after = decode.decode(
        fields(request, held_out, request.held_out), pair, out / "held-out", progress("held-out")
    )
    comparison = decode.Comparison.of(before, after)
    return {
        "format": CALIBRATION.format, "version": CALIBRATION.version, "request": request.held(), "settings": params,
        **summary.of_proposal(proposal, usual),
        **summary.of_evidence(tokens, states, proposal, float(usual["beta"])),
        **summary.of_decodes(tried, chosen, comparison),
        "account": config["account"], "about": about(config),
    }  # fmt: skip


def collect(
    request: Request, length: int, folder: Path, source: tuple[str, int], progress: Progresses
) -> dict[str, Any]:
    """The masked states of the gold traces, on a canvas as long as a decode's: with nothing behind the target, a
    model takes the canvas' end for the text's and is confidently wrong about what stands before it."""
    from unmask.diagnostics import survey
    from unmask.diagnostics.states import window

    asked = survey.Request(
        request.model, request.traces or request.task, request.limit, split=source[0], seed=source[1],
        patterns=request.patterns, device=request.device, dtype=request.dtype, revision=request.revision,
        data=request.data, canvas=length, skip=skipped(request),
    )  # fmt: skip
    return survey.survey(asked, folder, progress("states"), window)


def skipped(request: Request) -> int:
    """A task without an endless supply: the trial takes its first training examples, the traces come after them."""
    endless = getattr(tasks.get(request.task), "endless", False)
    return 0 if endless or request.traces else request.trial


def fields(request: Request, examples: tuple[str, int], count: int) -> dict[str, Any]:
    """Settings of an evaluation, but for its decoders."""
    return {
        "model": request.model, "task": request.task, "split": examples[0], "seed": examples[1], "limit": count,
        "batch_size": request.batch_size, "canvas_length": request.canvas_length, "device": request.device,
        "dtype": request.dtype, "revision": request.revision, "data": request.data,
    }  # fmt: skip


def read_model_spec(request: Request) -> ModelSpec:
    from unmask.models import locate
    from unmask.models.hub import fetch
    from unmask.models.spec import read_spec

    return read_spec(Path(locate(request.model) or fetch(request.model, request.revision)))


def about(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: config.get(name) for name in ("model", "hardware", "versions", "started")}
