"""A backbone for batches of different lengths: rows lie end to end instead of side by side with padding.

Padding changes the order in which attention sums are added up, and with it the last bits of every state. A
server must not let a request's text hang on that: here every row's attention runs over exactly the keys it
has alone, and matrix products run over all rows at once. No time is spent on padding either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from unmask.models.backbone import Backbone, Block


def pack(net: Any) -> Any:
    """On a CPU. A GPU picks its kernels by the batch's shape anyway, and prefers one big attention call."""
    return Packed(net) if isinstance(net, Backbone) and net.device.type == "cpu" else net


class Packed:
    def __init__(self, net: Backbone) -> None:
        self.net = net
        self.spec, self.device, self.dtype = net.spec, net.device, net.dtype
        self.readout, self.parameters = net.readout, net.parameters

    def states(self, ids: Tensor, attention_mask: Tensor | None = None, keep_from: int = 0) -> list[Any]:
        """What Backbone.states gives, row by row; zeros where there is padding."""
        if attention_mask is None:
            return self.net.states(ids, None, keep_from)
        keep = attention_mask.to(torch.bool)
        lengths = keep.sum(dim=1).tolist()
        positions = torch.cat([torch.arange(length, device=ids.device) for length in lengths])[None]
        cos, sin = self.net.rotary.tables(positions, self.dtype)
        x = self.net.embed(ids[keep])[None]  # (1, sum of lengths, D)
        hidden: list[Any] = [self.spread(x, keep) if keep_from == 0 else None]
        for layer in range(1, self.spec.layers + 1):
            x = forward(self.net.block(layer - 1), x, cos, sin, lengths)
            hidden.append(self.spread(x, keep) if layer >= keep_from else None)
        return hidden

    def spread(self, x: Tensor, keep: Tensor) -> Tensor:
        out = x.new_zeros((*keep.shape, x.shape[-1]))
        out[keep] = x[0]
        return out

    def attention_maps(
        self, hidden: Mapping[int, Tensor], attention_mask: Tensor | None, layers: Sequence[int]
    ) -> Tensor:
        """One row's maps over its own keys alone, in the corner of the padded square."""
        if attention_mask is None:
            return self.net.attention_maps(hidden, None, layers)
        length = int(attention_mask.sum())
        own = {layer: states[:, :length] for layer, states in hidden.items()}
        maps = self.net.attention_maps(own, None, layers)
        pad = attention_mask.shape[1] - length
        return F.pad(maps, (0, pad, 0, pad))


def forward(block: Block, x: Tensor, cos: Tensor, sin: Tensor, lengths: Sequence[int]) -> Tensor:
    """Block.forward with attention inside each row's stretch only."""
    grouped = block.kv_heads != block.heads
    parts = [part.split(list(lengths), dim=2) for part in block.project(x, cos, sin)]
    mixed = [F.scaled_dot_product_attention(q, k, v, enable_gqa=grouped) for q, k, v in zip(*parts, strict=True)]
    x = x + block.out(torch.cat(mixed, dim=2).transpose(1, 2).flatten(2))
    gate, up = block.gate_up(block.mlp_norm(x)).chunk(2, dim=-1)
    return x + block.down(F.silu(gate) * up)
