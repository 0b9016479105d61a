"""`unmask replay`: a recorded decode as a story, or against another decoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from unmask.cli import options as opt
from unmask.errors import UserError
from unmask.files import check_writable

if TYPE_CHECKING:
    from unmask.replay import Comparison
    from unmask.trace import Trace


def replay(
    trace: Annotated[Path, Argument(help="a file written by unmask generate --trace", metavar="TRACE")],
    decoder: Annotated[
        str | None, Option("--decoder", "-d", help="show the first step at which this one would differ")
    ] = None,
    option: opt.Options = None,
    model: Annotated[
        str | None, Option("--model", "-m", help="the model for --decoder; the recorded one by default")
    ] = None,
    steps: Annotated[str | None, Option(metavar="A:B", help="tell only these steps, in full")] = None,
    svg: Annotated[Path | None, Option(help="draw the decode as a moving picture into this file instead")] = None,
    beside: Annotated[
        list[Path] | None, Option(metavar="TRACE", help="with --svg: another decode, shown in step with it")
    ] = None,
    device: opt.Device = None,
    dtype: opt.Dtype = None,
    revision: opt.Revision = None,
    json: opt.Json = False,
) -> None:
    """Tell a recorded decode step by step: what was committed and why, and what waits.

    With --decoder, also ask that decoder at the recorded states, and show the first step at which it
    would have chosen differently.
    """
    if decoder is None and (option or model):
        raise UserError(f"{'--option' if option else '--model'} belongs to a --decoder: name one to compare with")
    if beside and svg is None:
        raise UserError("--beside belongs to --svg: name the file to draw both decodes into")
    from unmask.trace import Trace

    recorded = Trace.load(trace)
    if svg is not None:
        from unmask.animation import save

        check_writable(svg)
        save([recorded, *map(Trace.load, beside or ())], svg)
        return
    chosen = parse_steps(steps, len(recorded.steps))
    comparison = None
    if decoder is not None:
        comparison = compare(recorded, decoder, option, model, (device, dtype, revision))
    if json:
        opt.print_json(document(recorded, chosen, comparison))
        return
    from unmask.show import console
    from unmask.story import tell, tell_comparison

    screen = console()
    tell(recorded, screen, chosen)
    if comparison:
        tell_comparison(comparison, recorded, screen)


def compare(
    trace: Trace, decoder: str, option: list[str] | None, model: str | None, place: tuple[Any, Any, Any]
) -> Comparison:
    early = opt.early_decoder(decoder, option)
    device, dtype, revision = place
    if model is None:  # the recorded one, as it was loaded
        model, dtype = trace.header.get("model"), dtype or trace.header.get("dtype")
        revision = revision or trace.header.get("revision")
    if not model:
        raise UserError("the trace does not say which model made it: give one with --model")
    loaded = opt.load_model(model, device, dtype, revision)
    from unmask.replay import compare

    return compare(trace, loaded, opt.late_decoder(early, decoder, option, loaded), decoder)


def parse_steps(text: str | None, count: int) -> tuple[int, int] | None:
    """`3:7`, `3:`, `:7` or `3`, counted from 1, both ends included."""
    if text is None:
        return None
    first, colon, last = text.partition(":")
    try:
        a = int(first) if first.strip() else 1
        b = (int(last) if last.strip() else count) if colon else a
    except ValueError:
        raise UserError(f"--steps takes A:B, as in 3:7, not {text!r}") from None
    if a > count:
        raise UserError(f"--steps {text}: the trace has only {count} steps")
    if not 1 <= a <= b:
        raise UserError(f"--steps {text}: steps are counted from 1, the first not after the last")
    return a, min(b, count)


def document(trace: Trace, steps: tuple[int, int] | None, comparison: Comparison | None) -> dict[str, Any]:
    import numpy as np

    from unmask.replay import seats

    first, last = steps or (1, len(trace.steps))
    told = [
        {
            "step": n,
            "nfe": step.nfe,
            "committed": [seat.to_json() for seat in seats(trace, step, np.flatnonzero(step.committed))],
            "waiting": counts(step.verdict[~step.committed]),
        }
        for n, step in enumerate(trace.steps, start=1)
        if first <= n <= last
    ]
    header = {name: value for name, value in trace.header.items() if name not in ("pieces", "prompt_ids")}
    return {
        **header,
        "steps": told,
        "routes": trace.route_counts(),
        "seconds": trace.seconds(),
        "end": trace.end,
        "comparison": comparison.to_json() if comparison else None,
    }


def counts(verdicts) -> dict[str, int]:
    from collections import Counter

    return dict(Counter(str(verdict) for verdict in verdicts).most_common())
