"""Turning logits into tokens: Gumbel noise (LLaDA), temperature / top-p / top-k (Dream). One tested place."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def gumbel_argmax(logits: Tensor, temperature: float, rng: torch.Generator | None) -> Tensor:
    """A sample from softmax(logits / T) by Gumbel-max on z - T ln(-ln u), in float64.

    Lower precision makes the noise's tail coarse and the samples too greedy (arXiv:2409.02908)."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    u = torch.rand(logits.shape, generator=rng, device=logits.device, dtype=torch.float64)
    return (logits.double() - temperature * torch.log(-torch.log(u))).argmax(dim=-1)


def transform(
    logits: Tensor,
    temperature: float,
    top_p: float | None,
    top_k: int | None,
    alg: str,
    rng: torch.Generator | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Dream's transformed distribution q -> a token per row, and its confidence under `alg`."""
    q = transformed(logits, temperature, top_p, top_k)
    if temperature > 0:
        token = torch.multinomial(q, 1, generator=rng).squeeze(-1)
    else:
        token = q.argmax(dim=-1)
    if alg == "topk_margin":
        pair = q.topk(2, dim=-1).values
        confidence = pair[:, 0] - pair[:, 1]
    elif alg == "entropy":
        confidence = (q * torch.log(q + 1e-10)).sum(-1)
    else:
        confidence = q.gather(-1, token[:, None]).squeeze(-1)
    return token.cpu().numpy(), confidence.double().cpu().numpy()


def transformed(logits: Tensor, temperature: float, top_p: float | None, top_k: int | None) -> Tensor:
    """q after temperature, then top-p (the token that crosses the threshold stays), then top-k. float32."""
    z = logits if logits.dtype == torch.float64 else logits.float()
    if temperature > 0:
        z = z / temperature
    lowest = torch.finfo(z.dtype).min
    if top_p is not None and top_p < 1:
        ordered, order = z.sort(dim=-1, descending=True, stable=True)
        p = ordered.softmax(-1)
        spent = p.cumsum(-1)[..., :-1] > top_p  # before this token: the one that crosses stays, and the first always
        drop = torch.zeros_like(z, dtype=torch.bool).scatter(-1, order[..., 1:], spent)
        z = z.masked_fill(drop, lowest)
    if top_k is not None and top_k < z.shape[-1]:
        z = z.masked_fill(z < z.topk(top_k, dim=-1).values[:, -1:], lowest)
    return z.softmax(-1)
