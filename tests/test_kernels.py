"""The fused kernels against float64, on CUDA where there is a device, and under Triton's interpreter anywhere."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

CUDA = torch.cuda.is_available()
if not CUDA:
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are defined, so before the import below

pytest.importorskip("triton", reason="Triton is not installed")
from unmask.kernels import fused  # noqa: E402

DEVICE = "cuda" if CUDA else "cpu"


def rows(kind: str, n: int, vocabulary: int, dtype: torch.dtype) -> torch.Tensor:
    rng = torch.Generator().manual_seed(len(kind) * 1000 + vocabulary)
    z = torch.randn(n, vocabulary, generator=rng) * 3
    if kind == "tied":
        z = z.round()
    elif kind == "extreme":
        z = z * 3000
    elif kind == "near one-hot":
        z[torch.arange(n), torch.randint(0, vocabulary, (n,), generator=rng)] = 40.0
    elif kind == "uniform":
        z = torch.zeros(n, vocabulary)
    elif kind == "holes":
        z[:, ::3] = -torch.inf
    return z.to(dtype).to(DEVICE)


def reference(z: torch.Tensor, mask_id: int, limit: int):
    z = z.double().cpu().numpy()
    shifted = z - z.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    p = np.exp(log_p)
    allowed = z.copy()
    allowed[:, limit:] = -np.inf
    if mask_id >= 0:
        allowed[:, mask_id] = -np.inf
    y = allowed.argmax(axis=1)
    entropy = -np.where(p > 0, p * np.where(p > 0, log_p, 0), 0).sum(axis=1)
    return y, p[np.arange(len(y)), y], entropy


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["random", "tied", "extreme", "near one-hot", "uniform", "holes"])
@pytest.mark.parametrize("vocabulary", [7, 1000, 5003])
def test_statistics_agree_with_float64(kind, vocabulary, dtype):
    z = rows(kind, 5, vocabulary, dtype)
    mask_id, limit = vocabulary // 2, vocabulary - 2
    token, confidence, entropy = (t.cpu().numpy() for t in fused.statistics(z, mask_id, limit))
    y, c, h = reference(z, mask_id, limit)
    assert (token == y).all(), "ties go to the lowest id; the mask and unused ids are never chosen"
    np.testing.assert_allclose(confidence, c, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(entropy, h, rtol=1e-4, atol=2e-5)


def test_trajectory_reads_the_given_token():
    z = rows("random", 9, 3001, torch.float32)
    given = torch.arange(9, device=DEVICE) * 300
    argmax, probability = fused.trajectory(z, given)
    p = z.double().softmax(-1).cpu().numpy()
    assert (argmax.cpu().numpy() == z.cpu().numpy().argmax(axis=1)).all()
    np.testing.assert_allclose(probability.cpu().numpy(), p[np.arange(9), given.cpu().numpy()], rtol=1e-4)


def test_strided_rows_and_no_rows():
    wide = rows("random", 4, 2000, torch.float32)
    part = wide[:, :1500]  # a view: rows are 2000 apart
    assert (fused.statistics(part, -1, 1500)[0].cpu() == part.argmax(-1).cpu()).all()
    assert fused.statistics(wide[:0], -1, 2000)[0].shape == (0,)


def test_non_finite_rows_are_seen():
    z = rows("random", 3, 500, torch.float32)
    z[1, 100] = torch.nan
    z[2, 100] = torch.inf
    _, confidence, entropy = fused.statistics(z, -1, 500)
    bad = ~(torch.isfinite(confidence) & torch.isfinite(entropy))
    assert bad.tolist() == [False, True, True]
