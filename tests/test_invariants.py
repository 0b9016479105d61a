"""What must hold whatever the model says: on random states, and on decodes with a network that says anything."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unmask
from helpers import commits, decode, hash_model, resolved, run_select, view
from unmask import decoders
from unmask.decoders.base import Commit, Decoder, Lens, StepView
from unmask.lens import walk

get = decoders.get
LAYERS = 6

shares = st.integers(0, 16).map(lambda n: n / 16)
entropies = st.integers(0, 48).map(lambda n: n / 16)


# --- one step: states with layers -----------------------------------------------------------------------------


class State:
    """Positions with confidences, entropies, and what earlier layers say."""

    def __init__(self, c: list[float], H: list[float], seed: int) -> None:
        rng = np.random.default_rng(seed)
        n = len(c)
        self.view = view(c, H, length=32)
        self.agree = rng.random((n, LAYERS)) < rng.choice([0.3, 0.8, 1.0], (n, 1))
        self.p = rng.integers(0, 17, (n, LAYERS)) / 16

    def commit(self, decoder: Decoder) -> Commit:
        """The decoder's commit, with its layer readouts served from this state."""
        answer = decoder.select(self.view)
        if isinstance(answer, Commit):
            return answer
        reply: Any = None
        while True:
            try:
                request = answer.send(reply)
            except StopIteration as finished:
                return finished.value
            assert isinstance(request, Lens)
            i = request.indices

            def project(rows: np.ndarray, layers: np.ndarray, i: np.ndarray = i) -> tuple[np.ndarray, np.ndarray]:
                at = np.ix_(i[rows], layers - 1)
                return np.where(self.agree[at], self.view.token[i][rows, None], -1), self.p[at]

            reply = walk(
                project, self.view.token[i], self.view.confidence[i], LAYERS, request.rule, lazy=request.lazy,
                rows_per_product=4,
            )  # fmt: skip

    def taken(self, decoder: Decoder) -> set[int]:
        return set(np.flatnonzero(self.commit(decoder).take).tolist())

    def earned(self, decoder: Decoder) -> set[int]:
        """A without the fallback: what was committed on its merits."""
        commit = self.commit(decoder)
        return set(np.flatnonzero(commit.take & (commit.verdict != "fallback")).tolist())


@st.composite
def states(draw: st.DrawFn) -> State:
    n = draw(st.integers(1, 12))
    c, H = (draw(st.lists(values, min_size=n, max_size=n)) for values in (shares, entropies))
    return State(c, H, draw(st.integers(0, 2**32 - 1)))


@st.composite
def rpd_options(draw: st.DrawFn) -> dict[str, Any]:
    low, high = sorted(draw(st.tuples(shares, shares)))
    return {
        "theta_c": low, "theta_h": high, "beta": draw(st.integers(0, 80).map(lambda n: n / 16)),
        "theta_s": draw(st.sampled_from([0.0, 1.0, 2.0, 2.5, 3.5])), "k_max": draw(st.integers(1, 6)),
        "w": draw(st.sampled_from([0.0, 1.0, 4.0, 15.0])), "first_layer": draw(st.integers(1, LAYERS)),
        "window": draw(st.integers(1, 14)), "fallback": draw(st.sampled_from(["window", "affordable"])),
    }  # fmt: skip


BLOCK_ONLY = ("theta_c", "theta_h", "theta_s", "w", "k_max", "first_layer")


def rpd(options: dict[str, Any], **changed: Any) -> Decoder:
    return resolved(get("rpd", **{**options, **changed}))


def rpd_block(options: dict[str, Any], **changed: Any) -> Decoder:
    return resolved(get("rpd-block", **{**{k: options[k] for k in BLOCK_ONLY}, **changed}))


@given(states(), rpd_options())
def test_lazy_and_eager_commit_alike(state: State, options: dict[str, Any]) -> None:
    for make in (rpd, rpd_block):
        lazy, eager = state.commit(make(options)), state.commit(make(options, lazy=False))
        assert lazy.take.tolist() == eager.take.tolist()
        assert lazy.verdict.tolist() == eager.verdict.tolist()


@given(states(), rpd_options(), st.integers(1, 64).map(lambda n: n / 16) | st.just(math.inf))
def test_more_budget_never_commits_less(state: State, options: dict[str, Any], more: float) -> None:
    assert state.earned(rpd(options)) <= state.earned(rpd(options, beta=options["beta"] + more))


@given(states(), rpd_options(), st.data())
def test_looser_thresholds_never_commit_less(state: State, options: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["theta_s", "theta_c", "w"]))
    lower = data.draw(st.floats(0, options[name]))
    for make in (rpd, rpd_block):
        assert state.earned(make(options)) <= state.earned(make(options, **{name: lower}))


@given(states(), rpd_options())
def test_without_a_budget_rpd_stops_at_the_first_uncertainty(state: State, options: dict[str, Any]) -> None:
    candidates = state.earned(rpd(options, beta=math.inf))
    wall = [i for i, h in enumerate(state.view.entropy) if h > 0 and i not in candidates]
    assert state.earned(rpd(options, beta=0.0)) == {i for i in candidates if not wall or i < wall[0]}


@given(states(), rpd_options())
def test_a_leftmost_candidate_is_always_committed(state: State, options: dict[str, Any]) -> None:
    if 0 in state.earned(rpd(options, beta=math.inf)):
        assert 0 in state.earned(rpd(options, beta=0.0))


@given(states(), rpd_options())
def test_the_affordable_fallback_stays_within_the_budget(state: State, options: dict[str, Any]) -> None:
    commit = state.commit(rpd(options, fallback="affordable"))
    assert commit.take.any() and (commit.columns["E"][commit.take] <= options["beta"]).all()


@given(states(), rpd_options())
def test_rpd_without_band_and_budget_is_the_threshold_rule(state: State, options: dict[str, Any]) -> None:
    tau = options["theta_h"]
    threshold = state.taken(get("fast-dllm", threshold=tau))
    assert state.taken(rpd_block(options, theta_c=tau)) == threshold
    assert state.taken(rpd(options, theta_c=tau, beta=math.inf, window=32)) == threshold


@given(states(), shares)
def test_lopa_without_branches_is_the_threshold_rule_up_to_strictness(state: State, tau: float) -> None:
    def futures(proposals: Any) -> list[StepView]:
        (anchor,) = proposals
        left = np.setdiff1d(np.arange(len(state.view)), anchor)
        return [replace(view([0.5] * len(left), [1.0] * len(left)), positions=left)]

    commit, _ = run_select(get("lopa", threshold=tau, branches=0), state.view, futures=futures)
    below = State((state.view.confidence - 1 / 32).tolist(), state.view.entropy.tolist(), 0)
    assert set(np.flatnonzero(commit.take).tolist()) == below.taken(get("fast-dllm", threshold=tau))


@given(states(), st.sampled_from(["confidence", "entropy"]))
def test_eb_without_a_bound_commits_the_block(state: State, proxy: str) -> None:
    assert len(state.taken(get("eb-sampler", gamma=math.inf, proxy=proxy))) == len(state.view)


@given(states(), st.integers(0, 40).map(lambda n: n / 16))
def test_a_larger_eb_bound_never_commits_less(state: State, gamma: float) -> None:
    assert state.taken(get("eb-sampler", gamma=gamma)) <= state.taken(get("eb-sampler", gamma=gamma + 0.25))


@given(states(), st.floats(1, 9), st.integers(0, 2**32 - 1), st.sampled_from(["direct", "staged"]))
def test_dapd_without_a_threshold_commits_the_block(state: State, tau: float, seed: int, variant: str) -> None:
    n = len(state.view)
    attention = np.random.default_rng(seed).dirichlet(np.full(n, 0.3), n)
    decoder = resolved(get("dapd", tau_min=tau, tau_max=tau, variant=variant))
    commit, _ = run_select(decoder, state.view, attention=attention)
    assert commit.take.all()


# --- whole decodes --------------------------------------------------------------------------------------------

G = 16
MASK, TOP = 13, 14  # of `tiny_spec`; id 15 has a row but no token

SHORT: dict[str, dict[str, Any]] = {  # every decoder, with blocks that divide the canvas
    "llada-default": {"block_length": 8},
    "dream-default": {},
    "left-to-right": {},
    "fast-dllm": {"block_length": 8},
    "eb-sampler": {"block_length": 8},
    "lopa": {"block_length": 8},
    "dapd": {"block_length": 8},
    "rpd": {"first_layer": 2, "theta_s": 1.5, "w": 3.0},
    "rpd-block": {"block_length": 8, "first_layer": 2, "theta_s": 1.5, "w": 3.0},
    "rpd-paper": {"window": 4},
    "confidence": {},
    "confidence+block": {"block_length": 8},
    "confidence+pp": {"block_length": 8, "theta_s": 2.0},
    "confidence+ce": {},
}
SAMPLING: list[tuple[str, dict[str, Any]]] = [
    ("llada-default", {"block_length": 8, "temperature": 0.8}),
    ("llada-default", {"block_length": 8, "temperature": 0.8, "remasking": "random", "steps": 8}),
    ("llada-default", {"block_length": 8, "cfg_scale": 1.5}),
    ("dream-default", {"temperature": 1.0, "top_p": None}),
    ("dream-default", {"alg": "maskgit_plus", "alg_temp": 0.5, "temperature": 0.7}),
    ("dream-default", {"alg": "topk_margin", "top_k": 3}),
    ("dream-default", {"alg": "origin", "steps": 8}),
    ("eb-sampler", {"block_length": 8, "proxy": "margin"}),
    ("dapd", {"block_length": 8, "variant": "staged"}),
    ("fast-dllm", {"block_length": 8, "factor": 1.0, "quirk": True}),
]
EVERY = [*SHORT.items(), *SAMPLING]


def test_no_decoder_is_forgotten() -> None:
    assert sorted(SHORT) == sorted(decoders.BUILT_IN)


@pytest.mark.parametrize(("name", "options"), EVERY, ids=lambda value: str(value)[:50])
@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32 - 1),
    family=st.sampled_from(["llada", "dream"]),
    favourite=st.sampled_from([None, 13, 15]),
    sharpness=st.sampled_from([0.0, 0.5, 2.0, 8.0]),
    layers_agree=st.sampled_from([0.5, 0.95]),
)
def test_every_decode_ends_in_time_without_masks(
    name: str, options: dict[str, Any], seed: int, family: str, favourite: int | None, sharpness: float,
    layers_agree: float,
) -> None:  # fmt: skip
    """Even where the mask, or an id without a token, is the most probable everywhere."""
    model = hash_model(
        family, seed, highest_id=TOP, favourite=favourite, sharpness=sharpness, layers_agree=layers_agree
    )
    out = decode(model, "1 2 3", name, canvas_length=G, seed=seed, **options)
    assert out.nfe <= G
    assert len(out.canvas) == G and all(token <= TOP and token != MASK for token in out.canvas)
    steps = commits(out)
    assert sum(map(len, steps)) == G == len({position for step in steps for position in step})
    assert sum(out.trace.route_counts().values()) == G
    assert out.nfe == out.trace.end["nfe"] == out.trace.steps[-1].nfe
    if not name.startswith("dream") and options.get("alg") != "origin":
        assert all(steps)  # only Dream's schedule may leave a step empty


@pytest.mark.parametrize(("name", "options"), EVERY, ids=lambda value: str(value)[:50])
@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1), st.dictionaries(st.integers(0, G - 1), st.integers(0, 12), max_size=G))
def test_the_prompt_and_what_is_given_survive(
    name: str, options: dict[str, Any], seed: int, fixed: dict[int, int]
) -> None:
    model = hash_model("dream" if seed % 2 else "llada", seed, highest_id=TOP)
    parts: list[str | int] = []
    for position in range(G):
        parts.append(str(fixed[position]) if position in fixed else 1)
    rows_seen: list[np.ndarray] = []
    states = model.net.states

    def spy(ids: Any, *args: Any, **kwargs: Any) -> Any:
        rows_seen.extend(ids.numpy())
        return states(ids, *args, **kwargs)

    model.net.states = spy
    out = decode(model, "1 2 3", name, canvas=parts, seed=seed, **options)
    assert {position: out.canvas[position] for position in fixed} == fixed
    assert MASK not in out.canvas
    assert {p for step in commits(out) for p in step} == set(range(G)) - set(fixed)
    # Every row the network saw begins with the prompt, but for the blind twins of guidance.
    assert all(row[:3].tolist() in ([1, 2, 3], [MASK] * 3 if "cfg_scale" in options else None) for row in rows_seen)
    assert out.nfe <= G


@pytest.mark.parametrize(("name", "options"), EVERY, ids=lambda value: str(value)[:50])
@settings(max_examples=3)
@given(st.integers(0, 2**32 - 1))
def test_the_same_seed_gives_the_same_trace(name: str, options: dict[str, Any], seed: int) -> None:
    def told() -> list[Any]:
        out = decode(hash_model("llada", 7, highest_id=TOP), "1 2 3", name, canvas_length=G, seed=seed, **options)
        return [{**step.to_json(), "seconds": None} for step in out.trace.steps]

    assert told() == told()


@pytest.mark.parametrize(("name", "options"), SAMPLING[:7], ids=lambda value: str(value)[:50])
def test_seeds_matter_exactly_where_something_is_drawn(name: str, options: dict[str, Any]) -> None:
    model = hash_model("dream" if name.startswith("dream") else "llada", 7, highest_id=TOP, sharpness=0.2)
    canvases = {
        str(decode(model, "1 2 3", name, canvas_length=G, seed=seed, **options).trace.commit_steps())
        + str(decode(model, "1 2 3", name, canvas_length=G, seed=seed, **options).canvas)
        for seed in range(6)
    }
    temperature = options.get("temperature", 0.1 if name == "dream-default" else 0.0)
    assert (len(canvases) > 1) == (temperature > 0)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["rpd", "fast-dllm", "left-to-right", "lopa", "dream-default"]))
def test_stopping_early_changes_no_answer(seed: int, name: str) -> None:
    model = hash_model("llada", seed, highest_id=TOP, favourite=TOP if seed % 3 == 0 else None)
    full = decode(model, "1 2 3", name, canvas_length=G, seed=seed, **SHORT[name])
    early = decode(model, "1 2 3", name, canvas_length=G, seed=seed, early_stop=True, **SHORT[name])
    assert (early.tokens, early.text, early.finish_reason) == (full.tokens, full.text, full.finish_reason)
    assert early.nfe <= full.nfe and commits(early) == commits(full)[: len(early.trace.steps)]
    if early.nfe < full.nfe:  # it stopped because an end was settled, and only then
        assert early.finish_reason == "stop" and MASK not in early.tokens


def test_stopping_early_saves_forwards() -> None:
    model = hash_model("llada", 3, highest_id=TOP, favourite=TOP)  # the first token is an end
    out = decode(model, "1 2 3", "left-to-right", canvas_length=G, early_stop=True)
    assert (out.nfe, out.tokens, out.finish_reason) == (1, [], "stop")
    assert decode(model, "1 2 3", "left-to-right", canvas_length=G).nfe == G
    assert isinstance(out, unmask.Generation)
