"""How lm-evaluation-harness finds the `unmask` model type.

lm-eval has a registry but discovers no packages, so its own command would never learn of a model type from
elsewhere. What its process does import is torch, and torch calls the entry points named `torch.backends`. This
module is one of them: it must cost nothing, fail never, and do nothing in any process but lm-eval's.
(TORCH_DEVICE_BACKEND_AUTOLOAD=0 switches it off; `python -m unmask.lm_eval` then does the same as `lm_eval`.)
"""

from __future__ import annotations

import sys
from contextlib import suppress


def register() -> None:
    """Enter the model type in lm-eval's registry, as a lazy name, if this is lm-eval's process."""
    if "lm_eval" in sys.modules:
        with suppress(Exception):  # another version of lm-eval must not break the import of torch
            # First the built-in ones: the registry looks them up only while it is empty.
            import lm_eval.models  # noqa: F401
            from lm_eval.api.registry import model_registry

            if "unmask" not in model_registry:
                model_registry.register("unmask", target="unmask.lm_eval:UnmaskLM")
