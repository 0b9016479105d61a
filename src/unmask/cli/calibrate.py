"""`unmask calibrate`: RPD settings for a model, read off its own evidence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option

from unmask.cli.options import Device, Dtype, Json, ModelName, Revision, check_device, print_json
from unmask.wording import columns, number

TaskName = Annotated[str, Option("--task", "-t", help="whose examples and gold traces are used")]
Traces = Annotated[Path | None, Option("--traces", help="gold traces from a JSONL file instead of the task's own")]
RiskTarget = Annotated[float, Option(help="share of wrong tokens tolerated among those that are admitted")]
Limit = Annotated[int, Option(min=1, help="gold traces")]
Trial = Annotated[int, Option(help="validation examples that the settings are tried on")]
HeldOut = Annotated[int, Option("--held-out", help="examples that compare the proposal with the usual settings")]
Quick = Annotated[bool, Option("--quick", help="about a tenth of the work: to see the report, not to rely on it")]
BatchSize = Annotated[int, Option(min=1, help="examples decoded together")]
CanvasLength = Annotated[int | None, Option(min=1, help="tokens per answer; the model's own by default")]
Data = Annotated[Path | None, Option(help="where a task that reads its examples finds them")]


def calibrate(
    model: ModelName = "tiny",
    task: TaskName = "wordproblems",
    traces: Traces = None,
    risk: RiskTarget = 0.02,
    limit: Limit = 400,
    trial: Trial = 64,
    held_out: HeldOut = 160,
    quick: Quick = False,
    batch_size: BatchSize = 8,
    canvas_length: CanvasLength = None,
    out: Annotated[Path | None, Option(help="the folder; named after the settings by default")] = None,
    data: Data = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    as_json: Json = False,
) -> None:
    """Propose theta_h, theta_c, theta_s, w, first_layer and beta for a model under a risk target.

    Masked gold traces show how often tokens are wrong by confidence, persistence, drop and upstream entropy; a
    trial on validation examples picks the budget; held-out examples compare the proposal with the usual settings.
    Writes rpd.json (for -o @FILE), calibration.json and report.html. The same command goes on where an
    interrupted one stopped.
    """
    from unmask.cli.diagnose import default_folder
    from unmask.diagnostics.calibrate import Request
    from unmask.diagnostics.calibrate import calibrate as run

    request = Request(
        model, task, traces, risk, limit, trial=trial, held_out=held_out, batch_size=batch_size,
        canvas_length=canvas_length, device=check_device(device), dtype=dtype, revision=revision, data=data,
    )  # fmt: skip
    if quick:
        request = request.quick
    out = out or default_folder("calibration", model, {**request.held(), "file": str(traces)})
    try:
        document = run(request, out, bars)
    except KeyboardInterrupt:
        print(f"stopped; the same command goes on from {out}", file=sys.stderr)
        raise Exit(130) from None
    if as_json:
        print_json(document)
    else:
        show(document)
        print(f"\n{out / 'report.html'}\n{out / 'rpd.json'}")


def bars(part: str) -> Any:
    """Progress of one part on stderr."""
    from unmask.diagnostics.survey import StatesBar
    from unmask.evaluate.progress import Bars

    return Bars(StatesBar) if part == "states" else Bars()


def show(document: dict[str, Any]) -> None:
    rows = [
        (choice["name"], number(choice["value"]), number(choice["usual"]), choice["why"])
        for choice in document["choices"]
    ]
    print(columns(("setting", "value", "usual", "why"), rows, width=110))
    found = document["held_out"]
    difference, nfe = found["accuracy"], found["nfe_ci95"]
    low, high = (100 * end for end in difference["ci95"])
    print(
        f"\nheld-out, n {difference['n']}: accuracy {100 * difference['difference']:+.1f} points "
        f"[{low:+.1f}, {high:+.1f}], "
        f"forwards {found['nfe']:+.2f} [{nfe[0]:+.2f}, {nfe[1]:+.2f}]\n{found['verdict']}"
    )
