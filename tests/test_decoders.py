"""Every rule on hand-made views: the specification's worked examples, and literal references on random states."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import chosen, resolved, run_select, tiny_spec, view
from reference import decoders as literal
from reference import worked_examples as examples
from unmask import UserError, decoders
from unmask.canvas import Canvas
from unmask.decoders.base import REASONS, ROUTES, Explore, StepView, lowest_mapped
from unmask.decoders.dependency import DIRECT
from unmask.decoders.sampling import gumbel_argmax, transform, transformed
from unmask.decoders.sequential import even_schedule

get = decoders.get

# Sixteenths: ties and equalities with thresholds are common, and sums are exact.
shares = st.integers(0, 16).map(lambda n: n / 16)
entropies = st.integers(0, 48).map(lambda n: n / 16)


@st.composite
def states(draw: st.DrawFn, most: int = 12) -> dict[str, list[Any]]:
    n = draw(st.integers(1, most))
    row = {"c": shares, "H": entropies, "stable": st.booleans()}
    return {name: draw(st.lists(values, min_size=n, max_size=n)) for name, values in row.items()}


def seen(state: dict[str, list[Any]], **fields: Any) -> StepView:
    return view(state["c"], state["H"], **fields)


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


@given(states(), st.integers(1, 12))
def test_llada_commits_the_most_confident(state: dict[str, Any], k: int) -> None:
    n = len(state["c"])
    made = seen(state, memory={"block": 0, "counts": [k]})
    decoder = get("llada-default", block_length=None).resolve(tiny_spec(), n)
    assert chosen(decoder, made) == literal.llada_select(state["c"], k)


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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


# --- Fast-dLLM ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("e", examples.FAST_THRESHOLD)
def test_fast_threshold(e: examples.Example) -> None:
    assert chosen(get("fast-dllm", threshold=e["tau"]), view(e["c"])) == e["expected"]


@given(states(), shares)
def test_fast_threshold_is_the_literal_one(state: dict[str, Any], tau: float) -> None:
    assert chosen(get("fast-dllm", threshold=tau), seen(state)) == literal.fast_threshold(state["c"], tau)


@pytest.mark.parametrize("e", examples.FAST_FACTOR)
def test_fast_factor(e: examples.Example) -> None:
    assert chosen(get("fast-dllm", factor=e["f"]), view(e["c"])) == e["expected"]
    assert chosen(get("fast-dllm", factor=e["f"], quirk=True), view(e["c"])) == e["quirk"]


@given(states(), st.integers(0, 32).map(lambda n: n / 8), st.booleans())
def test_fast_factor_is_the_literal_one(state: dict[str, Any], f: float, quirk: bool) -> None:
    found = chosen(get("fast-dllm", factor=f, quirk=quirk), seen(state))
    assert found == literal.fast_factor(state["c"], f, quirk)


# --- EB-Sampler -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("e", examples.EB)
def test_eb(e: examples.Example) -> None:
    commit, _ = run_select(get("eb-sampler", gamma=e["gamma"]), view(e["c"], e["H"]))
    assert np.flatnonzero(commit.take).tolist() == e["expected"]
    assert commit.columns["score"][e["order"]] == pytest.approx(e["costs"])


@given(states(), st.integers(0, 40).map(lambda n: n / 16) | st.just(math.inf), st.integers(0, 2**32 - 1))
def test_eb_proxies_are_the_literal_ones(state: dict[str, Any], gamma: float, seed: int) -> None:
    n = len(state["c"])
    p = np.random.default_rng(seed).dirichlet(np.ones(6), n)
    margin = [sorted(row)[-1] - sorted(row)[-2] for row in p]
    logits = np.log(np.concatenate([p, np.full((n, 1), 1e-30)], axis=1)).astype(np.float32)  # the last id: mask
    for proxy in ("confidence", "entropy", "margin"):
        found = chosen(get("eb-sampler", gamma=gamma, proxy=proxy), seen(state, logits=logits))
        assert found == literal.eb(state["c"], state["H"], gamma, None, proxy, margin)  # type: ignore[arg-type]


# --- LoPA -----------------------------------------------------------------------------------------------------


def branch_views(
    entropies: Sequence[Sequence[float]], block: int
) -> Callable[[Sequence[np.ndarray]], list[StepView]]:
    """Answers to an exploration: what each branch leaves of the block, with these entropies."""

    def answer(proposals: Sequence[np.ndarray]) -> list[StepView]:
        made = []
        for proposal, H in zip(proposals, entropies, strict=True):
            left = np.setdiff1d(np.arange(block), proposal)
            made.append(replace(view([0.5] * len(left), H), positions=left))
        return made

    return answer


def test_lopa() -> None:
    e = examples.LOPA
    decoder = get("lopa", threshold=e["threshold"], branches=e["k"])
    commit, asked = run_select(decoder, view(e["c"], e["H"]), futures=branch_views(e["remaining_H"], 5))
    (request,) = asked
    assert isinstance(request, Explore)
    assert [p.tolist() for p in request.proposals] == [[*e["anchor"], i] for i in e["lookahead"]] + [e["anchor"]]
    assert np.flatnonzero(commit.take).tolist() == e["committed"]
    assert commit.columns["score"][e["lookahead"]] == pytest.approx(e["scores"][: e["k"]])
    assert commit.keep is not None and commit.keep.positions.tolist() == [1, 3, 4]  # the winner's, for the next step
    assert commit.verdict.tolist() == ["confidence", "rank", "branch", "rank", "rank"]


@given(states(), shares, st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_lopa_is_the_literal_one(state: dict[str, Any], tau: float, k: int, seed: int) -> None:
    c, H, n = state["c"], state["H"], len(state["c"])
    anchor = literal.lopa_anchor(c, tau)
    left = [i for i in range(n) if i not in anchor]
    looks = literal.lopa_positions(H, left, k)
    branches = [[*anchor, i] for i in looks] + [anchor]
    rng = np.random.default_rng(seed)
    remaining = [[int(x) / 4 for x in rng.integers(0, 6, n - len(branch))] for branch in branches]
    scores = [literal.lopa_score(H, range(len(H))) for H in remaining]
    expected = sorted(branches[literal.lopa_winner(scores)]) if left else anchor

    commit, asked = run_select(
        get("lopa", threshold=tau, branches=k), seen(state), futures=branch_views(remaining, n)
    )
    assert np.flatnonzero(commit.take).tolist() == expected
    assert (commit.keep is None) == (not left) and len(asked) == bool(left)


def test_lopa_ignores_what_a_finished_branch_sees_of_the_next_block() -> None:
    """A branch that completes the block is shown the next block's masks, which must not count against it."""

    def futures(proposals: Sequence[np.ndarray]) -> list[StepView]:
        done = view([0.1, 0.1], [9.0, 9.0], start=2)
        return [done, view([0.5], [0.01], start=1)]

    assert chosen(get("lopa", branches=1), view([0.95, 0.5], [0.1, 0.1]), futures=futures) == [0, 1]


# --- DAPD -----------------------------------------------------------------------------------------------------


def dapd(tau: float, **options: Any) -> decoders.Decoder:
    return get("dapd", tau_min=tau, tau_max=tau, **options).resolve(tiny_spec(), 32)


def test_dapd_keys() -> None:
    e = examples.DAPD_KEYS
    commit, _ = run_select(dapd(0.05), view(e["c"]), attention=examples.DAPD_DISTANCE)
    assert commit.columns["score"] == pytest.approx(e["keys"], abs=5e-5)


@pytest.mark.parametrize("e", examples.DAPD_DIRECT)
def test_dapd_direct(e: examples.Example) -> None:
    assert chosen(dapd(e["tau"]), view(e["c"]), attention=examples.DAPD_DISTANCE) == e["expected"]


@given(
    states(), st.integers(0, 2**32 - 1), st.floats(0, 1), st.sampled_from(["direct", "staged"]), st.integers(0, 24)
)
def test_dapd_is_the_literal_one(state: dict[str, Any], seed: int, tau: float, variant: str, others: int) -> None:
    c, n = [0.999 if x == 1.0 else x for x in state["c"]], len(state["c"])
    attention = np.random.default_rng(seed).dirichlet(np.full(n, 0.3), n)
    found = chosen(dapd(tau, variant=variant), view(c, remaining=n + others, length=32), attention=attention)
    if variant == "direct":
        assert found == literal.dapd_direct(attention, c, tau)
    else:
        assert found == sorted(literal.dapd_staged(attention, c, tau, n + others, 32))


@pytest.mark.parametrize("e", examples.DAPD_THRESHOLD)
def test_dapd_threshold_follows_the_whole_canvas(e: examples.Example) -> None:
    decoder = get("dapd", tau_min=e["low"], tau_max=e["high"]).resolve(tiny_spec(), 256)
    made = view([0.5, 0.5], remaining=e["remaining"], length=e["length"])
    commit, _ = run_select(decoder, made, attention=np.eye(2))
    assert commit.threshold == pytest.approx(e["expected"])


@pytest.mark.parametrize("e", examples.DAPD_LAYERS)
def test_dapd_layers(e: examples.Example) -> None:
    lowest = lowest_mapped(0.7, e["layers"])
    assert list(range(lowest + 1, e["layers"] + 1)) == e["expected"]  # 1-based
    assert get("dapd").keep_from(e["layers"]) == lowest


def test_dapd_layers_are_not_lost_to_rounding() -> None:
    assert all(lowest_mapped(0.7, layers) == 7 * layers // 10 for layers in range(1, 200))


@pytest.mark.parametrize(
    ("family", "task", "expected"),
    [
        ("llada", "gsm8k", (0.005, 0.05)), ("llada", "math500", (0.005, 0.05)), ("llada", "humaneval", (0.01, 0.05)),
        ("llada", "mbpp", (0.01, 0.02)), ("dream", "gsm8k", (0.005, 0.01)), ("dream", "mbpp", (0.005, 0.01)),
        ("llada", None, (0.005, 0.05)), ("dream", None, (0.005, 0.01)),
    ],
)  # fmt: skip
def test_dapd_published_thresholds(family: str, task: str | None, expected: tuple[float, float]) -> None:
    decoder = get("dapd", task=task).resolve(tiny_spec(family), 32)
    assert (decoder.tau_min, decoder.tau_max) == expected
    assert decoder.direct == DIRECT == literal.CERTAIN


# --- RPD ------------------------------------------------------------------------------------------------------


def rpd(**options: Any) -> decoders.Decoder:
    return resolved(get("rpd", **{"theta_c": 0.6, "theta_h": 0.9, "beta": 4.0, **options}))


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("e", examples.RPD)
def test_rpd(e: examples.Example, lazy: bool) -> None:
    decoder = rpd(beta=e["beta"], window=e["window"], fallback=e["fallback"], lazy=lazy)
    stable = [i in e["stable"] for i in range(len(e["c"]))]
    commit, _ = run_select(decoder, view(e["c"], e["H"]), stable=stable)
    assert np.flatnonzero(commit.take).tolist() == e["expected"]
    if not lazy:
        assert {i: commit.columns["E"][i] for i in e["E"]} == pytest.approx(e["E"])
    assert commit.threshold == e["beta"]


@st.composite
def rpd_options(draw: st.DrawFn) -> dict[str, Any]:
    low, high = sorted(draw(st.tuples(shares, shares)))
    return {
        "theta_c": low,
        "theta_h": high,
        "beta": draw(st.integers(0, 80).map(lambda n: n / 16) | st.just(math.inf)),
        "window": draw(st.integers(1, 14)),
        "fallback": draw(st.sampled_from(["window", "affordable"])),
    }


@given(states(), rpd_options(), st.booleans())
def test_rpd_closed_form_is_the_literal_scan(state: dict[str, Any], options: dict[str, Any], lazy: bool) -> None:
    found = chosen(rpd(**options, lazy=lazy), seen(state), stable=state["stable"])
    assert found == literal.rpd_scan(**state, **options)


@given(states(), shares, shares)
def test_rpd_block_is_the_literal_one(state: dict[str, Any], a: float, b: float) -> None:
    low, high = sorted((a, b))
    decoder = resolved(get("rpd-block", theta_c=low, theta_h=high))
    found = chosen(decoder, seen(state), stable=state["stable"])
    assert found == literal.rpd_block(state["c"], state["stable"], low, high)


@given(states(), rpd_options())
def test_rpd_says_why(state: dict[str, Any], options: dict[str, Any]) -> None:
    """Each verdict, from the definitions: what was confident, stable, unstable, unsure, or held back by E."""
    commit, _ = run_select(rpd(**options, lazy=False), seen(state), stable=state["stable"])
    low, high, beta = options["theta_c"], options["theta_h"], options["beta"]
    C = literal.candidates(state["c"], state["stable"], low, high)
    E = literal.upstream_entropy(state["H"], C)
    hopeless = literal.upstream_entropy(state["H"], [i for i, c in enumerate(state["c"]) if c >= low])
    for i, (c, taken) in enumerate(zip(state["c"], commit.take, strict=True)):
        if taken and i in C and E[i] <= beta:
            expected = "confidence" if c >= high else "stability"
        elif taken:
            expected = "fallback"
        elif i in C:
            expected = "upstream"
        elif low <= c < high:
            expected = "upstream" if hopeless[i] > beta else "unstable"
        else:
            expected = "unsure"
        assert commit.verdict[i] == expected


@given(states(), rpd_options())
def test_rpd_asks_only_about_the_affordable_band(state: dict[str, Any], options: dict[str, Any]) -> None:
    _, asked = run_select(rpd(**options), seen(state), stable=state["stable"])
    low, high = options["theta_c"], options["theta_h"]
    hopeless = literal.upstream_entropy(state["H"], [i for i, c in enumerate(state["c"]) if c >= low])
    wanted = [i for i, c in enumerate(state["c"]) if low <= c < high and hopeless[i] <= options["beta"]]
    assert [request.indices.tolist() for request in asked] == ([wanted] if wanted else [])


# --- settings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["llada", "dream"])
@pytest.mark.parametrize("name", ["rpd", "rpd-paper"])
def test_the_papers_hyperparameters_are_the_defaults(family: str, name: str) -> None:
    expected = dict(examples.RPD_SETTINGS[family])
    spec = tiny_spec(family, layers=expected.pop("layers"))
    params = get(name).resolve(spec, 256).params()
    assert {key: params[key] for key in expected} == expected
    assert params["fallback"] == {"rpd": "affordable", "rpd-paper": "window"}[name]


def test_a_models_own_settings_yield_to_the_users_and_to_the_papers() -> None:
    spec = tiny_spec("llada", rpd={"beta": 1.5, "theta_c": 0.5})
    own, user, paper = get("rpd"), get("rpd", beta=2.0), get("rpd-paper")
    assert [d.resolve(spec, 32).beta for d in (own, user, paper)] == [1.5, 2.0, 4.0]
    assert [d.resolve(spec, 32).theta_c for d in (own, user, paper)] == [0.5, 0.5, 0.6]


@pytest.mark.parametrize("name", ["rpd", "rpd-block"])
@pytest.mark.parametrize(("option", "other"), [({"theta_h": 0.4}, "theta_c"), ({"theta_c": 0.95}, "theta_h")])
def test_a_threshold_past_the_models_other_one_is_refused(name: str, option: dict[str, float], other: str) -> None:
    """Nothing is moved that the user did not move."""
    with pytest.raises(UserError, match=rf"theta_c .* exceeds theta_h .*: set {other} too"):
        get(name, **option).resolve(tiny_spec("llada"), 32)
    assert get(name, **option, **{other: next(iter(option.values()))}).resolve(tiny_spec("llada"), 32)


ABLATION: dict[str, Callable[[dict[str, Any]], list[int]]] = {
    "confidence": lambda s: literal.rpd_scan(
        **s, theta_c=0.9, theta_h=0.9, beta=math.inf, window=256, fallback="window"
    ),
    "confidence+block": lambda s: literal.rpd_block(**{k: s[k] for k in ("c", "stable")}, theta_c=0.9, theta_h=0.9),
    "confidence+pp": lambda s: literal.rpd_block(**{k: s[k] for k in ("c", "stable")}),
    "confidence+ce": lambda s: literal.rpd_scan(**s, theta_c=0.9, theta_h=0.9, fallback="affordable"),
}


@given(states())
def test_ablation_rows(state: dict[str, Any]) -> None:
    for name, expected in ABLATION.items():
        decoder = resolved(get(name))
        assert chosen(decoder, seen(state, length=32), stable=state["stable"]) == expected(state), name
    assert resolved(get("confidence+pp")).w == 0.0
    assert get("confidence").block_length is None and get("confidence+block") == get("fast-dllm")


def test_left_to_right() -> None:
    commit, _ = run_select(get("left-to-right"), view([0.1, 0.9, 0.9], start=4))
    assert np.flatnonzero(commit.take).tolist() == [0]
    assert commit.verdict.tolist() == ["order", "turn", "turn"]


def test_scopes() -> None:
    canvas = Canvas([1, 2], 12, mask_id=0, fixed={0: 5, 5: 5})
    assert get("rpd").scope(canvas).tolist() == [1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    assert get("fast-dllm", block_length=4).scope(canvas).tolist() == [1, 2, 3]
    canvas.commit([1, 2, 3], [5, 5, 5])
    assert get("fast-dllm", block_length=4).scope(canvas).tolist() == [4, 6, 7]
    assert get("fast-dllm", block_length=None).scope(canvas).tolist() == canvas.open_positions().tolist()


def test_every_verdict_is_documented() -> None:
    assert len(set(ROUTES) | set(REASONS)) == len(ROUTES) + len(REASONS)


# --- names and options ----------------------------------------------------------------------------------------

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("llada-default", {"steps": 0}, "steps must be"),
    ("llada-default", {"steps": 2.5}, "steps"),
    ("llada-default", {"temperature": -0.1}, "temperature must be"),
    ("llada-default", {"temperature": math.nan}, "temperature must be"),
    ("llada-default", {"temperature": math.inf}, "temperature must be"),
    ("llada-default", {"cfg_scale": -1.0}, "cfg_scale must be"),
    ("llada-default", {"cfg_scale": math.inf}, "cfg_scale must be"),
    ("llada-default", {"remasking": "low"}, "remasking must be one of low_confidence, random"),
    ("llada-default", {"block_length": 0}, "block_length must be"),
    ("llada-default", {"logits_eos_inf": "no"}, "logits_eos_inf"),
    ("dream-default", {"steps": 0}, "steps must be"),
    ("dream-default", {"eps": 0.0}, "eps must lie"),
    ("dream-default", {"eps": 1.0}, "eps must lie"),
    ("dream-default", {"eps": math.nan}, "eps must lie"),
    ("dream-default", {"temperature": -1.0}, "temperature must be"),
    ("dream-default", {"top_p": 0.0}, "top_p must lie"),
    ("dream-default", {"top_p": 1.1}, "top_p must lie"),
    ("dream-default", {"top_k": 0}, "top_k must be"),
    ("dream-default", {"alg": "margin"}, "alg must be one of entropy"),
    ("dream-default", {"alg_temp": -1.0}, "alg_temp must be"),
    ("fast-dllm", {"threshold": 1.01}, "threshold must lie"),
    ("fast-dllm", {"threshold": math.nan}, "threshold must lie"),
    ("fast-dllm", {"threshold": "0.9"}, "threshold"),
    ("fast-dllm", {"factor": -1.0}, "factor must be"),
    ("fast-dllm", {"quirk": 1}, "quirk"),
    ("eb-sampler", {"gamma": -0.1}, "gamma must be"),
    ("eb-sampler", {"gamma": math.nan}, "gamma must be"),
    ("eb-sampler", {"proxy": "entropi"}, "proxy must be one of"),
    ("lopa", {"branches": -1}, "branches must be"),
    ("lopa", {"branches": 1.5}, "branches"),
    ("lopa", {"threshold": -0.1}, "threshold must lie"),
    ("dapd", {"variant": "indirect"}, "variant must be one of direct, staged, not 'indirect'"),
    ("dapd", {"task": "gsm"}, "task must be one of"),
    ("dapd", {"tau_min": -0.1}, "tau_min and tau_max"),
    ("dapd", {"skip": 1.0}, "skip must lie"),
    ("dapd", {"direct": 2.0}, "direct must lie"),
    ("dapd", {"staged_confidence": -1.0}, "staged_confidence"),
    ("rpd", {"beta": -1.0}, "beta must be 0 or more, not -1"),
    ("rpd", {"beta": math.nan}, "beta must be"),
    ("rpd", {"beta": "4"}, "beta"),
    ("rpd", {"theta_c": 0.95, "theta_h": 0.9}, "theta_c 0.95 exceeds theta_h 0.9"),
    ("rpd", {"theta_h": 1.5}, "theta_h and theta_c must lie"),
    ("rpd", {"theta_s": math.nan}, "theta_s must be"),
    ("rpd", {"w": -1.0}, "w must be"),
    ("rpd", {"w": math.inf}, "w must be"),
    ("rpd", {"k_max": 0}, "k_max must be"),
    ("rpd", {"window": 0}, "window must be"),
    ("rpd", {"window": True}, "window"),
    ("rpd", {"fallback": "leftmost"}, "fallback must be one of affordable, window"),
    ("rpd", {"settings": "mine"}, "settings must be"),
    ("rpd", {"first_layer": 0}, "first_layer must be"),
    ("rpd-block", {"block_length": -4}, "block_length must be"),
    ("rpd-block", {"theta_c": 1.0, "theta_h": 0.5}, "exceeds"),
]


@pytest.mark.parametrize(("name", "options", "words"), BAD, ids=lambda value: str(value)[:40])
def test_values_that_make_no_sense(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        get(name, **options)
    assert str(caught.value).startswith(name)


@pytest.mark.parametrize(
    ("name", "options", "length", "words"),
    [
        ("fast-dllm", {}, 48, r"block_length 32 does not divide the canvas of 48: use one of 1, 2, .*24, 48"),
        ("rpd-block", {"block_length": 5}, 16, "does not divide"),
        ("llada-default", {"block_length": 8, "steps": 5}, 16, "steps 5 does not divide into 2 blocks"),
        ("rpd", {"first_layer": 7}, 16, "first_layer 7 is past the model's 6 layers"),
        ("dapd", {"tau_min": 0.5}, 32, r"tau_min 0\.5 exceeds tau_max 0\.05"),
    ],
)
def test_values_that_do_not_fit_the_model_or_the_canvas(
    name: str, options: dict[str, Any], length: int, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        get(name, **options).resolve(tiny_spec(), length)


def test_unknown_names_and_options_are_answered_with_near_ones() -> None:
    with pytest.raises(UserError, match=r"unknown decoder 'fastdllm'; did you mean fast-dllm"):
        get("fastdllm")
    with pytest.raises(UserError, match=r"unknown decoder 'zzz'; known: .*rpd-paper"):
        get("zzz")
    with pytest.raises(UserError, match=r"unknown option of rpd 'betta'; did you mean beta"):
        get("rpd", betta=4.0)
    with pytest.raises(UserError, match="left-to-right takes no options, but 'beta' was given"):
        get("left-to-right", beta=4.0)
    with pytest.raises(UserError, match="pass spec"):
        get("default")


@pytest.mark.parametrize(("family", "name"), [("llada", "llada-default"), ("dream", "dream-default")])
def test_default_is_the_models_own(family: str, name: str) -> None:
    assert get("default", spec=tiny_spec(family)).name == name


def test_every_listed_name_can_be_made_and_described() -> None:
    for name in decoders.names()[1:]:
        decoder = get(name)
        assert decoder.summary and decoder == get(name) and hash(decoder) == hash(get(name))


def test_a_preset_yields_to_the_users_options() -> None:
    assert get("rpd-paper", fallback="affordable").fallback == "affordable"
    assert get("confidence", block_length=8).block_length == 8
