"""Token, confidence and entropy of rows of logits, against float64 and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reference import statistics as reference
from unmask import statistics as ours
from unmask.statistics import Choosable, statistics, trajectory

V = 40
MASK, LIMIT = 30, 36  # id 30 is the mask; 36 and up have no token
FORBIDDEN = [MASK, *range(LIMIT, V)]
CHOOSABLE = Choosable(MASK, LIMIT)


def rows(kind: str, n: int = 64) -> np.ndarray:
    rng = np.random.default_rng(0)
    z = rng.normal(0, 3, (n, V))
    if kind == "tied":
        return rng.integers(0, 3, (n, V)).astype(float)
    if kind == "flat":
        return np.full((n, V), 7.0)
    if kind == "extreme":
        return rng.choice([-1e4, 0.0, 1e4], (n, V), p=[0.5, 0.4, 0.1])
    if kind == "near one-hot":
        z[np.arange(n), rng.integers(0, V, n)] += rng.uniform(10, 60, n)
    if kind == "mask wins":
        z[:, MASK] = z.max(axis=1) + rng.choice([0.0, 1.0, 20.0], n)
    if kind == "unused id wins":
        z[:, LIMIT + 1] = z.max(axis=1) + 1
        z[::2, MASK] = z[::2].max(axis=1) + 1
    if kind == "with impossible ids":
        z[rng.random((n, V)) < 0.5] = -np.inf
        z[:, 3] = 0.0
    return z


KINDS = ("random", "tied", "flat", "extreme", "near one-hot", "mask wins", "unused id wins", "with impossible ids")


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_of_rows(kind: str) -> None:
    z = rows(kind).astype(np.float32)
    found = statistics(torch.from_numpy(z), CHOOSABLE)
    tokens, confidences, entropies = reference.statistics_rows(z.astype(np.float64), FORBIDDEN)
    assert found.token.tolist() == tokens
    assert found.confidence.dtype == found.entropy.dtype == torch.float32
    np.testing.assert_allclose(found.confidence.numpy(), confidences, atol=2e-6)
    np.testing.assert_allclose(found.entropy.numpy(), entropies, atol=2e-5)
    assert bool((found.entropy >= 0).all()) and bool((found.confidence <= 1).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "extreme"])
def test_statistics_of_half_precision_logits(kind: str, dtype: torch.dtype) -> None:
    """The logits are rounded, the arithmetic is not: against float64 on the rounded values."""
    z = torch.from_numpy(rows(kind)).to(dtype)
    found = statistics(z, CHOOSABLE)
    tokens, confidences, entropies = reference.statistics_rows(z.double().numpy(), FORBIDDEN)
    assert found.token.tolist() == tokens
    np.testing.assert_allclose(found.confidence.numpy(), confidences, atol=2e-6)
    np.testing.assert_allclose(found.entropy.numpy(), entropies, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_large_vocabulary_alone_and_among_others(dtype: torch.dtype) -> None:
    """Bit for bit, on two threads as well: a long row alone is where a library would split the sum."""
    vocabulary, threads = 70_000, torch.get_num_threads()
    z = (torch.randn(5, vocabulary, generator=torch.Generator().manual_seed(1)) * 4).to(dtype)
    choosable, token = Choosable(69_000, 69_990), torch.arange(5)
    try:
        torch.set_num_threads(2)
        whole, along = statistics(z, choosable), trajectory(z, token)
        for i in range(5):
            alone = statistics(z[i : i + 1], choosable)
            assert all(torch.equal(a[i : i + 1], b) for a, b in zip(whole, alone, strict=True))
            read = trajectory(z[i : i + 1], token[i : i + 1])
            assert all(torch.equal(a[i : i + 1], b) for a, b in zip(along, read, strict=True))
    finally:
        torch.set_num_threads(threads)
    p = z.double().softmax(-1)
    np.testing.assert_allclose(whole.entropy.numpy(), -(p * p.log()).sum(-1).numpy(), rtol=1e-5)


def test_a_choosable_token_far_below_the_mask_is_found_exactly() -> None:
    """Next to a maximum of 1e6 the difference of 1.0 and 1.0000001 is lost; the choice must not be."""
    z = torch.zeros(2, V)
    z[:, MASK], z[:, 7], z[0, 20] = 1e6, 1.0, 1.0 + 2e-7
    assert statistics(z, CHOOSABLE).token.tolist() == [20, 7]


def test_rows_that_are_not_finite_are_seen() -> None:
    z = torch.zeros(4, V)
    z[1, 3], z[2, 3], z[3] = torch.nan, torch.inf, -torch.inf
    found = statistics(z, CHOOSABLE)
    assert (torch.isfinite(found.confidence) & torch.isfinite(found.entropy)).tolist() == [True, False, False, False]


def test_the_logits_are_never_copied_as_a_whole() -> None:
    z = torch.zeros(600, 4096)
    pointers = {d.data_ptr() for _, d, _ in ours.centred(z, torch.float32)}
    largest = max(d.numel() for _, d, _ in ours.centred(z, torch.float32))
    assert len(pointers) == 1 and largest == ours.CHUNK_ELEMENTS["cpu"] < z.numel() / 4


@given(st.lists(st.integers(-4, 4), min_size=V, max_size=V))
def test_ties_go_to_the_lowest_choosable_id(z: list[int]) -> None:
    row = torch.tensor([z], dtype=torch.float32)
    assert statistics(row, CHOOSABLE).token.item() == reference.argmax(z, FORBIDDEN)
    assert trajectory(row, torch.tensor([0])).argmax.item() == reference.argmax(z)  # readouts forbid nothing


def test_by_hand() -> None:
    z = torch.log(torch.tensor([[0.5, 0.25, 0.25]]))
    free, masked = statistics(z, Choosable(2, 3)), statistics(z, Choosable(0, 3))
    assert (free.token.item(), masked.token.item()) == (0, 1)
    assert masked.confidence.item() == pytest.approx(0.25)  # forbidden ids keep their probability
    assert free.entropy.item() == masked.entropy.item() == pytest.approx(1.5 * math.log(2))


@pytest.mark.parametrize("chunk", [1, V, 3 * V, 10**6])
def test_chunking_changes_nothing(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    z = torch.from_numpy(rows("random", 50)).float()
    token = torch.arange(50) % V
    whole, along = statistics(z, CHOOSABLE), trajectory(z, token)
    monkeypatch.setitem(ours.CHUNK_ELEMENTS, "cpu", chunk)
    assert all(torch.equal(a, b) for a, b in zip(whole, statistics(z, CHOOSABLE), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(along, trajectory(z, token), strict=True))


def test_no_rows() -> None:
    found = statistics(torch.empty((0, V)), CHOOSABLE)
    assert [len(column) for column in found] == [0, 0, 0]


def test_logits_are_left_alone() -> None:
    z = torch.from_numpy(rows("mask wins")).float()
    before = z.clone()
    statistics(z, CHOOSABLE)
    forbidden = CHOOSABLE.forbid(z)
    assert torch.equal(z, before)
    assert bool((forbidden[:, FORBIDDEN] == -torch.inf).all())
    assert torch.equal(forbidden[:, :MASK], z[:, :MASK])


@pytest.mark.parametrize("kind", KINDS)
def test_trajectory_is_the_layers_own_argmax_and_the_tokens_probability(kind: str) -> None:
    z = rows(kind).astype(np.float32)
    token = np.random.default_rng(1).integers(0, V, len(z))
    found = trajectory(torch.from_numpy(z), torch.from_numpy(token))
    assert found.argmax.tolist() == [reference.argmax(row) for row in z]
    expected = [reference.softmax(row)[y] for row, y in zip(z, token, strict=True)]
    np.testing.assert_allclose(found.probability.numpy(), expected, atol=2e-6)


# --- the dtype of scores --------------------------------------------------------------------------------------


def test_scores_are_float32_even_from_half_precision_logits() -> None:
    z = torch.tensor([[9.0, 0.0, 0.0]]).bfloat16()
    found = statistics(z, Choosable(2, 3))
    assert found.confidence.item() == pytest.approx(1 / (1 + 2 * math.exp(-9)), abs=1e-7) != 1.0


def test_float64_scores() -> None:
    z = rows("random")
    found = statistics(torch.from_numpy(z), CHOOSABLE, torch.float64)
    _, confidences, entropies = reference.statistics_rows(z, FORBIDDEN)
    assert found.confidence.dtype == torch.float64
    np.testing.assert_allclose(found.confidence.numpy(), confidences, rtol=1e-13)
    np.testing.assert_allclose(found.entropy.numpy(), entropies, rtol=1e-12)


@pytest.mark.parametrize("p", [0.9985, 0.9975, 0.9, 0.6, 0.3, 0.05])
def test_bfloat16_scores_are_as_coarse_as_the_officials(p: float) -> None:
    """Near 1 they are spaced 2^-8 apart: everything from 1 - 2^-9 rounds to 1, which DAPD's direct test uses."""
    z = torch.log(torch.tensor([[p, 1 - p]])).bfloat16()
    found = statistics(z, Choosable(5, 2), torch.bfloat16)
    assert found.confidence.dtype == torch.bfloat16
    official = torch.softmax(z, dim=-1).max()
    assert found.confidence.item() == pytest.approx(official.item(), rel=2.0**-7)
    if p > 0.998:
        assert found.confidence.item() == 1.0
