"""One bidirectional Llama-style stack for every family: RMSNorm, rotary attention, SwiGLU, untied head.

It returns un-normalised residual states and applies final norm + head wherever a readout is wanted, so
that the last layer is not a special case (the published code normalises only its last hidden state).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unmask.models.linear import Linear
from unmask.models.spec import ModelSpec


class Output(NamedTuple):
    logits: Tensor  # (B, T, V), raw: not shifted, model dtype
    hidden: list[Tensor]  # L+1 un-normalised residual states (B, T, D); [0] is the embedding


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        # float32 inside, cast back *before* the weight is applied: the order both families use.
        y = x if x.dtype == torch.float64 else x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return y.to(x.dtype) * self.weight


class Rotary:
    """Angles in float32 whatever the model's dtype; not a buffer, so no module cast can round them."""

    def __init__(self, spec: ModelSpec) -> None:
        self.exponents = torch.arange(0, spec.head_dim, 2, dtype=torch.float32) / spec.head_dim
        self.theta, self.full_precision = spec.rope_theta, spec.rope_full_precision

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin, (B or 1, 1, T, head_dim), in the dtype the rotation is done in."""
        frequencies = 1.0 / self.theta ** self.exponents.to(positions.device)
        angles = positions[:, None, :, None].float() * frequencies
        angles = torch.cat((angles, angles), dim=-1)
        dtype = torch.float32 if self.full_precision and dtype != torch.float64 else dtype
        return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Half-rotation layout: dimension i pairs with i + head_dim/2. x: (B, heads, T, head_dim)."""
    first, second = x.to(cos.dtype).chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return (x.to(cos.dtype) * cos + turned * sin).to(x.dtype)


class Block(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = spec.heads, spec.kv_heads, spec.head_dim
        kv = spec.kv_heads * spec.head_dim
        self.attn_norm = RMSNorm(spec.width, spec.norm_eps)
        self.qkv = Linear(spec.width, spec.width + 2 * kv, bias=spec.qkv_bias)
        self.out = Linear(spec.width, spec.width, bias=False)
        self.mlp_norm = RMSNorm(spec.width, spec.norm_eps)
        self.gate_up = Linear(spec.width, 2 * spec.mlp_width, bias=False)
        self.down = Linear(spec.mlp_width, spec.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor | None, keys: int | None = None) -> Tensor:
        """Attention looks at the first `keys` positions only (None: at all of them)."""
        q, k, v = self.project(x, cos, sin)
        k, v = k[:, :, :keys], v[:, :, :keys]
        grouped = self.kv_heads != self.heads
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=grouped)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys, and values: (B, heads or kv_heads, T, head_dim)."""
        batch, length, _ = x.shape
        split = [n * self.head_dim for n in (self.heads, self.kv_heads, self.kv_heads)]
        parts = self.qkv(self.attn_norm(x)).split(split, dim=-1)
        q, k, v = (p.view(batch, length, -1, self.head_dim).transpose(1, 2) for p in parts)
        return rotate(q, cos, sin), rotate(k, cos, sin), v


class Backbone(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.rotary = Rotary(spec)
        self.embed = nn.Embedding(spec.rows, spec.width)
        self.blocks = nn.ModuleList(Block(spec) for _ in range(spec.layers))
        self.norm = RMSNorm(spec.width, spec.norm_eps)
        self.head = Linear(spec.width, spec.rows, bias=False)

    @property
    def device(self) -> torch.device:
        return self.embed.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embed.weight.dtype

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Output:
        hidden = self.states(ids, attention_mask)
        return Output(self.readout(hidden[-1]), hidden)

    def states(self, ids: Tensor, attention_mask: Tensor | None = None, keep_from: int = 0) -> list[Any]:
        """ids (B, T), attention_mask (B, T) with 1 = keep (keys only) -> L+1 residual states (B, T, D).

        States below `keep_from` are replaced by None as soon as they are used: most decoders need only the
        last one, RPD those of its window."""
        bias, length = key_bias(attention_mask, self.dtype), ids.shape[1]
        if bias is None:  # positions that no other looks at, once, instead of rows in every product
            ids = F.pad(ids, (0, self.block(0).qkv.spare(length)))
        cos, sin = self.tables(ids)
        x = self.embed(ids)
        hidden: list[Any] = [x[:, :length] if keep_from == 0 else None]
        for layer, block in enumerate(self.blocks, start=1):
            x = block(x, cos, sin, bias, None if bias is not None else length)
            hidden.append(x[:, :length] if layer >= keep_from else None)
        return hidden

    def readout(self, states: Tensor) -> Tensor:
        """Final norm and output head on any residual states (..., D): logits (..., V) in the model dtype."""
        return self.head(self.norm(states))

    def block(self, layer: int) -> Block:
        return cast(Block, self.blocks[layer])

    def tables(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        return self.rotary.tables(positions, self.dtype)

    def attention_maps(
        self, hidden: Mapping[int, Tensor], attention_mask: Tensor | None, layers: Sequence[int]
    ) -> Tensor:
        """Mean over `layers` (0-based blocks) and heads of softmax(QK'/sqrt(d)) in float32: (B, T, T).

        Recomputed from each block's input `hidden[layer]`, so that only the decoder that asks for maps pays.
        """
        batch, length, _ = hidden[layers[0]].shape
        positions = torch.arange(length, device=self.device)[None]
        cos, sin = self.rotary.tables(positions, self.dtype)
        bias = key_bias(attention_mask, torch.float32)
        total = torch.zeros((batch, length, length), dtype=torch.float32, device=self.device)
        for layer in layers:
            block = self.block(layer)
            q, k, _ = block.project(hidden[layer], cos, sin)
            k = k.repeat_interleave(block.heads // block.kv_heads, dim=1)
            scores = q.float() @ k.float().transpose(-1, -2) * block.head_dim**-0.5
            total += torch.softmax(scores if bias is None else scores + bias, dim=-1).mean(dim=1)
        return total / len(layers)


def key_bias(attention_mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Additive key-only bias (B, 1, 1, T). Finite, so that padded queries stay finite too; None if all keep."""
    if attention_mask is None or bool(attention_mask.all()):
        return None
    keep = attention_mask.to(torch.bool)[:, None, None, :]
    return torch.zeros(keep.shape, dtype=dtype, device=keep.device).masked_fill(~keep, torch.finfo(dtype).min)
