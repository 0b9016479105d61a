"""Every decoder by name. Listing names imports nothing; third parties add theirs with one entry point.

[project.entry-points."unmask.decoders"]
mine = "my_package:MyDecoder"
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from unmask.errors import UserError, unknown

if TYPE_CHECKING:
    from unmask.decoders.base import Commit, Decoder, StepView
    from unmask.decoders.confidence import FastDLLM
    from unmask.decoders.dependency import DAPD
    from unmask.decoders.entropy_bound import EBSampler
    from unmask.decoders.lookahead import LoPA
    from unmask.decoders.reliable import RPD, RPDBlock
    from unmask.decoders.sequential import DreamDefault, LeftToRight, LladaDefault
    from unmask.models.spec import ModelSpec

CLASSES = {
    "Decoder": "base", "Commit": "base", "StepView": "base",
    "LladaDefault": "sequential", "DreamDefault": "sequential", "LeftToRight": "sequential",
    "FastDLLM": "confidence", "EBSampler": "entropy_bound", "LoPA": "lookahead", "DAPD": "dependency",
    "RPD": "reliable", "RPDBlock": "reliable",
}  # fmt: skip

# name -> (class, preset options). A preset is a named point in a decoder's own parameter space.
BUILT_IN: dict[str, tuple[str, dict[str, Any]]] = {
    "llada-default": ("LladaDefault", {}),
    "dream-default": ("DreamDefault", {}),
    "left-to-right": ("LeftToRight", {}),
    "fast-dllm": ("FastDLLM", {}),
    "eb-sampler": ("EBSampler", {}),
    "lopa": ("LoPA", {}),
    "dapd": ("DAPD", {}),
    "rpd": ("RPD", {}),
    "rpd-block": ("RPDBlock", {}),
    "rpd-paper": ("RPD", {"settings": "paper", "fallback": "window"}),
    # The paper's ablation, from confidence alone to what each part adds.
    "confidence": ("FastDLLM", {"block_length": None}),
    "confidence+block": ("FastDLLM", {}),
    "confidence+pp": ("RPDBlock", {"w": 0.0}),
    "confidence+ce": ("RPD", {"theta_h": 0.9, "theta_c": 0.9}),
}
GROUP = "unmask.decoders"


def names() -> list[str]:
    return ["default", *BUILT_IN, *sorted(_third_party())]


def get(name: str, *, spec: ModelSpec | None = None, **options: Any) -> Decoder:
    """A decoder by name: `get("rpd", beta=4.0)`. `default` is the model's own and needs its `spec`."""
    from unmask.decoders.base import build

    cls, preset, _ = find(name, spec)
    decoder = build(cls, options, preset)
    object.__setattr__(decoder, "label", name)  # no option: two decoders of equal options are equal
    return decoder


def find(name: str, spec: ModelSpec | None = None) -> tuple[type[Decoder], Mapping[str, Any], str]:
    """Class, preset options and plain name behind a decoder name."""
    if name == "default":
        if spec is None:
            raise UserError("decoder 'default' is the model's own: pass spec=model.spec, or name one")
        name = spec.family.default_decoder
    if name in BUILT_IN:
        cls_name, preset = BUILT_IN[name]
        return __getattr__(cls_name), preset, name
    third_party = _third_party()
    if name in third_party:
        return _load(third_party[name]), {}, name
    raise unknown("decoder", name, names())


def _third_party() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in BUILT_IN}


def _load(point) -> type[Decoder]:
    from unmask.decoders.base import Decoder

    try:
        cls = point.load()
    except Exception as error:  # importing runs a third party's code: whatever it raises is its failure
        package = f" of {point.dist.name}" if point.dist else ""
        said = f"{type(error).__name__}: {error}".strip(": ")
        raise UserError(f"decoder {point.name!r} ({point.value}{package}) cannot be imported: {said}") from error
    if not (isinstance(cls, type) and issubclass(cls, Decoder)):
        raise UserError(f"entry point {point.name} = {point.value} is not a subclass of unmask.decoders.Decoder")
    return cls


def __getattr__(name: str) -> Any:
    if name in CLASSES:
        return getattr(importlib.import_module(f"unmask.decoders.{CLASSES[name]}"), name)
    raise AttributeError(f"module 'unmask.decoders' has no attribute {name!r}")


__all__ = [
    "DAPD", "RPD", "Commit", "Decoder", "DreamDefault", "EBSampler", "FastDLLM", "LeftToRight", "LladaDefault",
    "LoPA", "RPDBlock", "StepView", "find", "get", "names",
]  # fmt: skip
