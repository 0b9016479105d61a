"""The forward pass of LLaDA and Dream, written to be read.

Both are one machine: pre-norm blocks (RMSNorm, rotary attention, SwiGLU), an untied head and no causal mask.
Weights are addressed by their published checkpoint keys; `_Layout` is the only place the two families differ.

Shapes: B rows, T positions, D width, A query heads of size d, V vocabulary rows, L blocks (numbered 1..L).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]
Config = Mapping[str, Any]
Weights = Mapping[str, Array]


@dataclass(frozen=True)
class _Layout:
    """Where a family keeps its numbers: config values, and checkpoint keys (`{n}` counts blocks from 0)."""

    layers: int
    heads: int
    kv_heads: int
    eps: float
    theta: float
    embedding: str
    final_norm: str
    head: str
    attention_norm: str
    mlp_norm: str
    q: str
    k: str
    v: str
    o: str
    gate: str
    up: str
    down: str


def layout(config: Config) -> _Layout:
    if config["model_type"] == "llada":
        top, block = "model.transformer.", "model.transformer.blocks.{n}."
        return _Layout(
            layers=config["n_layers"],
            heads=config["n_heads"],
            kv_heads=config["n_kv_heads"],
            eps=config["rms_norm_eps"],
            theta=config["rope_theta"],
            embedding=top + "wte",
            final_norm=top + "ln_f",
            head=top + "ff_out",  # the LM head; a block's ff_out is its down-projection
            attention_norm=block + "attn_norm",
            mlp_norm=block + "ff_norm",
            q=block + "q_proj",
            k=block + "k_proj",
            v=block + "v_proj",
            o=block + "attn_out",
            gate=block + "ff_proj",
            up=block + "up_proj",
            down=block + "ff_out",
        )
    if config["model_type"] == "Dream":
        block = "model.layers.{n}."
        return _Layout(
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            eps=config["rms_norm_eps"],
            theta=config["rope_theta"],
            embedding="model.embed_tokens",
            final_norm="model.norm",
            head="lm_head",
            attention_norm=block + "input_layernorm",
            mlp_norm=block + "post_attention_layernorm",
            q=block + "self_attn.q_proj",
            k=block + "self_attn.k_proj",
            v=block + "self_attn.v_proj",
            o=block + "self_attn.o_proj",
            gate=block + "mlp.gate_proj",
            up=block + "mlp.up_proj",
            down=block + "mlp.down_proj",
        )
    raise ValueError(f"unknown model_type {config['model_type']!r}")


def linear(weights: Weights, key: str, x: Array) -> Array:
    """x Wᵀ + b; the bias is added where the checkpoint holds one (Dream's q, k and v)."""
    y = x @ weights[key + ".weight"].astype(x.dtype).T
    if key + ".bias" in weights:
        y = y + weights[key + ".bias"].astype(x.dtype)
    return y


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """Normalise in (at least) float32, cast back to the input dtype, only then multiply by the weight."""
    wide = x.astype(np.result_type(x.dtype, np.float32))
    wide = wide / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + eps)
    return wide.astype(x.dtype) * weight.astype(x.dtype)


def softmax(x: Array) -> Array:
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def rotate(x: Array, positions: Array, theta: float) -> Array:
    """Rotary embedding of x [B, A, T, d] at positions [B, T]: dimension i turns with dimension i + d/2."""
    half = x.shape[-1] // 2
    frequency = (1.0 / theta ** (np.arange(half, dtype=np.float32) / half)).astype(np.float32)
    angle = positions[:, None, :, None].astype(np.float32) * frequency  # (B, 1, T, d/2), always float32
    cos, sin = np.cos(angle.astype(x.dtype)), np.sin(angle.astype(x.dtype))
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def split_heads(x: Array, heads: int) -> Array:
    """[B, T, heads * d] -> [B, heads, T, d]"""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def key_bias(attention_mask: Array | None, dtype: DTypeLike) -> Array | float:
    """Key-only mask: padded keys get the lowest finite float32; padded queries still see the real keys."""
    if attention_mask is None:
        return 0.0
    blocked = np.asarray(attention_mask) == 0
    return np.where(blocked, np.finfo(np.float32).min, 0.0).astype(dtype)[:, None, None, :]


def attention_probabilities(
    config: Config,
    weights: Weights,
    block: int,
    normed: Array,
    attention_mask: Array | None,
    positions: Array,
) -> Array:
    """softmax(q kᵀ / sqrt d) after rotation, over the whole sequence: [B, A, T, T]. `block` counts from 0."""
    names = layout(config)
    q = split_heads(linear(weights, names.q.format(n=block), normed), names.heads)
    k = split_heads(linear(weights, names.k.format(n=block), normed), names.kv_heads)
    q, k = rotate(q, positions, names.theta), rotate(k, positions, names.theta)
    k = np.repeat(k, names.heads // names.kv_heads, axis=1)  # each KV head serves consecutive query heads
    scores = q @ k.swapaxes(-1, -2) / np.asarray(np.sqrt(q.shape[-1]), q.dtype)
    return softmax(scores + key_bias(attention_mask, scores.dtype))


def block_forward(
    config: Config, weights: Weights, block: int, x: Array, attention_mask: Array | None, positions: Array
) -> tuple[Array, Array]:
    """One block: the residual stream after it [B, T, D], and its attention probabilities [B, A, T, T]."""
    names = layout(config)

    a = rms_norm(x, weights[names.attention_norm.format(n=block) + ".weight"], names.eps)
    probabilities = attention_probabilities(config, weights, block, a, attention_mask, positions)
    v = split_heads(linear(weights, names.v.format(n=block), a), names.kv_heads)
    v = np.repeat(v, names.heads // names.kv_heads, axis=1)
    mixed = (probabilities @ v).transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
    x = x + linear(weights, names.o.format(n=block), mixed)

    m = rms_norm(x, weights[names.mlp_norm.format(n=block) + ".weight"], names.eps)
    gate = silu(linear(weights, names.gate.format(n=block), m))
    x = x + linear(weights, names.down.format(n=block), gate * linear(weights, names.up.format(n=block), m))
    return x, probabilities


def readout(config: Config, weights: Weights, h: Array) -> Array:
    """Final norm and head, for the residual state after any block: raw, unshifted logits [..., V]."""
    names = layout(config)
    return linear(weights, names.head, rms_norm(h, weights[names.final_norm + ".weight"], names.eps))


def _run(
    config: Config,
    weights: Weights,
    ids: Array,
    attention_mask: Array | None,
    positions: Array | None,
    dtype: DTypeLike,
) -> tuple[list[Array], list[Array]]:
    ids = np.asarray(ids)
    if positions is None:
        positions = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    names = layout(config)
    hidden = [weights[names.embedding + ".weight"][ids].astype(dtype)]  # no scaling, no embedding norm
    maps = []
    for block in range(names.layers):
        x, probabilities = block_forward(config, weights, block, hidden[-1], attention_mask, positions)
        hidden.append(x)
        maps.append(probabilities)
    return hidden, maps


def forward(
    config: Config,
    weights: Weights,
    ids: Array,
    attention_mask: Array | None = None,
    positions: Array | None = None,
    dtype: DTypeLike = np.float32,
) -> tuple[Array, list[Array]]:
    """Logits [B, T, V] (raw: Dream's row i-1 predicts token i) and the L + 1 un-normalised residual states.

    `hidden[0]` is the embedding, `hidden[n]` the stream after block n. Rows of padded positions are finite
    but mean nothing. `positions` defaults to 0..T-1 for every row, padding included.
    """
    hidden, _ = _run(config, weights, ids, attention_mask, positions, dtype)
    return readout(config, weights, hidden[-1]), hidden


def attention_maps(
    config: Config,
    weights: Weights,
    ids: Array,
    attention_mask: Array | None,
    layers: Sequence[int],
    positions: Array | None = None,
    dtype: DTypeLike = np.float32,
) -> Array:
    """Attention of the given blocks (1..L), mean over heads: [len(layers), B, T (query), T (key)]."""
    _, maps = _run(config, weights, ids, attention_mask, positions, dtype)
    return np.stack([maps[layer - 1].mean(axis=1) for layer in layers])
