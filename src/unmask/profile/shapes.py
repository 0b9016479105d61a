"""Networks of a published shape with random weights: what a step costs does not depend on what was learned."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import torch

from unmask.errors import UserError, unknown
from unmask.models import TINY, Model
from unmask.models.backbone import Backbone
from unmask.models.checkpoint import empty_backbone
from unmask.models.spec import DREAM, FAMILIES, LLADA, ModelSpec, build_spec, read_json, read_spec

SHAPES: Mapping[str, ModelSpec] = MappingProxyType({
    "llada-8b": ModelSpec(
        LLADA, width=4096, layers=32, heads=32, kv_heads=32, mlp_width=12288, rows=126464, norm_eps=1e-5,
        rope_theta=500_000.0, context=4096, mask_id=126336, eos_id=126081, pad_id=126081, qkv_bias=False,
        rope_full_precision=True,
    ),
    "dream-7b": ModelSpec(
        DREAM, width=3584, layers=28, heads=28, kv_heads=4, mlp_width=18944, rows=152064, norm_eps=1e-6,
        rope_theta=1_000_000.0, context=2048, mask_id=151666, eos_id=151643, pad_id=151643, qkv_bias=True,
        rope_full_precision=False,
    ),
})  # fmt: skip
NAMES = ("tiny", *SHAPES)


def find_spec(shape: str, layers: int | None = None) -> ModelSpec:
    """A name from NAMES, or a config.json of a checkpoint (or its folder)."""
    if shape == "tiny":
        spec = read_spec(TINY)
    elif shape in SHAPES:
        spec = SHAPES[shape]
    elif shape.endswith(".json") or "/" in shape or Path(shape).exists():
        spec = spec_from_file(Path(shape))
    else:
        raise unknown("shape", shape, NAMES)
    return replace(spec, layers=layers) if layers else spec


def spec_from_file(path: Path) -> ModelSpec:
    path = path / "config.json" if path.is_dir() else path
    config = read_json(path)
    if config.get("model_type") not in FAMILIES:
        raise UserError(
            f"{path}: model_type must be one of {', '.join(FAMILIES)}, found {config.get('model_type')!r}"
        )
    return build_spec(config, FAMILIES[config["model_type"]], path, {})


def random_model(name: str, spec: ModelSpec, device: torch.device, dtype: torch.dtype) -> Model:
    """A network with random weights, and as much of a tokenizer as the loop asks for."""
    refuse_if_too_large(spec, device, dtype)
    net = empty_backbone(spec, device, dtype).eval().requires_grad_(False)
    randomize(net)
    tokenizer: Any = SimpleNamespace(highest_id=spec.rows - 1, stop_ids=frozenset({spec.eos_id}))
    return Model(name, net, tokenizer)


@torch.no_grad()
def randomize(net: Backbone) -> None:
    """Normal weights of the usual size, seeded: logits stay finite in any dtype, however many layers."""
    rng = torch.Generator(device=net.device).manual_seed(0)
    for name, parameter in net.named_parameters():
        if name.endswith("norm.weight"):
            parameter.fill_(1.0)
        else:
            parameter.normal_(0.0, 0.02, generator=rng)


def parameters(spec: ModelSpec) -> int:
    total = 0
    for _, slot in spec.slots():
        size = 1
        for extent in slot.shape:
            size *= extent
        total += size
    return total


def refuse_if_too_large(spec: ModelSpec, device: torch.device, dtype: torch.dtype) -> None:
    """Before allocating: on a CPU the system would start swapping, or kill the process, instead of refusing."""
    needed = parameters(spec) * dtype.itemsize
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else needed
    if needed > free:
        raise UserError(
            f"weights of this shape take {needed / 2**30:.1f} GiB in {str(dtype).removeprefix('torch.')}, but "
            f"{free / 2**30:.1f} GiB are free on {device}: use --layers to shrink it, or another --dtype"
        )
