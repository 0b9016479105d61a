"""One decoder of a run: what was asked for, and what that means for a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unmask import decoders

if TYPE_CHECKING:
    from unmask.decoders.base import Decoder
    from unmask.models.spec import ModelSpec


@dataclass(frozen=True)
class DecoderSpec:
    """The label is what tables and samples call it (`fast-dllm:threshold=0.8`); it is unique within a run."""

    label: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self, spec: ModelSpec, canvas_length: int) -> Decoder:
        """The decoder object; whatever is wrong with its options is a UserError here, before any run."""
        return decoders.get(self.name, spec=spec, **self.options).resolve(spec, canvas_length)

    def resolved_name(self, spec: ModelSpec) -> str:
        return decoders.find(self.name, spec)[2]
