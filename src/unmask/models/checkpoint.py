"""From a folder of safetensors (or a hub name) to a backbone: strict, and never two copies in memory.

Parameters are allocated once, on the target device and in the target dtype; tensors are then copied in
one at a time. LLaDA's shards are grouped by tensor kind, so every block spans several files: going file
by file is the only order that opens each one once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from unmask.errors import UserError
from unmask.models import as_folder, parse_device, parse_dtype
from unmask.models.backbone import Backbone
from unmask.models.spec import ModelSpec, Slot, read_json, read_spec

STORED_DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, "F64": torch.float64}


def load_backbone(
    folder: str | Path, *, device: str | torch.device = "cpu", dtype: torch.dtype | str | None = None
) -> Backbone:
    """config.json + safetensors in `folder` -> Backbone. `dtype=None` keeps the stored one (float32 on CPU)."""
    folder, device, dtype = as_folder(folder), parse_device(device), parse_dtype(dtype)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give a checkpoint folder, a hub name, or 'tiny'")
    spec = read_spec(folder)
    files = weight_files(folder)
    stored = check_headers(spec, files)
    check_declared(folder / "config.json", stored)
    if dtype is None:
        # Half precision on a CPU is slow and coarser than what any number in the docs was measured with.
        dtype = torch.float32 if device.type == "cpu" else stored
    net = empty_backbone(spec, device, dtype)
    slots, parameters = dict(spec.slots()), dict(net.named_parameters())
    with torch.no_grad():
        for key, path, tensor in stream(files):
            place(parameters, slots[key], tensor, key, path)
    return net.eval().requires_grad_(False)


def empty_backbone(spec: ModelSpec, device: torch.device, dtype: torch.dtype) -> Backbone:
    """Uninitialised parameters straight on the device: no initialisation pass, no float32 detour."""
    with torch.device("meta"):
        net = Backbone(spec)
    net = net.to(dtype).to_empty(device=device)
    net.rotary = type(net.rotary)(spec)  # built under the meta device above
    return net


def weight_files(folder: Path) -> dict[Path, set[str] | None]:
    """File -> the keys its index promises (None for a single unindexed file)."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise UserError(f"{index} has no weight_map")
        files: dict[Path, set[str] | None] = {}
        for key, name in weight_map.items():
            if not isinstance(name, str) or Path(name).name != name:
                raise UserError(f"{index}: {key} points outside the folder ({name!r})")
            files.setdefault(folder / name, set()).add(key)  # type: ignore[union-attr]
        for path in files:
            if not path.exists():
                raise UserError(f"{path.name} is missing in {folder}, but its index names it: download it again")
        return files
    single = folder / "model.safetensors"
    if not single.exists():
        raise UserError(f"{folder} has neither model.safetensors nor model.safetensors.index.json")
    return {single: None}


def open_shard(path: Path):
    try:
        return safe_open(str(path), framework="pt", device="cpu")
    except (SafetensorError, OSError, struct.error) as error:
        raise UserError(f"{path} is not a readable safetensors file (truncated?): {error}") from None


def check_headers(spec: ModelSpec, files: dict[Path, set[str] | None]) -> torch.dtype:
    """Every key, shape and dtype is checked before the first byte of weight is copied."""
    slots = dict(spec.slots())
    seen: dict[str, Path] = {}
    first: tuple[str, str] | None = None
    for path, promised in files.items():
        with open_shard(path) as shard:
            keys = set(shard.keys())
            if promised is not None and keys != promised:
                odd = sorted(keys ^ promised)[0]
                where = "is in the index but not in" if odd in promised else "is not in the index but in"
                raise UserError(f"{odd} {where} {path}")
            for key in sorted(keys):
                if key not in slots:
                    raise UserError(f"unexpected key {key} in {path}")
                if key in seen:
                    raise UserError(f"{key} is in both {seen[key]} and {path}")
                seen[key] = path
                header = shard.get_slice(key)
                shape, dtype = tuple(header.get_shape()), header.get_dtype()
                if shape != slots[key].shape:
                    wanted = list(slots[key].shape)
                    raise UserError(f"{key} in {path} has shape {list(shape)}; config.json implies {wanted}")
                first = first or (key, dtype)
                if dtype not in STORED_DTYPES:
                    known = ", ".join(STORED_DTYPES)
                    raise UserError(f"{key} in {path} is stored as {dtype}; only {known} can be loaded")
                if dtype != first[1]:
                    raise UserError(f"{key} in {path} is stored as {dtype}, but {first[0]} as {first[1]}")
    missing = [key for key in slots if key not in seen]
    if missing:
        names = ", ".join(path.name for path in files)
        raise UserError(f"missing key {missing[0]} ({len(missing)} in all) in {names}")
    assert first is not None
    return STORED_DTYPES[first[1]]


def check_declared(path: Path, stored: torch.dtype) -> None:
    """The two half precisions are equally wide, so that one taken for the other loads, as nonsense."""
    config = read_json(path)
    declared = str(config.get("torch_dtype") or config.get("dtype") or "").removeprefix("torch.")
    halves = {"bfloat16": torch.bfloat16, "float16": torch.float16}
    if declared in halves and stored in halves.values() and stored != halves[declared]:
        kept = str(stored).removeprefix("torch.")
        raise UserError(f"the files beside {path} store {kept}, but torch_dtype there is {declared}: one is wrong")


def stream(files: dict[Path, set[str] | None]) -> Iterator[tuple[str, Path, Tensor]]:
    """One tensor at a time, each from a mapping of its own: pages of a file that stays mapped would count, and pile
    up, as memory of this process until the whole file had been held beside the model."""
    for path in files:
        with open_shard(path) as shard:
            keys = list(shard.keys())
        for key in keys:
            with open_shard(path) as shard:
                yield key, path, shard.get_tensor(key)


def place(parameters: dict[str, torch.nn.Parameter], slot: Slot, tensor: Tensor, key: str, path: Path) -> None:
    low, high = tensor.aminmax()  # both are NaN if anything is; unlike isfinite, no copy of the tensor
    if not (low.isfinite() and high.isfinite()):
        raise UserError(f"{key} in {path} holds non-finite numbers: the file is damaged")
    parameters[slot.parameter][slot.start : slot.start + slot.shape[0]].copy_(tensor)


def to_checkpoint(net: Backbone) -> dict[str, Tensor]:
    """The inverse: a backbone's parameters under its family's published keys (training writes these)."""
    parameters = dict(net.named_parameters())
    return {
        key: parameters[slot.parameter][slot.start : slot.start + slot.shape[0]].detach().cpu().contiguous()
        for key, slot in net.spec.slots()
    }
