"""Fast-dLLM, EB-Sampler, LoPA and DAPD on hand-made views: worked examples, and literal references."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import chosen, run_select, tiny_spec, view
from reference import decoders as literal
from reference import worked_examples as examples
from states import seen, shares, states
from unmask import decoders
from unmask.decoders.base import Explore, StepView, lowest_mapped
from unmask.decoders.dependency import DIRECT

get = decoders.get


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


def test_eb_margin_counts_what_the_mask_holds() -> None:
    """A margin is not renormalised, as c is not: 0.5 - 0.2 beats 0.12 - 0.02 where the mask holds the rest."""
    p = np.array([[0.12, 0.02, 0.86], [0.5, 0.2, 0.3]])
    made = view([0.12, 0.5], [1.0, 1.0], logits=np.log(p), mask_id=2)
    assert chosen(get("eb-sampler", gamma=0.0, proxy="margin"), made) == [1]


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
