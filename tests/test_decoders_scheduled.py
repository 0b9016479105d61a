"""The models' own decoders on hand-made views: the specification's worked examples, and literal references."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import chosen, run_select, tiny_spec, view
from reference import decoders as literal
from reference import worked_examples as examples
from states import draw, seen, states
from unmask import decoders
from unmask.decoders.sampling import gumbel_argmax, transform, transformed
from unmask.decoders.sequential import even_schedule

get = decoders.get


# --- LLaDA default --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("e", examples.LLADA_SCHEDULE)
def test_llada_schedule(e: examples.Example) -> None:
    assert even_schedule(e["n"], e["s"]) == e["expected"]


@given(st.integers(0, 300), st.integers(1, 300))
def test_llada_schedule_is_the_literal_one(n: int, s: int) -> None:
    assert even_schedule(n, s) == literal.llada_schedule(n, s)


@pytest.mark.parametrize("e", examples.LLADA_SELECT)
def test_llada_select(e: examples.Example) -> None:
    decoder = get("llada-default", steps=4 // e["k"], block_length=4).resolve(tiny_spec(), 4)
    assert chosen(decoder, view(e["confidence"], length=4)) == e["expected"]


@pytest.mark.parametrize(("masks", "steps", "counts"), [(10, 4, [3, 3, 2, 2]), (4, 3, [2, 1, 1]), (4, 9, [1] * 4)])
def test_llada_counts_per_step(masks: int, steps: int, counts: list[int]) -> None:
    """The schedule is made from the masks the block begins with, and kept in the row's memory."""
    decoder = get("llada-default", steps=steps, block_length=None).resolve(tiny_spec(), masks)
    memory: dict[str, Any] = {}
    left, found = masks, []
    while left:
        found.append(len(chosen(decoder, view(np.linspace(0, 1, left), length=masks, memory=memory))))
        left -= found[-1]
    assert found == counts


@pytest.mark.parametrize("name", ["llada-default", "dream-default"])
def test_a_schedule_of_any_length_costs_no_memory(name: str) -> None:
    """Nobody waits for 10^6 steps, but asking for them must not fill the memory with a schedule."""
    options = {"block_length": None} if name == "llada-default" else {}
    decoder = get(name, steps=10**6, **options).resolve(tiny_spec(), 4)
    made = view([0.5] * 4, logits=np.zeros((4, 3)), step=10**6 - 1, rng=torch.Generator())
    assert len(chosen(decoder, made)) == (1 if name == "llada-default" else 4)


@given(st.integers(1, 400), st.sampled_from([1e-3, 0.1, 0.5]))
def test_dream_times_are_those_of_linspace(steps: int, eps: float) -> None:
    t = np.linspace(1.0, eps, steps + 1).tolist()
    decoder = get("dream-default", steps=steps, eps=eps)
    assert [decoder.times(i) for i in range(steps)] == list(pairwise(t))  # type: ignore[attr-defined]


@given(states(), st.integers(1, 12))
def test_llada_commits_the_most_confident(state: dict[str, Any], k: int) -> None:
    n = len(state["c"])
    made = seen(state, memory={"block": 0, "counts": [k]})
    decoder = get("llada-default", block_length=None).resolve(tiny_spec(), n)
    assert chosen(decoder, made) == literal.llada_select(state["c"], k)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 1.0, 1.7]))
def test_llada_noise_is_the_published_one(seed: int, temperature: float) -> None:
    z = np.random.default_rng(seed).normal(0, 3, (5, 12))
    u = draw(seed, 5, 12).numpy()
    found = gumbel_argmax(torch.from_numpy(z), temperature, torch.Generator().manual_seed(seed))
    expected = [literal.argmax(literal.llada_noisy(row, noise, temperature)) for row, noise in zip(z, u, strict=True)]
    assert found.tolist() == expected


EOS, EOT, MASK = 2, 5, 7


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.7]), st.booleans(), st.booleans())
def test_llada_proposals(seed: int, temperature: float, logits_eos_inf: bool, confidence_eos_eot_inf: bool) -> None:
    """Tokens from noisy logits, confidences from clean ones; the flags as published at temperature 0.

    Above 0 the published code lets end-of-text escape `confidence_eos_eot_inf`; here the flag means what it says."""
    z = np.random.default_rng(seed).normal(0, 2, (6, 9))
    z[:, EOS] += 2
    decoder = get(
        "llada-default", steps=6, block_length=None, temperature=temperature, logits_eos_inf=logits_eos_inf,
        confidence_eos_eot_inf=confidence_eos_eot_inf,
    ).resolve(tiny_spec(), 6)  # fmt: skip
    made = view(
        [literal.softmax(row).max() for row in z], logits=z, mask_id=MASK, rng=torch.Generator().manual_seed(seed),
        stop_ids=frozenset({EOS, EOT}), eos_id=EOS,
        token=np.array([literal.argmax(row, [MASK]) for row in z]),
        confidence=np.array([literal.softmax(row)[literal.argmax(row, [MASK])] for row in z]),
    )  # fmt: skip
    commit, _ = run_select(decoder, made)
    u = draw(seed, 6, 9).numpy()
    flags = {"eos": EOS, "eot": EOT, "logits_eos_inf": logits_eos_inf}
    for i in range(6):
        y, confidence = literal.llada_propose(
            z[i], u[i], temperature, [MASK], **flags, confidence_eos_eot_inf=confidence_eos_eot_inf
        )
        if confidence_eos_eot_inf and temperature > 0:
            ends = z[i].copy()
            ends[[EOS, EOT]] = -np.inf
            confidence = literal.softmax(ends)[y]
        found = made.token[i] if commit.token is None else commit.token[i]
        assert found == y
        assert commit.columns["score"][i] == pytest.approx(confidence, abs=1e-12)


def test_llada_random_remasking_ranks_by_noise() -> None:
    decoder = get("llada-default", remasking="random", block_length=None, steps=2).resolve(tiny_spec(), 8)
    u = draw(3, 8).tolist()
    made = view([0.9] * 8, rng=torch.Generator().manual_seed(3))
    assert chosen(decoder, made) == literal.llada_select(u, 4)


# --- Dream default --------------------------------------------------------------------------------------------


def dream(length: int, **options: Any) -> decoders.Decoder:
    return get("dream-default", **options).resolve(tiny_spec("dream"), length)


def log(p: Sequence[float]) -> torch.Tensor:
    return torch.log(torch.tensor([p], dtype=torch.float64))


@pytest.mark.parametrize("e", examples.DREAM_SCHEDULE)
def test_dream_schedule(e: examples.Example) -> None:
    """eps makes the first product 0.999: the first step commits nothing, the last two."""
    decoder = dream(e["n"], steps=e["steps"], temperature=0.0)
    left, counts = e["n"], []
    for step in range(e["steps"]):
        made = view([0.5] * left, length=e["n"], logits=np.zeros((left, 3)), step=step)
        counts.append(len(chosen(decoder, made)))
        left -= counts[-1]
    assert counts == e["expected"] and left == 0


@given(st.integers(1, 60), st.integers(1, 60), st.sampled_from([1e-3, 0.1, 0.5]))
def test_dream_schedule_is_the_literal_one(n: int, steps: int, eps: float) -> None:
    decoder = dream(n, steps=steps, eps=eps, temperature=0.0, alg="maskgit_plus")
    expected, left = literal.dream_schedule(n, steps, eps), n
    for step, count in enumerate(expected):
        if not left:
            break
        made = view([0.5] * left, length=n, logits=np.zeros((left, 3)), step=step)
        assert len(chosen(decoder, made)) == count
        left -= count


@pytest.mark.parametrize("e", examples.DREAM_TRANSFORM)
def test_dream_transform(e: examples.Example) -> None:
    z = log(e["p"])
    assert transformed(z, e["temperature"], e["top_p"], None)[0].tolist() == pytest.approx(e["q"])
    for alg in ("entropy", "topk_margin", "maskgit_plus"):
        if alg in e or alg == "maskgit_plus":
            rng = torch.Generator().manual_seed(0)
            token, confidence = transform(z, e["temperature"], e["top_p"], None, alg, rng)
            expected = e["q"][token[0]] if alg == "maskgit_plus" else e[alg]
            assert confidence[0] == pytest.approx(expected, abs=5e-5)


def test_dream_ties_at_a_point_mass() -> None:
    """Past a ratio of 9^0.1, temperature 0.1 and top-p 0.9 leave one token, whose confidence is exactly 0."""
    for factor, survivors in ((0.999, 2), (1.001, 1)):
        ratio = examples.DREAM_POINT_MASS_RATIO * factor
        q = transformed(log([ratio / (1 + ratio), 1 / (1 + ratio)]).float(), 0.1, 0.9, None)
        assert (q > 0).sum() == survivors
    p = [[0.5, 0.5], [0.6, 0.4], [0.95, 0.05], [0.5, 0.5], [0.9, 0.1]]
    logits = np.log(np.pad(p, ((0, 0), (0, 1)), constant_values=1e-30))
    made = view([0.5] * 5, logits=logits, step=1, rng=torch.Generator().manual_seed(0))
    commit, _ = run_select(dream(5, steps=3), made)
    assert commit.columns["score"][[1, 2, 4]].tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)
    assert np.flatnonzero(commit.take).tolist() == [1, 2]  # a tie, so in reading order: 0.9 waits for 0.6


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0]),
    st.sampled_from([None, 1.0, 0.95, 0.5, 0.01]),
    st.sampled_from([None, 1, 2, 5, 99]),
)
def test_dream_transform_is_the_literal_one(seed: int, temperature: float, top_p: Any, top_k: Any) -> None:
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 2, (4, 11))
    z[0] = rng.integers(0, 3, 11)  # ties: top-k keeps them all
    kwargs: dict[str, Any] = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    q = transformed(torch.from_numpy(z), **kwargs).numpy()
    first = 0 if top_p in (None, 1.0) else 1  # tied rows add up differently at the edge of top-p
    for row in range(first, 4):
        np.testing.assert_allclose(q[row], literal.dream_transform(z[row], **kwargs), atol=1e-12)
        for alg in ("maskgit_plus", "topk_margin", "entropy"):
            token, score = transform(torch.from_numpy(z), **kwargs, alg=alg, rng=torch.Generator().manual_seed(seed))
            assert q[row, token[row]] > 0
            assert score[row] == pytest.approx(literal.dream_confidence(alg, q[row], token[row]), abs=1e-9)


def test_dream_keeps_a_token_exactly_at_top_p() -> None:
    """A token goes only when what lies before it *exceeds* top_p; of equals, the lowest ids come first."""
    assert (transformed(torch.zeros((1, 4)), 1.0, 0.5, None)[0] > 0).tolist() == [True, True, True, False]


@pytest.mark.parametrize("e", examples.DREAM_SELECT)
def test_dream_select(e: examples.Example) -> None:
    """Confidences as given, by rows whose negative entropy they are."""
    rows = []
    for target in e["confidence"]:
        p = np.linspace(1e-9, 0.5, 20001)
        entropy = p * np.log(p) + (1 - p) * np.log(1 - p)
        best = p[np.argmin(abs(entropy - target))] if target else 0.0
        rows.append([np.log(max(1 - best, 1e-30)), np.log(max(best, 1e-30)), -80.0])
    made = view([0.5] * 4, logits=rows, length=4, step=1)
    commit, _ = run_select(dream(4, steps=4, temperature=0.0, top_p=None), made)
    assert commit.columns["score"] == pytest.approx(e["confidence"], abs=1e-3)
    assert np.flatnonzero(commit.take).tolist() == e["expected"]


def test_dream_origin_commits_by_chance() -> None:
    decoder = dream(40, steps=4, temperature=0.0, alg="origin")
    for step in range(4):
        made = view([0.5] * 40, logits=np.zeros((40, 3)), step=step, rng=torch.Generator().manual_seed(step))
        expected = literal.dream_origin(draw(step, 40).tolist(), step, 4)
        assert chosen(decoder, made) == expected
    assert expected == list(range(40))  # everything at last


def test_dream_samples_tokens_from_q() -> None:
    p = np.array([0.5, 0.3, 0.15, 0.05])
    z = torch.from_numpy(np.log(np.tile(p, (20_000, 1))))
    token, _ = transform(z, 1.0, 0.7, None, "entropy", torch.Generator().manual_seed(0))
    assert np.bincount(token, minlength=4) / 20_000 == pytest.approx([0.625, 0.375, 0, 0], abs=0.015)


def test_dream_alg_temp_draws_positions_without_replacement() -> None:
    p = np.array([0.5, 0.75, 0.9, 0.99])
    logits = np.log(np.stack([p, 1 - p, np.full(4, 1e-30)], axis=1))
    decoder = dream(4, steps=4, temperature=0.0, alg="maskgit_plus", alg_temp=0.3)
    counts = np.zeros(4)
    for seed in range(3000):
        made = view(p, logits=logits, length=4, step=1, rng=torch.Generator().manual_seed(seed))
        (i,) = chosen(decoder, made)
        counts[i] += 1
    expected = literal.dream_draw_probabilities(p.tolist(), 0.3)
    assert counts / 3000 == pytest.approx([expected[i] for i in range(4)], abs=0.03)
    last = view(p, logits=logits, length=4, step=3, rng=torch.Generator().manual_seed(0))
    assert chosen(decoder, last) == [0, 1, 2, 3]


@pytest.mark.parametrize("alg", ["entropy", "maskgit_plus", "topk_margin", "origin"])
@pytest.mark.parametrize("temperature", [0.0, 0.1, 1.0])
def test_dream_never_samples_the_mask(alg: str, temperature: float) -> None:
    logits = np.random.default_rng(0).normal(0, 1, (50, 8))
    logits[:, MASK] = 9.0
    made = view([0.5] * 50, logits=logits, mask_id=MASK, rng=torch.Generator().manual_seed(0))
    commit, _ = run_select(dream(50, steps=1, temperature=temperature, alg=alg), made)
    assert commit.take.all() and (commit.token != MASK).all()
