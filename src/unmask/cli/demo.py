"""`unmask demo`: a fresh word problem, solved by the embedded model, and what parallel decoding is worth."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from unmask.cli import options as opt
from unmask.wording import decoder_title, duration

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.api import Generation
    from unmask.models import Model
    from unmask.tasks import Example, Task

TASK = "wordproblems"
DECODERS = ("default", "fast-dllm", "rpd")


def demo(
    seed: Annotated[int | None, Option(min=0, help="the same problem again; a new one by default")] = None,
    model: opt.ModelName = "tiny",
    device: opt.Device = None,
    dtype: opt.Dtype = None,
) -> None:
    """Solve a fresh word problem with RPD, show the canvas by route, and compare three decoders."""
    from unmask.show import console
    from unmask.tasks import get

    seed = random.SystemRandom().randrange(100_000) if seed is None else seed
    task = get(TASK)
    example = next(iter(task.examples(limit=1, seed=seed)))
    loaded = opt.load_model(model, device, dtype, None)
    screen = console()
    screen.print(f"Problem {seed}: {example.prompt}\n", soft_wrap=False)
    result = solve(loaded, example, "rpd", screen, whole=True)
    screen.print(f"{result.text}\n")
    results = {"rpd": result}
    for decoder in DECODERS:
        if decoder not in results:
            results[decoder] = solve(loaded, example, decoder, screen, whole=False)
    screen.print(comparison(task, example, results))
    again = f" --model {model}" if model != "tiny" else ""
    screen.print(f"\nOne problem proves nothing; unmask demo --seed {seed}{again} shows this one again.")


def solve(model: Model, example: Example, decoder: str, screen: Console, whole: bool) -> Generation:
    """One decode, watched: the picture for the first, a bar for the others."""
    import unmask
    from unmask.show import Picture, Watcher

    moves = screen.is_terminal and not screen.is_dumb_terminal
    with Watcher(model.tokenizer.piece, whole and moves, screen) as watcher:
        result = unmask.generate(model, example.prompt, decoder, watch=watcher)
    assert not isinstance(result, list)
    if whole and not moves:
        picture = Picture.start(result.trace.header, result.trace.piece)
        for step in result.trace.steps:
            picture.apply(step)
        picture.fresh = set()
        screen.print(*picture.lines(screen.width), "", picture.legend(), "", sep="\n")
    return result


def comparison(task: Task, example: Example, results: dict[str, Generation]) -> Any:
    from unmask.show import plain_table

    right = ("forwards", "time", "speed-up")
    table = plain_table("decoder", "answer", "correct", *right, right=right)
    slowest = results["default"].seconds
    for name in DECODERS:
        result = results[name]
        score = task.score(example, result.text)
        shown = decoder_title(result.trace.header)
        verdict = "yes" if score.correct else f"no ({example.answer})"
        speed = f"{slowest / result.seconds:.1f}x" if result.seconds else "-"
        table.add_row(shown, score.extracted or "none", verdict, str(result.nfe), duration(result.seconds), speed)
    return table
