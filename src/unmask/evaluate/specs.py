"""Decoders as a command line names them: `default,fast-dllm:threshold=0.8,rpd` plus `-o rpd.beta=2`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unmask import decoders
from unmask.errors import UserError

if TYPE_CHECKING:
    from unmask.decoders.base import Decoder
    from unmask.models.spec import ModelSpec

WORDS = {"true": True, "false": False, "none": None, "null": None}


@dataclass(frozen=True)
class DecoderSpec:
    """One decoder of a run. The label is what tables and samples call it; it is unique within the run."""

    label: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self, spec: ModelSpec, canvas_length: int) -> Decoder:
        """The decoder object; whatever is wrong with its options is a UserError here, before any run."""
        return decoders.get(self.name, spec=spec, **self.options).resolve(spec, canvas_length)

    def resolved_name(self, spec: ModelSpec) -> str:
        return decoders.find(self.name, spec)[2]


def parse_decoders(texts: str | Sequence[str], options: Iterable[str] = ()) -> tuple[DecoderSpec, ...]:
    """`name[:option=value]...`, separated by commas; `-o name.option=value` goes to one, `-o option=value` to all.

    What is written beside a name wins over `-o`. Every `-o` must reach a decoder: a stray one is an error.
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    if not words:
        raise UserError("no decoder was named: use --decoders default,rpd")
    outer = [_outer(text) for text in options]
    specs = []
    for word in words:
        name, *inline = word.split(":")
        for owner, option, value, text in outer:
            _must_reach(owner, text, [other.split(":")[0] for other in words])
        shared = {option: value for owner, option, value, _ in outer if owner in (None, name)}
        specs.append(DecoderSpec(word, name, shared | dict(_assignment(text) for text in inline)))
    labels = [spec.label for spec in specs]
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(f"decoder {label} is named twice: give each its own options")
    return tuple(specs)


def _outer(text: str) -> tuple[str | None, str, Any, str]:
    """`rpd.beta=2` -> ("rpd", "beta", 2, ...); `beta=2` -> (None, "beta", 2, ...)."""
    option, value = _assignment(text)
    owner, dot, inner = option.rpartition(".")
    return (owner if dot else None), inner, value, text


def _must_reach(owner: str | None, text: str, names: Sequence[str]) -> None:
    if owner is not None and owner not in names:
        raise UserError(f"-o {text}: {owner} is not among --decoders {','.join(names)}")


def _assignment(text: str) -> tuple[str, Any]:
    option, equals, value = text.partition("=")
    if not equals or not option.strip() or not value.strip():
        raise UserError(f"{text!r} is not an option: write name=value, as in threshold=0.8")
    return option.strip().replace("-", "_"), parse_value(value.strip())


def parse_value(text: str) -> Any:
    """A number where it reads as one, true/false/none as such, anything else as text."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
