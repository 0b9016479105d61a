"""Muon for the matrices of the blocks, AdamW for everything else.

Muon replaces a matrix's momentum by the nearest semi-orthogonal one (five Newton-Schulz iterations), so that
every direction moves at the same rate. Matrices of equal shape are stacked and orthogonalised together: a small
model would otherwise spend its step launching kernels. Fused projections are cut back into the matrices they are.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


@torch.compile(dynamic=False, disable=not torch.cuda.is_available())
def orthogonalise(stack: Tensor) -> Tensor:
    """(n, rows, columns) -> the nearest semi-orthogonal matrices, roughly, in bfloat16."""
    a, b, c = COEFFICIENTS
    x = stack.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params: Iterable[tuple[Tensor, int]], lr: float, momentum: float = 0.95, decay: float = 0.0):
        """`params`: each matrix with the number of equal matrices stacked in its rows (3 for a fused QKV)."""
        self.parts = {}
        matrices = []
        for matrix, parts in params:
            self.parts[matrix] = parts
            matrices.append(matrix)
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure=None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            stacks: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p)
                state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                update = p.grad.lerp(state["momentum"], group["momentum"])  # Nesterov
                for target, piece in zip(p.chunk(self.parts[p]), update.chunk(self.parts[p]), strict=True):
                    stacks.setdefault(tuple(piece.shape), []).append((target, piece))
            for (rows, columns), pairs in stacks.items():
                turned = orthogonalise(torch.stack([piece for _, piece in pairs]))
                scale = group["lr"] * max(1.0, rows / columns) ** 0.5
                targets = [target for target, _ in pairs]
                torch._foreach_mul_(targets, 1 - group["lr"] * group["decay"])
                torch._foreach_add_(targets, list(turned.to(targets[0].dtype).unbind()), alpha=-scale)
