"""The layer readout: lazy and eager walks against the definition, and what they cost on real decodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unmask
from helpers import LENIENT, commits, decode
from reference import decoders as literal
from reference import worked_examples as examples
from unmask import forward as forward_module
from unmask.lens import ROWS_PER_PRODUCT, Readout, StabilityRule, walk


@dataclass
class Trajectories:
    """What n rows say at layers 1..L: the argmax, and the probability of the final token y = 0."""

    argmax: np.ndarray  # (n, L); the last column is y
    p: np.ndarray  # (n, L); the last column is c

    def read(
        self, rule: StabilityRule, lazy: bool, rows_per_product: int = 16
    ) -> tuple[Readout, list[tuple[int, int]]]:
        asked: list[tuple[int, int]] = []

        def project(rows: np.ndarray, layers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            asked.extend((row, layer) for row in rows.tolist() for layer in layers.tolist())
            return self.argmax[np.ix_(rows, layers - 1)], self.p[np.ix_(rows, layers - 1)]

        n, layers = self.p.shape
        found = walk(
            project, np.zeros(n, dtype=np.int64), self.p[:, -1], layers, rule, lazy=lazy,
            rows_per_product=rows_per_product,
        )  # fmt: skip
        assert found.projected == len(asked)
        return found, asked

    def literally(self, rule: StabilityRule) -> list[tuple[int, float, float]]:
        first = rule.first_layer - 1
        return [
            literal.stability(0, row[first:].tolist(), p[first:].tolist(), rule.k_max, rule.w)
            for row, p in zip(self.argmax, self.p, strict=True)
        ]


def random_trajectories(rng: np.random.Generator, n: int, layers: int, *, coarse: bool) -> Trajectories:
    """Runs of agreement of every length. Coarse probabilities make sums exact and equalities common."""
    p = rng.integers(0, 17, (n, layers)) / 16 if coarse else rng.random((n, layers)).astype(np.float32)
    agree = rng.random((n, layers)) < rng.choice([0.5, 0.9, 1.0], (n, 1))
    agree[:, -1] = True
    return Trajectories(np.where(agree, 0, 5), p.astype(np.float64))


def random_rule(rng: np.random.Generator, layers: int) -> StabilityRule:
    return StabilityRule(
        theta_s=rng.choice([-1.0, 0.0, 1.0, 2.5, 3.0, 3.5, 6.0]), w=rng.choice([0.0, 1.0, 4.0, 15.0, 20.0]),
        k_max=int(rng.integers(1, 8)), first_layer=int(rng.integers(1, layers + 1)),
    )  # fmt: skip


@pytest.mark.parametrize("coarse", [True, False])
def test_lazy_and_eager_equal_the_definition_on_thousands_of_trajectories(coarse: bool) -> None:
    rng = np.random.default_rng(coarse)
    settled = saved = 0
    for _ in range(300):
        layers = int(rng.integers(2, 20))
        rows, rule = random_trajectories(rng, 20, layers, coarse=coarse), random_rule(rng, layers)
        K, r, S = (np.array(column) for column in zip(*rows.literally(rule), strict=True))
        eager, everything = rows.read(rule, lazy=False)
        assert not eager.settled.any()
        np.testing.assert_array_equal(eager.persistence, K)
        np.testing.assert_array_equal(eager.drop, r)
        np.testing.assert_array_equal(eager.score, S)
        np.testing.assert_array_equal(eager.stable, rule.theta_s <= S)

        lazy, read = rows.read(rule, lazy=True)
        np.testing.assert_array_equal(lazy.stable, eager.stable)  # settled or not: the verdict is exact
        whole = ~lazy.settled
        np.testing.assert_array_equal(lazy.persistence[whole], K[whole])
        np.testing.assert_array_equal(lazy.drop[whole], r[whole])
        np.testing.assert_array_equal(lazy.score[whole], S[whole])
        assert (lazy.persistence <= K).all() and (lazy.drop <= r).all()  # lower bounds elsewhere
        settled, saved = settled + lazy.settled.sum(), saved + len(everything) - len(read)
    assert settled > 1000 and saved > 10_000


@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.booleans())
def test_how_many_layers_a_product_reads_changes_nothing(seed: int, rows_per_product: int, lazy: bool) -> None:
    rng = np.random.default_rng(seed)
    layers = int(rng.integers(2, 12))
    rows, rule = random_trajectories(rng, 9, layers, coarse=True), random_rule(rng, layers)
    one, _ = rows.read(rule, lazy, rows_per_product=1)
    many, asked = rows.read(rule, lazy, rows_per_product)
    np.testing.assert_array_equal(many.stable, one.stable)
    if not lazy:
        np.testing.assert_array_equal(many.score, one.score)
    assert len(set(asked)) == len(asked)  # no layer of a row is read twice
    assert all(rule.first_layer <= layer < layers for _, layer in asked)  # nor the last, nor any below the window


@given(st.integers(0, 2**32 - 1))
def test_a_row_is_read_as_if_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, rule = random_trajectories(rng, 6, 8, coarse=True), random_rule(rng, 8)
    together, _ = rows.read(rule, lazy=True)
    for i in range(6):
        alone, _ = Trajectories(rows.argmax[i : i + 1], rows.p[i : i + 1]).read(rule, lazy=True)
        assert alone.stable[0] == together.stable[i]


@pytest.mark.parametrize("family", ["llada", "dream"])
@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("e", examples.RPD_STABILITY, ids="abc")
def test_worked_examples(e: examples.Example, family: str, lazy: bool) -> None:
    setting = examples.RPD_SETTINGS[family]
    argmax = [5] * (len(e["p"]) - e["agreeing"]) + [0] * e["agreeing"]
    rows = Trajectories(np.array([argmax]), np.array([e["p"]]))
    found, _ = rows.read(StabilityRule(setting["theta_s"], setting["w"], setting["k_max"], 1), lazy)
    assert found.stable[0] == e["stable"][family]
    if not lazy:
        assert found.persistence[0] == e["K"]
        assert (found.drop[0], found.score[0]) == (pytest.approx(e["r"]), pytest.approx(e["S"][family]))


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_where_the_bounds_decide(family: str) -> None:
    """From c = .8333 (LLaDA) or .825 (Dream) up, six agreeing layers settle it whatever lies below them."""
    setting = examples.RPD_SETTINGS[family]
    rule = StabilityRule(setting["theta_s"], setting["w"], 6, 1)
    sure = examples.RPD_ACCEPTED_AT_SIX[family]
    for c, read in ((sure + 1e-9, 5), (sure - 1e-9, 15)):
        rows = Trajectories(np.zeros((1, 16), dtype=int), np.full((1, 16), c))
        found, asked = rows.read(rule, lazy=True, rows_per_product=1)
        assert bool(found.stable[0]) and len(asked) == read
    rising = Trajectories(np.zeros((1, 16), dtype=int), np.full((1, 16), 0.95))
    rising.p[0, -1] = 0.7  # one look at layer L-1 shows a drop too large for any persistence
    found, asked = rising.read(rule, lazy=True, rows_per_product=1)
    assert not found.stable[0] and len(asked) == 1


# --- on real decodes ------------------------------------------------------------------------------------------

STABILITY = [("rpd", {**LENIENT, "beta": beta}) for beta in (0.5, 4.0, float("inf"))] + [
    ("rpd", {**LENIENT, "theta_c": 0.3, "fallback": "window"}),
    ("rpd-block", {**LENIENT, "block_length": 16}),
    ("rpd-block", {**LENIENT, "theta_s": 2.5, "block_length": 8}),
    ("rpd-paper", {}),
]


@pytest.mark.parametrize(("name", "options"), STABILITY)
@pytest.mark.parametrize("prompt", ["Hello 12", "the user and the assistant"])
@pytest.mark.parametrize("rows_per_product", [1, 16])
def test_lazy_and_eager_decode_alike(
    model: unmask.Model,
    prompt: str,
    name: str,
    options: dict[str, Any],
    rows_per_product: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ROWS_PER_PRODUCT, "cpu", rows_per_product)
    lazy = decode(model, prompt, name, canvas_length=32, **options)
    eager = decode(model, prompt, name, canvas_length=32, **options, lazy=False)
    assert commits(lazy) == commits(eager) and lazy.nfe == eager.nfe
    assert lazy.trace.route_counts() == eager.trace.route_counts()
    counts = [(a.projected, b.projected) for a, b in zip(lazy.trace.steps, eager.trace.steps, strict=True)]
    assert all(a <= b for a, b in counts)
    if rows_per_product == 1:  # where a product holds many layers, a short window may be read at once
        assert sum(a for a, _ in counts) < sum(b for _, b in counts)


@pytest.mark.parametrize("lazy", [True, False])
def test_only_masked_positions_of_the_band_are_read(
    model: unmask.Model, lazy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never the prompt, never a committed row; and the head sees no row that is not accounted for."""
    plain, readout = forward_module.Forward.lens, model.net.readout
    heads: list[int] = []

    def lens(self, requests):
        for row, _, positions, _, confidence in requests:
            canvas = self.canvases[row]
            assert canvas.masked[positions].all() and len(set(positions.tolist())) == len(positions)
            assert ((confidence >= 0.6) & (confidence < 0.9)).all()
        return plain(self, requests)

    def counted(states):
        heads.append(states.shape[0])
        return readout(states)

    monkeypatch.setattr(forward_module.Forward, "lens", lens)
    monkeypatch.setattr(model.net, "readout", counted)
    out = decode(model, "Hello 12", "rpd", canvas_length=32, **LENIENT, lazy=lazy)
    scored = sum(len(step.positions) for step in out.trace.steps)
    projected = sum(step.projected for step in out.trace.steps)
    assert projected > 0 and sum(heads) == scored + projected
    band = sum(((s.confidence >= 0.6) & (s.confidence < 0.9)).sum() for s in out.trace.steps)
    window = model.spec.layers - LENIENT["first_layer"]
    assert projected <= band * window
    assert all(step.projected == 0 for step in out.trace.steps if "K" not in step.columns)


def test_an_empty_band_reads_and_keeps_nothing(model: unmask.Model) -> None:
    decoder = unmask.decoders.get("confidence+ce").resolve(model.spec, 32)
    assert decoder.keep_from(model.spec.layers) == model.spec.layers
    out = decode(model, "Hello 12", "confidence+ce", canvas_length=32)
    assert sum(step.projected for step in out.trace.steps) == 0
