"""Several decoders on one command line: `--decoders default,fast-dllm:threshold=0.8,rpd -o rpd.beta=2`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unmask.cli.options import parse_options
from unmask.errors import UserError
from unmask.evaluate.specs import DecoderSpec

WORDS = {"true": True, "false": False, "none": None, "null": None}


def parse_decoders(texts: str | Sequence[str], options: Sequence[str] | None = None) -> tuple[DecoderSpec, ...]:
    """`name[:option=value]...`, comma-separated; `-o name.option=value` goes to one, `-o option=value` to all.

    What is written beside a name wins over `-o`. Every `-o name.…` must name one of the decoders.
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    if not words:
        raise UserError("no decoder was named: use --decoders default,rpd")
    names = [word.split(":")[0] for word in words]
    outer = [_outer(text, names) for text in options or ()]
    specs: list[DecoderSpec] = []
    for word, name in zip(words, names, strict=True):
        shared = [rest for owner, rest in outer if owner in (None, name)]
        inline = word.split(":")[1:]
        beside = {text.partition("=")[0] for text in inline}
        given = [text for text in shared if text.partition("=")[0] not in beside] + inline
        if word in (spec.label for spec in specs):
            raise UserError(f"decoder {word} is named twice: give each its own options")
        specs.append(DecoderSpec(word, name, typed(name, given)))
    return tuple(specs)


def typed(name: str, given: Sequence[str]) -> dict[str, Any]:
    """Options as the decoder's own types. Which decoder `default` is, only the model knows: those are guessed."""
    if name != "default":
        return parse_options(name, given)
    options: dict[str, Any] = {}
    for text in given:
        option, equals, value = text.partition("=")
        if not equals or not option:
            raise UserError(f"{text!r} is not an option: write NAME=VALUE, as in threshold=0.8")
        options[option] = guess(value)
    return options


def guess(text: str) -> Any:
    """A number where it reads as one, true/false/none as such, anything else as text."""
    if text.strip().lower() in WORDS:
        return WORDS[text.strip().lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _outer(text: str, names: Sequence[str]) -> tuple[str | None, str]:
    """`rpd.beta=2` -> ("rpd", "beta=2"); `beta=2` -> (None, "beta=2")."""
    option, equals, value = text.partition("=")
    owner, dot, inner = option.rpartition(".")
    if not dot or not equals:
        return None, text
    if owner not in names:
        raise UserError(f"-o {text}: {owner} is not among the decoders {', '.join(names)}")
    return owner, f"{inner}={value}"
