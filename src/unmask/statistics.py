"""Token, confidence and entropy of each row of logits (Section 0 of the decoder rules; paper Eq. 1).

    y = argmax over the ids that may be chosen      c = p(y)      H = -sum p ln p over all ids

The mask token and ids the tokenizer does not know may never be chosen, but keep their probability: c is
not renormalised and H runs over the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

# Rows are taken a few at a time through two buffers of this many elements: they stay in a CPU's cache, are
# allocated once, and the logits are never copied as a whole.
CHUNK_ELEMENTS = {"cpu": 1 << 18, "cuda": 1 << 26}


@dataclass(frozen=True)
class Choosable:
    """The ids a decoder may choose: below `limit`, except the mask."""

    mask_id: int
    limit: int

    def forbid(self, logits: Tensor) -> Tensor:
        """A copy of `logits` in which nothing else can be sampled."""
        logits = logits.clone()
        logits[..., self.mask_id : self.mask_id + 1] = -torch.inf  # a slice: an id past the end forbids nothing
        logits[..., self.limit :] = -torch.inf
        return logits

    def forbids(self, token: Tensor) -> Tensor:
        return (token == self.mask_id) | (token >= self.limit)

    def argmax(self, logits: Tensor) -> Tensor:
        """First maximum over the choosable ids."""
        return self.forbid(logits).argmax(dim=-1)


class Statistics(NamedTuple):
    token: Tensor  # (N,) int64
    confidence: Tensor  # (N,) score dtype
    entropy: Tensor  # (N,) nats


class Trajectory(NamedTuple):
    """What the layer readout needs of a row: its own argmax, and the probability of a given token."""

    argmax: Tensor  # (N,) over the whole vocabulary
    probability: Tensor  # (N,)


def statistics(logits: Tensor, choosable: Choosable, score_dtype: torch.dtype = torch.float32) -> Statistics:
    """logits (N, V) in any float dtype -> y, c, H per row."""
    if score_dtype == torch.float32 and (fused := kernels_for(logits)):
        return Statistics(*fused.statistics(logits, choosable.mask_id, choosable.limit))
    parts = [_statistics(chunk, d, p, choosable) for chunk, d, p in centred(logits, score_dtype)]
    return Statistics(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _statistics(logits: Tensor, d: Tensor, p: Tensor, choosable: Choosable) -> Statistics:
    """H = ln s - sum p d with d = z - max and 1/s the largest p: no cancellation, however large the logits."""
    token = first_maximum(d)
    top = pick(p, token)
    weighted = row_sums(p.mul_(d))
    gaps = weighted.isnan()
    if bool(gaps.any()):  # impossible ids: 0 ln 0 = 0; rows that are not finite stay NaN
        near = d[gaps]
        weighted[gaps] = top[gaps] * row_sums(near.exp() * near.clamp_min(torch.finfo(d.dtype).min))
    exact = top.double()  # a vector's last elements take another log and exp than its first: here that cannot show
    entropy = -(exact.log() + weighted).to(d.dtype)
    confidence = top
    if bool(choosable.forbids(token).any()):
        d[:, choosable.mask_id : choosable.mask_id + 1] = -torch.inf
        d[:, choosable.limit :] = -torch.inf
        token = first_maximum(d)
        lost = pick(d, token) < 0  # the maximum was not choosable, and far below it d is rounded
        if bool(lost.any()):
            token[lost] = choosable.argmax(logits[lost])
        confidence = (exact * pick(d, token).double().exp()).to(d.dtype)
    return Statistics(token, confidence, entropy.clamp_min(0.0))


def trajectory(logits: Tensor, token: Tensor) -> Trajectory:
    """logits (N, V), token (N,): the layer's argmax and its probability of `token`, in float32."""
    if fused := kernels_for(logits):
        return Trajectory(*fused.trajectory(logits, token))
    dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
    parts, start = [], 0
    for _, d, p in centred(logits, dtype):
        parts.append((first_maximum(d), pick(p, token[start : start + len(d)])))
        start += len(d)
    return Trajectory(*(torch.cat(column) for column in zip(*parts, strict=True)))


def centred(logits: Tensor, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Chunks of rows with d = z - max z and p = softmax z. The last two are buffers: use them before the next."""
    count = max(1, CHUNK_ELEMENTS.get(logits.device.type, 1 << 18) // max(1, logits.shape[-1]))
    chunks = logits.split(count)
    d_buffer, p_buffer = (torch.empty(chunks[0].shape, dtype=dtype, device=logits.device) for _ in range(2))
    for chunk in chunks:
        d, p = d_buffer[: len(chunk)], p_buffer[: len(chunk)]
        if chunk.dtype == dtype:
            torch.sub(chunk, chunk.amax(dim=-1, keepdim=True), out=d)
        else:
            d.copy_(chunk)
            d -= d.amax(dim=-1, keepdim=True)
        torch.softmax(d, dim=-1, out=p)
        yield chunk, d, p


def row_sums(values: Tensor) -> Tensor:
    """A long row alone would be split over threads, and rounded otherwise than among others: make it two."""
    return values.expand(2, -1).sum(dim=-1)[:1] if len(values) == 1 else values.sum(dim=-1)


def pick(values: Tensor, column: Tensor) -> Tensor:
    return values.gather(-1, column[:, None]).squeeze(-1)


def first_maximum(values: Tensor) -> Tensor:
    """argmax, ties to the lowest index. NumPy's is ten times as fast on a CPU."""
    if values.is_cuda or values.dtype not in (torch.float32, torch.float64):
        return values.argmax(dim=-1)
    return torch.from_numpy(values.numpy().argmax(axis=-1))


def kernels_for(logits: Tensor) -> ModuleType | None:
    """The fused kernels, where the logits are on a device they run on and not in float64."""
    if not logits.is_cuda or logits.dtype == torch.float64:
        return None
    from unmask.kernels import fused

    return fused if fused.available() else None
