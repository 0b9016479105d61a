"""Models: weights to logits, text to ids. `load` gives both; `load_backbone` the network alone."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.errors import UserError, unknown
from unmask.files import shortened, why

if TYPE_CHECKING:
    import torch

    from unmask.models.checkpoint import load_backbone
    from unmask.models.spec import ModelSpec
    from unmask.models.tokenizer import Tokenizer
    from unmask.statistics import Choosable

TINY = Path(__file__).parent.parent / "tiny"


@dataclass(frozen=True)
class Known:
    """A published checkpoint: where it is, and the revision the paper (or its authors' page) pins."""

    repo: str
    revision: str | None
    family: str
    note: str = ""


KNOWN = (
    Known("GSAI-ML/LLaDA-8B-Instruct", "08b83a6feb34df1a6011b80c3c00c7563e963b07", "llada", "the paper's"),
    Known("GSAI-ML/LLaDA-8B-Base", None, "llada", "no chat template: use --raw"),
    Known("GSAI-ML/LLaDA-1.5", None, "llada"),
    Known("Dream-org/Dream-v0-Instruct-7B", "05334cb9faaf763692dcf9d8737c642be2b2a6ae", "dream", "the paper's"),
    Known("Dream-org/Dream-v0-Base-7B", None, "dream", "no chat tuning: use --raw"),
    Known("Dream-org/Dream-Coder-v0-Instruct-7B", None, "dream"),
    Known("apple/DiffuCoder-7B-Instruct", None, "dream"),
)


@dataclass
class Model:
    """A backbone with its tokenizer: what the loop decodes with."""

    name: str
    net: Any  # Backbone, or an adapter with the same five methods
    tokenizer: Tokenizer
    revision: str | None = None  # the commit, where it came from the hub

    def __repr__(self) -> str:
        spec = self.spec
        where = f"{str(self.net.dtype).removeprefix('torch.')} on {self.net.device}"
        return f"Model({self.name!r}: {spec.family.name}, {spec.layers} layers of width {spec.width}, {where})"

    @property
    def spec(self) -> ModelSpec:
        return self.net.spec

    @property
    def stop_ids(self) -> frozenset[int]:
        return self.tokenizer.stop_ids

    @cached_property
    def choosable(self) -> Choosable:
        from unmask.statistics import Choosable

        return Choosable(self.spec.mask_id, min(self.tokenizer.highest_id + 1, self.spec.rows))

    def compile(self) -> str | None:
        """Replay compiled forwards from recordings (CUDA). None where that works, else why it does not."""
        from unmask.models.graphs import recorded

        self.net, reason = recorded(self.net)
        return reason


def load(
    name: str | Path = "tiny",
    *,
    revision: str | None = None,
    device: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    compile: bool = False,
) -> Model:
    """`tiny`, a checkpoint folder, or a hub name -> Model. The device defaults to CUDA where there is one.

    `compile` replays compiled forwards as CUDA graphs, and warns where it cannot (Model.compile)."""
    import torch

    from unmask.models.checkpoint import load_backbone
    from unmask.models.hub import fetch
    from unmask.models.linear import prepare
    from unmask.models.tokenizer import load_tokenizer

    local = locate(name)
    if local and revision is not None:
        raise UserError(f"a revision belongs to a model on the hub, and {name} is a folder on this machine")
    folder = local or fetch(str(name), revision)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    net = load_backbone(folder, device=device, dtype=dtype)
    prepare(net)
    model = Model(str(name), net, load_tokenizer(folder, net.spec), None if local else folder.name)
    if compile and (reason := model.compile()):
        warnings.warn(reason, stacklevel=2)
    return model


def locate(name: str | Path) -> Path | None:
    """A local folder, or None for a hub name; anything else is an error that names near matches."""
    if not isinstance(name, str | Path):
        raise UserError(f"a model is tiny, a checkpoint folder or a hub name, not {name!r}")
    if str(name) == "tiny":
        return TINY
    folder, text = as_folder(name), str(name)
    if folder.is_dir():
        return folder
    if isinstance(name, Path) or text.startswith((".", "/", "~")) or text.count("/") > 1:
        raise UserError(f"no checkpoint folder at {shortened(text)}")
    if "/" not in text:
        raise unknown("model", shortened(text), ["tiny", *(known.repo for known in KNOWN)])
    return None


def as_folder(name: str | Path) -> Path:
    """The path a name may be; an error where no path can be made of it, or nobody may look."""
    try:
        path = Path(name).expanduser()
        path.is_dir()
    except (OSError, RuntimeError, ValueError) as error:  # too long, ~ of a user who is not there, no permission
        raise UserError(f"no checkpoint folder at {shortened(name)}: {why(error)}") from None
    return path


def parse_dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    import torch

    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
    if dtype is None or dtype in known.values():
        return dtype  # type: ignore[return-value]
    if dtype not in known:
        raise unknown("dtype", str(dtype), known)
    return known[dtype]


def parse_device(device: torch.device | str) -> torch.device:
    """cpu, cuda or cuda:N, and there."""
    import torch

    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise UserError(f"unknown device {str(device)!r}: use cpu, cuda or cuda:N") from None
    count = {"cpu": 1, "cuda": torch.cuda.device_count()}.get(found.type, 0)
    if (found.index or 0) >= count:
        raise UserError(f"device {str(device)!r} is not available here" + ("" if count else ": use cpu"))
    return found


def __getattr__(name: str) -> Any:
    homes = {"load_backbone": "checkpoint", "Backbone": "backbone", "ModelSpec": "spec", "Tokenizer": "tokenizer"}
    if name in homes:
        return getattr(importlib.import_module(f"unmask.models.{homes[name]}"), name)
    if name in ("hf", "spec", "tokenizer"):  # `unmask.models.hf.wrap(...)` after `import unmask` alone
        return importlib.import_module(f"unmask.models.{name}")
    raise AttributeError(f"module 'unmask.models' has no attribute {name!r}")


__all__ = ["KNOWN", "Model", "load", "load_backbone", "locate"]
