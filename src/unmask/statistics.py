"""Token, confidence and entropy of each row of logits (Section 0 of the decoder rules; paper Eq. 1).

    y = argmax over the ids that may be chosen      c = p(y)      H = -sum p ln p over all ids

The mask token and ids the tokenizer does not know may never be chosen, but keep their probability: c is
not renormalised and H runs over the whole vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

# Rows are taken a few at a time so that the float32 copy of a chunk stays in cache; the whole is never copied.
CHUNK_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Choosable:
    """The ids a decoder may choose: below `limit`, except the mask."""

    mask_id: int
    limit: int

    def forbid(self, logits: Tensor) -> Tensor:
        """A copy of `logits` in which nothing else can be sampled."""
        logits = logits.clone()
        logits[..., self.mask_id] = -torch.inf
        logits[..., self.limit :] = -torch.inf
        return logits

    def argmax(self, logits: Tensor) -> Tensor:
        """First maximum over the choosable ids, without copying the logits."""
        _, token = logits[:, : self.limit].max(dim=-1)
        hit = token == self.mask_id
        if bool(hit.any()):  # rare: the mask won, so look left and right of it
            rows = logits[hit, : self.limit].clone()
            rows[:, self.mask_id] = -torch.inf
            token[hit] = rows.argmax(dim=-1)
        return token


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
    parts = [_statistics(chunk, choosable, score_dtype) for chunk in logits.split(rows_per_chunk(logits))]
    return Statistics(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _statistics(logits: Tensor, choosable: Choosable, dtype: torch.dtype) -> Statistics:
    token = choosable.argmax(logits)
    log_p = torch.log_softmax(logits.to(dtype), dim=-1)
    confidence = log_p.gather(-1, token[:, None]).squeeze(-1).exp()
    p = log_p.exp()
    entropy = -(p * log_p.clamp_min(torch.finfo(dtype).min)).sum(-1)  # 0 ln 0 = 0
    return Statistics(token, confidence, entropy.clamp_min(0.0))


def trajectory(logits: Tensor, token: Tensor) -> Trajectory:
    """logits (N, V), token (N,): the layer's argmax and its probability of `token`, in float32."""
    if fused := kernels_for(logits):
        return Trajectory(*fused.trajectory(logits, token))
    parts = []
    for chunk, y in zip(logits.split(rows_per_chunk(logits)), token.split(rows_per_chunk(logits)), strict=True):
        z = chunk.float() if chunk.dtype != torch.float64 else chunk
        # log_softmax, not z - logsumexp(z): the latter loses its last digits where logits are large.
        log_p = torch.log_softmax(z, dim=-1).gather(-1, y[:, None]).squeeze(-1)
        parts.append((z.argmax(dim=-1), log_p.exp()))
    return Trajectory(*(torch.cat(column) for column in zip(*parts, strict=True)))


def kernels_for(logits: Tensor) -> ModuleType | None:
    """The fused kernels, where the logits are on a device they run on and not in float64."""
    if not logits.is_cuda or logits.dtype == torch.float64:
        return None
    from unmask.kernels import fused

    return fused if fused.available() else None


def rows_per_chunk(logits: Tensor) -> int:
    if logits.is_cuda:
        return max(1, logits.shape[0])
    return max(1, CHUNK_ELEMENTS // logits.shape[-1])
