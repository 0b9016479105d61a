"""`unmask generate`: one prompt in, its answer out."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from unmask.cli import options as opt
from unmask.errors import UserError
from unmask.files import check_writable
from unmask.wording import decoder_title, duration, plural

if TYPE_CHECKING:
    from unmask.api import Generation
    from unmask.models import Model

GAP = re.compile(r"\[\[(\d+)\]\]")


def generate(
    prompt: Annotated[str, Argument(help="what to answer; - reads standard input")],
    model: opt.ModelName = "tiny",
    decoder: opt.DecoderName = "rpd",
    option: opt.Options = None,
    canvas_length: Annotated[
        int | None, Option(min=1, help="positions to decode; the model's own number by default")
    ] = None,
    infill: Annotated[
        str | None, Option(metavar="TEXT", help="the answer with gaps: [[12]] stands for 12 masked positions")
    ] = None,
    seed: Annotated[int, Option(min=0, max=2**63 - 1, help="for decoders that sample")] = 0,
    raw: Annotated[bool, Option("--raw", help="the prompt as it is, without the chat template")] = False,
    early_stop: Annotated[
        bool, Option("--early-stop", help="stop once the answer is final, whatever is masked behind it")
    ] = False,
    drop_tail: Annotated[
        bool, Option("--drop-tail", help="with --early-stop: no forward over repeated end-of-text (approximate)")
    ] = False,
    device: opt.Device = None,
    dtype: opt.Dtype = None,
    revision: opt.Revision = None,
    score_dtype: opt.ScoreDtype = "float32",
    compiled: opt.Compile = False,
    watch: Annotated[bool, Option("--watch", help="show the canvas as it is unmasked, on stderr")] = False,
    trace: Annotated[Path | None, Option(metavar="FILE", help="record every step, for unmask replay")] = None,
    json: opt.Json = False,
) -> None:
    """Answer a prompt, or fill the gaps of a text.

    The answer goes to stdout and one line of counts to stderr.
    """
    import unmask
    from unmask import guardrails
    from unmask.show import Watcher

    prompt = read_prompt(prompt)
    canvas = parse_infill(infill)
    if trace:
        check_writable(trace)
    early = opt.early_decoder(decoder, option)
    precision = opt.parse_score_dtype(score_dtype)
    loaded = opt.load_model(model, device, dtype, revision, compiled)
    policy = opt.late_decoder(early, decoder, option, loaded)
    warn_unknown(loaded, prompt, infill)
    known = guardrails.before(policy.name, policy.params())  # before minutes are spent on it
    for warning in known:
        opt.warn(str(warning))
    with ExitStack() as stack:
        watcher = stack.enter_context(Watcher(loaded.tokenizer.piece, whole=watch))
        result = unmask.generate(
            loaded, prompt, policy, canvas_length=canvas_length, canvas=canvas, seed=seed, raw=raw,
            early_stop=early_stop, drop_tail=drop_tail, score_dtype=precision, watch=watcher,
        )  # fmt: skip
    assert not isinstance(result, list)
    for warning in result.warnings:
        if warning not in known:
            opt.warn(str(warning))
    if trace:
        result.trace.save(trace)
    if json:
        opt.print_json(document(result))
    else:
        print(result.text)
        print(summary(result), file=sys.stderr)


def read_prompt(prompt: str) -> str:
    """The argument, or standard input for `-`; either must be text."""
    try:
        if prompt == "-":
            return sys.stdin.buffer.read().decode("utf-8").rstrip("\n")
        prompt.encode("utf-8")
    except UnicodeError:
        raise UserError("the prompt is not valid UTF-8 text") from None
    return prompt


def parse_infill(infill: str | None) -> list[str | int] | None:
    """`x = [[3]] + y` -> ["x = ", 3, " + y"]."""
    if infill is None:
        return None
    parts = GAP.split(infill)  # text, digits, text, ...
    if len(parts) == 1:
        raise UserError("--infill has no gap: write [[12]] where 12 positions are to be filled")
    canvas: list[str | int] = []
    for n, part in enumerate(parts):
        if n % 2:
            if len(part) > 9:
                raise UserError(f"--infill: a gap of {part[:9]}... positions is more than any canvas has")
            if int(part) < 1:
                raise UserError(f"--infill: [[{part}]] is not a gap: it needs at least 1 position")
            canvas.append(int(part))
        elif part:
            canvas.append(part)
    return canvas


def warn_unknown(model: Model, prompt: str, infill: str | None) -> None:
    texts = [prompt, *GAP.split(infill or "")[::2]]
    words = list(dict.fromkeys(word for text in texts for word in model.tokenizer.unknown_words(text) if word))
    if words:
        shown = ", ".join(repr(word) for word in words[:8]) + (" and others" if len(words) > 8 else "")
        them = "it" if len(words) == 1 else "them"
        opt.warn(f"{model.name} does not know {shown}; it reads {them} letter by letter, or as unknown")


def summary(result: Generation) -> str:
    header = result.trace.header
    full = "" if result.finish_reason == "stop" else " · canvas full"
    return (
        f"{decoder_title(header)} on {header['model']} · {plural(result.nfe, 'forward')} · "
        f"{plural(len(result.tokens), 'token')} · {duration(result.seconds)} · "
        f"{result.tokens_per_second:.1f} tokens/s{full}"
    )


def document(result: Generation) -> dict[str, Any]:
    header, end = result.trace.header, result.trace.end
    return {
        "text": result.text,
        "tokens": len(result.tokens),
        "nfe": result.nfe,
        "seconds": result.seconds,
        "tokens_per_second": result.tokens_per_second,
        "finish_reason": result.finish_reason,
        "decoder": header["decoder"],
        "label": header["label"],
        "params": header["params"],
        "model": header["model"],
        "seed": header["seed"],
        "canvas_length": header["canvas_length"],
        "routes": result.trace.route_counts(),
        "warnings": [warning.to_json() for warning in result.warnings],
        # `tokens` counts the answer: what stands before the first end token.
        "token_accounting": {"answer": end["tokens"], "non_eos": end["non_eos"], "canvas": end["canvas"]},
        "seconds_by_phase": result.trace.seconds(),
    }
