"""unmask: reliable, parallel and fast decoding of masked diffusion language models.

model = unmask.load("tiny")
out = unmask.generate(model, "Mia has 12 apples and buys 30 more. How many now?", decoder="rpd")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask import decoders, models
    from unmask.api import Generation, generate
    from unmask.errors import UserError
    from unmask.models import Model, load
    from unmask.trace import Trace

__version__ = "0.1.0"

# Resolved on first use: `import unmask` and `unmask --help` must not pay for torch.
_HOMES = {
    "generate": "unmask.api", "Generation": "unmask.api", "load": "unmask.models",
    "Model": "unmask.models", "Trace": "unmask.trace", "UserError": "unmask.errors",
}  # fmt: skip
_MODULES = ("decoders", "models", "tasks")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value  # wins over the submodule of the same name
        return value
    if name in _MODULES:
        return importlib.import_module(f"unmask.{name}")
    raise AttributeError(f"module 'unmask' has no attribute {name!r}")


__all__ = ["Generation", "Model", "Trace", "UserError", "__version__", "decoders", "generate", "load", "models"]
