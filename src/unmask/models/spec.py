"""The shape of one checkpoint, read from its config.json and held against what its family may say there.

Everything that differs between LLaDA and Dream is data in families.py: four switches (QKV bias, grouped KV heads,
RoPE precision, logit alignment), a key map, ids, and defaults. No other module asks for a model's name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from unmask.errors import UserError, unknown
from unmask.models.families import DREAM, FAMILIES, HARMLESS, LLADA, TWINS, Family

__all__ = [
    "DREAM",
    "FAMILIES",
    "LLADA",
    "Family",
    "ModelSpec",
    "Slot",
    "build_spec",
    "read_json",
    "read_own",
    "read_spec",
]

# The paper's table of hyper-parameters: what all models share.
PAPER = MappingProxyType({"theta_h": 0.9, "theta_c": 0.6, "beta": 4.0})
OWN = ("canvas_length", "rpd", "chosen")  # what unmask.json may hold; `chosen` tells people how the rest was
OWN_RPD = ("theta_h", "theta_c", "theta_s", "w", "first_layer", "beta")  # what a model may set for itself


@dataclass(frozen=True)
class Slot:
    """Where one checkpoint tensor goes: rows [start, start+rows) of a parameter (QKV and gate/up are fused)."""

    parameter: str
    start: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ModelSpec:
    """One checkpoint: its family, its dimensions, its ids."""

    family: Family
    width: int
    layers: int
    heads: int
    kv_heads: int
    mlp_width: int
    rows: int  # rows of the embedding and of the output head; the tokenizer may use fewer
    norm_eps: float
    rope_theta: float
    context: int
    mask_id: int
    eos_id: int
    pad_id: int
    qkv_bias: bool
    rope_full_precision: bool
    rpd: Mapping[str, float] = field(default_factory=dict)  # this model's own RPD settings, over the family's
    canvas_length: int = 256

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def shift_logits(self) -> bool:
        return self.family.shift_logits

    @property
    def first_layer(self) -> int:
        """ℓ0 of the paper: the first layer of the final half (17 of LLaDA's 32, 15 of Dream's 28)."""
        return self.layers // 2 + 1

    def rpd_settings(self, paper: bool = False) -> dict[str, Any]:
        """Values for what an RPD decoder leaves unset: the paper's, overlaid by this model's own."""
        settings = {**PAPER, **self.family.rpd, "first_layer": self.first_layer}
        return settings if paper else {**settings, **self.rpd}

    def slots(self) -> Iterator[tuple[str, Slot]]:
        """Every checkpoint key with the place it is copied to: the strict loader's whole knowledge."""
        keys, d, kv = self.family.keys, self.width, self.kv_heads * self.head_dim
        yield keys["embed.weight"], Slot("embed.weight", 0, (self.rows, d))
        yield keys["norm.weight"], Slot("norm.weight", 0, (d,))
        yield keys["head.weight"], Slot("head.weight", 0, (self.rows, d))
        for i in range(self.layers):
            at = f"blocks.{i}."
            for name in ("attn_norm.weight", "mlp_norm.weight"):
                yield keys[name].format(i=i), Slot(at + name, 0, (d,))
            for name, start, rows in (("q", 0, d), ("k", d, kv), ("v", d + kv, kv)):
                yield keys[name].format(i=i) + ".weight", Slot(at + "qkv.weight", start, (rows, d))
                if self.qkv_bias:
                    yield keys[name].format(i=i) + ".bias", Slot(at + "qkv.bias", start, (rows,))
            yield keys["out.weight"].format(i=i), Slot(at + "out.weight", 0, (d, d))
            for name, start in (("gate.weight", 0), ("up.weight", self.mlp_width)):
                yield keys[name].format(i=i), Slot(at + "gate_up.weight", start, (self.mlp_width, d))
            yield keys["down.weight"].format(i=i), Slot(at + "down.weight", 0, (d, self.mlp_width))


def read_spec(folder: Path) -> ModelSpec:
    """config.json (and unmask.json beside it, where a model carries its own defaults) -> ModelSpec."""
    path = folder / "config.json"
    config = read_json(path)
    model_type = config.get("model_type")
    if model_type not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise UserError(f"{path}: model_type {model_type!r} is not supported; supported: {known}")
    family = FAMILIES[model_type]
    refuse_unsupported(config, family, path)
    return build_spec(config, family, path, read_own(folder / "unmask.json"))


def read_own(path: Path) -> dict[str, Any]:
    """What a model says of itself: its canvas length and RPD settings. A misspelt one is an error, never ignored."""
    own = read_json(path) if path.exists() else {}
    for name in own:
        if name not in OWN:
            raise UserError(f"{path}: {unknown('entry', name, OWN)}")
    length, rpd = own.get("canvas_length", 256), own.get("rpd", {})
    if not isinstance(length, int) or isinstance(length, bool) or length < 1:
        raise UserError(f"{path}: canvas_length must be a whole number of at least 1, found {length!r}")
    if not isinstance(rpd, dict):
        raise UserError(f"{path}: rpd must be an object of settings, found {rpd!r}")
    for name, value in rpd.items():
        if name not in OWN_RPD:
            raise UserError(f"{path}: {unknown('setting of rpd', name, OWN_RPD)}")
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise UserError(f"{path}: {name} of rpd must be a number, found {value!r}")
    return own


def build_spec(config: Mapping[str, Any], family: Family, path: Path | str, own: Mapping[str, Any]) -> ModelSpec:
    dims: dict[str, Any] = {}
    for name, key in family.dims.items():
        value = config.get(key)
        if value is None and name == "kv_heads":
            value = dims["heads"]  # absent or null means one KV head per query head
        if value is None and name == "pad_id":
            value = dims["eos_id"]
        if value is None and name == "rows":
            value = config.get("vocab_size")  # as the published code does where embedding_size is null
        whole = name not in ("norm_eps", "rope_theta")
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not math.isfinite(value)
            or (whole and not float(value).is_integer())
        ):
            raise UserError(f"{path}: {key} must be a {'whole ' if whole else ''}number, found {value!r}")
        if value < 0 or (value == 0 and not name.endswith(("_id", "_eps"))):
            raise UserError(f"{path}: {key} must be positive, found {value!r}")
        dims[name] = int(value) if whole else value
    if dims["width"] % (2 * dims["heads"]) or dims["heads"] % dims["kv_heads"]:
        raise UserError(
            f"{path}: {dims['heads']} heads do not divide a width of {dims['width']} into heads of an even size, "
            f"or {dims['kv_heads']} KV heads do not divide the heads"
        )
    for name in ("mask_id", "eos_id", "pad_id"):
        if dims[name] >= dims["rows"]:
            raise UserError(f"{path}: {family.dims[name]} {dims[name]} is outside the model's {dims['rows']} rows")
    if dims["mask_id"] in (dims["eos_id"], dims["pad_id"]):
        raise UserError(f"{path}: the mask and the end of text share the id {dims['mask_id']}: one of them is wrong")
    if family.context_cap:
        dims["context"] = min(dims["context"], family.context_cap)
    return ModelSpec(
        family=family,
        **dims,
        qkv_bias=bool(config.get("include_qkv_bias", family.qkv_bias)),
        rope_full_precision=bool(config.get("rope_full_precision", family.rope_full_precision)),
        rpd=own.get("rpd", {}),
        canvas_length=int(own.get("canvas_length", 256)),
    )


def refuse_unsupported(config: Mapping[str, Any], family: Family, path: Path) -> None:
    """A feature this backbone lacks must stop the load: silence would compute something else. Entries nobody knows
    may be one, unless they are empty or off."""
    known = HARMLESS | set(family.dims.values()) | {"include_qkv_bias", "rope_full_precision", "vocab_size"}
    for key, value in config.items():
        if key in family.switches:
            if value not in family.switches[key]:
                wanted = family.switches[key][0]
                raise UserError(f"{path}: {key} = {value!r} is not supported (only {wanted!r} is)")
        elif key not in known and value not in (None, False, "", [], {}) and not is_twin(config, family, key):
            raise UserError(f"{path}: {key} = {value!r} is not a switch this backbone knows; it cannot be loaded")


def is_twin(config: Mapping[str, Any], family: Family, key: str) -> bool:
    """Does this entry only repeat what the config says under the family's own names?"""
    value, said = config[key], lambda name: config.get(family.dims[name])
    if key in TWINS:
        return value == said(TWINS[key])
    width, heads = said("width"), said("heads")
    if key == "head_dim":
        return all(isinstance(size, int) for size in (value, width, heads)) and value * heads == width
    return key == "layer_types" and isinstance(value, list) and all(kind == "full_attention" for kind in value)


def read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing: is {path.parent} a checkpoint folder?") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, or nested past all sense
        raise UserError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise UserError(f"{path} must hold a JSON object")
    return data
