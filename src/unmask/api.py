"""The public call: prompts in, Generations out. Builds rows, runs the loop, cuts the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

from unmask import decoders
from unmask.canvas import Canvas, answer
from unmask.decoders.base import Decoder
from unmask.errors import UserError
from unmask.trace import Step, Trace

if TYPE_CHECKING:
    import torch

    from unmask.guardrails import Warning
    from unmask.loop import Row
    from unmask.models import Model

Prompt = str | Sequence[Mapping[str, str]]  # text, or chat messages


@dataclass
class Generation:
    """One answer. `tokens` are the ids strictly before the first end token (behind given text); TPS counts those."""

    text: str
    tokens: list[int]
    nfe: int
    seconds: float  # decoding loop only; this row's share where a batch shared the steps
    finish_reason: str  # "stop" at an end token, "length" where the canvas filled up without one
    trace: Trace
    canvas: list[int] = field(repr=False, default_factory=list)

    @property
    def tokens_per_second(self) -> float:
        return len(self.tokens) / self.seconds if self.seconds else 0.0

    @cached_property
    def warnings(self) -> list[Warning]:
        """What the decode did that its answer may not survive (docs/guardrails.md)."""
        from unmask.guardrails import check

        return check(self.trace)

    def _repr_html_(self) -> str:
        """What a notebook shows: the canvas, coloured by route."""
        from unmask.view import generation_html

        return generation_html(self)


def generate(
    model: Model,
    prompt: Prompt | Sequence[Prompt],
    decoder: str | Decoder = "rpd",
    *,
    canvas_length: int | None = None,
    canvas: Sequence[str | int] | None = None,
    seed: int = 0,
    raw: bool = False,
    early_stop: bool = False,
    drop_tail: bool = False,
    score_dtype: torch.dtype | str | None = None,
    watch: Callable[[Row, Step], None] | None = None,
    **options: Any,
) -> Generation | list[Generation]:
    """Decode one prompt, or a list of them as one batch; every row gets exactly what it gets alone.

    A prompt is a text, or a list of chat messages. `decoder` is a name (with `options`, as in `beta=4`) or a
    decoder object. `canvas` fills in the middle: text is kept, numbers are that many masks, as in
    `["def f(x):\\n", 12, "return y"]`; an end token cuts the answer only behind all text that was given. `raw` skips
    the chat template, and in a raw prompt a special token may be spelled out (a chat message is always plain text).
    `early_stop` ends a row once its answer is final, with masks left behind the end token. `drop_tail`, with it,
    leaves committed end-of-text behind end-of-text out of the forward: less work, but an approximation, because the
    model no longer sees how long the tail is.
    """
    import torch

    from unmask.loop import Loop
    from unmask.models import Model, parse_dtype

    if not isinstance(model, Model):
        raise UserError(f"generate takes a loaded model, not {model!r}: model = unmask.load('tiny')")
    many = isinstance(prompt, list | tuple) and not any(isinstance(item, Mapping) for item in prompt)
    prompts: list[Any] = list(prompt) if many else [prompt]
    precision = parse_dtype(score_dtype) or torch.float32
    if not prompts:
        return []
    rows = [
        make_row(model, item, decoder, options, canvas_length=canvas_length, canvas=canvas, seed=seed, raw=raw)
        for item in prompts
    ]
    for index, row in enumerate(rows):
        row.tag = index if many else None
        row.trace.header["score_dtype"] = dtype_name(precision)
        if drop_tail:
            row.trace.header["drop_tail"] = True
    Loop(model, score_dtype=precision, early_stop=early_stop, drop_tail=drop_tail, watch=watch).run(rows)
    results = [finish(model, row) for row in rows]
    return results if many else results[0]


def make_row(
    model: Model,
    prompt: Prompt,
    decoder: str | Decoder = "rpd",
    options: Mapping[str, Any] | None = None,
    *,
    canvas_length: int | None = None,
    canvas: Sequence[str | int] | None = None,
    seed: int = 0,
    raw: bool = False,
) -> Row:
    """Everything that can be wrong with a request is found here, before the first forward."""
    import torch

    from unmask.loop import Row, plain

    if isinstance(decoder, str):
        decoder = decoders.get(decoder, spec=model.spec, **(options or {}))
    elif not isinstance(decoder, Decoder):
        raise UserError(f"decoder takes a name or a decoder object, not {decoder!r}")
    elif options:
        raise UserError(f"options {', '.join(options)} belong to a decoder name; set them on the decoder object")
    if not is_whole(seed) or abs(seed) >= 1 << 63:
        raise UserError(f"seed must be a whole number of at most 63 bits, not {seed!r}")
    prompt_ids = encode_prompt(model, prompt, raw)
    length, fixed = lay_out(model, canvas, canvas_length)
    room = model.spec.context - len(prompt_ids)
    if length > room:
        smaller = f" or use a canvas of at most {room}" if room > 0 else ""
        raise UserError(
            f"the prompt has {len(prompt_ids)} tokens and the canvas {length}, but {model.name} takes "
            f"{model.spec.context} in all: shorten the prompt{smaller}"
        )
    resolved = decoder.resolve(model.spec, length)
    header = {
        "model": model.name,
        "family": model.spec.family.name,
        "decoder": resolved.name,
        "label": decoder.label or decoder.name,  # as it was asked for: "default", "rpd-paper"
        "params": plain(resolved.params()),
        "prompt": prompt if isinstance(prompt, str) else [dict(message) for message in prompt],
        "prompt_ids": prompt_ids,
        "canvas_length": length,
        "fixed": {str(position): token for position, token in fixed.items()},
        "mask_id": model.spec.mask_id,
        "stop_ids": sorted(model.stop_ids),
        "seed": int(seed),
        "raw": raw,
        "dtype": dtype_name(model.net.dtype),
        "score_dtype": "float32",
    }
    if model.revision:
        header["revision"] = model.revision
    rng = torch.Generator(device=model.net.device).manual_seed(int(seed))
    return Row(Canvas(prompt_ids, length, model.spec.mask_id, fixed), resolved, Trace(header), rng)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def is_whole(value: Any) -> bool:
    """A whole number, numpy's included."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def encode_prompt(model: Model, prompt: Prompt, raw: bool) -> list[int]:
    if isinstance(prompt, str):
        if not prompt.strip():
            raise UserError("the prompt is empty: give some text")
        if raw:
            return model.tokenizer.encode(prompt)
        return model.tokenizer.encode_chat([{"role": "user", "content": prompt}])
    messages: Any = prompt
    if not isinstance(messages, Sequence) or not all(is_message(message) for message in messages):
        raise UserError(
            "a prompt is a text, or a list of chat messages that each have a role and a content, both text"
        )
    if not any(message["content"].strip() for message in messages):
        raise UserError("the prompt is empty: give some text")
    if raw:
        raise UserError("raw takes a plain text prompt, not chat messages")
    return model.tokenizer.encode_chat(messages)


def is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(value.get(key), str) for key in ("role", "content"))


def lay_out(
    model: Model, canvas: Sequence[str | int] | None, canvas_length: int | None
) -> tuple[int, dict[int, int]]:
    """Canvas length and fixed tokens, from parts of text and counts of masks (or all masks)."""
    if canvas_length is not None and (not is_whole(canvas_length) or canvas_length < 1):
        raise UserError(f"the canvas length must be a whole number of at least 1, not {canvas_length!r}")
    if canvas is None:
        return (model.spec.canvas_length if canvas_length is None else int(canvas_length)), {}
    if isinstance(canvas, str):
        raise UserError("canvas takes a list of texts and numbers of masks, not one text")
    fixed: dict[int, int] = {}
    at = 0
    for part in canvas:
        if is_whole(part) and part >= 1:  # type: ignore[operator]
            at += int(part)
        elif isinstance(part, str):
            for token in model.tokenizer.encode(part):
                if token == model.spec.mask_id:
                    raise UserError(f"{part!r} spells the mask token: give a number of masks instead")
                fixed[at] = token
                at += 1
        else:
            raise UserError(f"canvas parts are texts and positive numbers of masks, not {part!r}")
    if not at:
        raise UserError("the canvas is empty: give texts and numbers of masks")
    if canvas_length is not None:
        if canvas_length < at:
            raise UserError(f"the canvas parts take {at} positions, more than canvas_length {canvas_length}")
        at = int(canvas_length)
    return at, fixed


def finish(model: Model, row: Row) -> Generation:
    """Cut the answer, name the tokens the trace mentions, close the trace."""
    canvas = [int(token) for token in row.canvas.tokens]
    positions, _, end = answer(canvas, row.canvas.fixed, model.stop_ids)
    tokens = [canvas[position] for position in positions]
    if row.settled:
        tokens = [token for token in tokens if token != model.spec.mask_id]
    text = model.tokenizer.decode(tokens)
    reason = "length" if end is None else "stop"
    trace = row.trace
    seen = set(canvas) | {int(token) for step in trace.steps for token in set(step.token.tolist())}
    trace.header["pieces"] = {str(token): model.tokenizer.piece(token) for token in sorted(seen)}
    trace.end = {
        "text": text,
        "tokens": len(tokens),
        "non_eos": sum(token not in model.stop_ids and token != model.spec.mask_id for token in canvas),
        "canvas": len(canvas),
        "finish_reason": reason,
        "nfe": row.nfe,
        "branches": row.branches,
        "seconds": row.seconds,
    }
    return Generation(text, tokens, row.nfe, row.seconds, reason, trace, canvas)
