"""Linear layers that a CPU may hold in the order its kernels read them (oneDNN's float32 products).

On an AMD EPYC they run at more than twice the rate of PyTorch's default library, and a row's result does not
depend on how many rows are multiplied with it, which the default does not promise either.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Products are taken over a multiple of so many rows: oneDNN and torch each keep the code of the last 1,024 shapes
# they met, which was 2.5 MiB for every new length of prompt.
ROWS = 16
LARGEST = 1 << 28  # bytes of weights that may be held a second time: the embedded model's, not an 8B checkpoint's


class Linear(nn.Linear):
    prepared: Tensor | None = None  # the weight once more, in oneDNN's layout; inference only
    version = -1  # of the weight that was prepared

    def forward(self, x: Tensor) -> Tensor:
        if self.prepared is None or torch.is_grad_enabled() or not x.numel():
            return super().forward(x)
        if self.weight._version != self.version:  # trained or loaded anew since then
            self.prepared = None
            return super().forward(x)
        rows = x.numel() // self.in_features
        flat = x.reshape(rows, self.in_features)
        if spare := self.spare(rows):
            flat = F.pad(flat, (0, 0, 0, spare))
        y = torch.ops.mkldnn._linear_pointwise(flat, self.prepared, self.bias, "none", [], "")
        return y[:rows].view(*x.shape[:-1], self.out_features)

    def spare(self, rows: int) -> int:
        """How many more rows a product is taken over."""
        return 0 if self.prepared is None else -rows % ROWS

    def prepare(self) -> None:
        with torch.no_grad():
            self.prepared = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach(), None)
        self.version = self.weight._version

    def __getstate__(self) -> dict[str, Any]:
        """oneDNN's layout can neither be copied nor pickled: a copy goes without."""
        return {**self.__dict__, "prepared": None}

    def _apply(self, fn, recurse=True):  # another device or dtype: the copy is of no more use
        self.prepared = None
        return super()._apply(fn, recurse)


def prepare(net: nn.Module) -> bool:
    """Prepare every linear layer of a small float32 network on a CPU; False where that is not possible.

    The operators are the ones torch.compile uses; a build that lacks them, or gets another result, goes without."""
    layers = [module for module in net.modules() if isinstance(module, Linear)]
    size = sum(layer.weight.numel() * layer.weight.element_size() for layer in layers)
    fits = all(layer.weight.device.type == "cpu" and layer.weight.dtype == torch.float32 for layer in layers)
    if not layers or not fits or size > LARGEST or not torch.backends.mkldnn.is_available() or not sound(layers[0]):
        return False
    for layer in layers:
        layer.prepare()
    return True


def sound(layer: Linear) -> bool:
    """Does a prepared layer work here, and agree with the plain one?"""
    trial = Linear(layer.in_features, layer.out_features, bias=layer.bias is not None)
    x = torch.linspace(-1.0, 1.0, 3 * layer.in_features).reshape(3, -1)
    try:
        with torch.no_grad():
            trial.prepare()
            return torch.allclose(trial(x), F.linear(x, trial.weight, trial.bias), rtol=1e-4, atol=1e-4)
    except (AttributeError, RuntimeError):
        return False
