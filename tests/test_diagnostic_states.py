"""Masked states against their definitions: entropies upstream, the answer, and every layer of every target digit.

The reference is the literal backbone in NumPy and a loop over layers written from the paper's equations.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import unmask
from helpers import literal_model, rows_per_call, tiny_spec
from reference import decoders as literal
from reference import statistics as literal_statistics
from unmask.canvas import Canvas
from unmask.diagnostics.masking import patterns
from unmask.diagnostics.states import (
    Observation,
    encode,
    first_layer,
    masked,
    observe,
    suffixes,
    window,
)
from unmask.diagnostics.traces import GoldTrace, examine
from unmask.errors import UserError
from unmask.forward import Forward
from unmask.lens import StabilityRule

TRACE = examine("t", "How many?", "It is 12 + 30 = 42.\nSo 42 x 10 = 420", "420", 1, "substring")
assert isinstance(TRACE, GoldTrace)


def literally(twin, ids: list[int], positions: list[int]) -> list[tuple[int, float, float, list[float]]]:
    """(y, c, H, p(y) over the agreeing suffix from L down) of each position, by the definitions."""
    view = twin.view(ids)
    found = []
    for i in positions:
        layers = twin.layer_logits(view, i, 1)
        y, suffix = view.y[i], []
        for number in range(len(layers) - 1, -1, -1):
            if number < len(layers) - 1 and literal_statistics.argmax(layers[number]) != y:
                break
            suffix.append(float(literal_statistics.softmax(layers[number])[y]))
        found.append((y, view.c[i], view.H[i], suffix))
    return found


@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_observations_equal_the_definition(exact_model: unmask.Model, family: str, batch_size: int) -> None:
    """Both families: what is read of a position must be what predicts it (Dream's rows are shifted by one)."""
    twin = literal_model(family, layers=exact_model.spec.layers)
    encoded = encode(exact_model, TRACE)
    drawn = patterns(TRACE, 16, 5)
    seen = list(observe(exact_model, encoded, drawn, batch_size=batch_size))
    assert len(seen) == len(drawn)
    for pattern, found in zip(drawn, seen, strict=True):
        hidden, target = encoded.positions(pattern), encoded.positions(TRACE.target)
        ids = [*encoded.prompt_ids, *encoded.ids.tolist()]
        for position in [*hidden, *target]:
            ids[len(encoded.prompt_ids) + position] = exact_model.spec.mask_id
        at = [len(encoded.prompt_ids) + int(position) for position in [*hidden, *target]]
        expected = literally(twin, ids, at)
        np.testing.assert_allclose(found.entropy, [H for _, _, H, _ in expected[: len(hidden)]], rtol=1e-5)
        np.testing.assert_allclose(found.E, sum(H for _, _, H, _ in expected[: len(hidden)]), rtol=1e-5)
        answers = expected[len(hidden) :]
        assert found.token.tolist() == [y for y, _, _, _ in answers]
        np.testing.assert_allclose(found.confidence, [c for _, c, _, _ in answers], rtol=1e-5)
        for got, (_, _, _, suffix) in zip(found.suffix, answers, strict=True):
            np.testing.assert_allclose(got, suffix, rtol=1e-4, atol=1e-9)
        assert found.gold.tolist() == encoded.ids[target].tolist()
        assert found.answered == (found.token.tolist() == found.gold.tolist())


def agreeing(shape: tuple[int, int, int], seed: int) -> list[torch.Tensor]:
    """Residual states that are logits, whose layers agree for runs of every length."""
    rng = np.random.default_rng(seed)
    layers, width, rows = shape
    last = rng.normal(0, 3, (width, rows))
    fade = rng.choice([0.0, 0.2, 1.0], (layers + 1, width, 1), p=[0.6, 0.3, 0.1]).cumsum(axis=0)[::-1]
    states = [last + fade[layer] * rng.normal(0, 3, last.shape) for layer in range(layers)] + [last]
    return [torch.from_numpy(state[None].copy()).float() for state in states]


@pytest.mark.parametrize("seed", range(4))
def test_suffixes_equal_the_definition_and_the_decoders_own_walk(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trajectories with long and short suffixes; K and r must be what RPD itself would measure, for every ℓ0."""
    spec = tiny_spec(layers=9)
    states = agreeing((9, 40, spec.rows), seed)
    net = SimpleNamespace(
        spec=spec, device=torch.device("cpu"), dtype=torch.float32, states=lambda *_: states, readout=lambda z: z
    )
    forward = Forward(SimpleNamespace(net=net, spec=spec), [Canvas([1], 39, spec.mask_id)], keep_from=1)  # type: ignore[arg-type]
    slots = np.arange(40)
    z = [state[0].double().numpy() for state in states]
    token = z[-1].argmax(axis=1)
    confidence = np.array([literal_statistics.softmax(row)[y] for row, y in zip(z[-1], token, strict=True)])
    monkeypatch.setattr("unmask.diagnostics.states.SCORED_ROWS", (1024, 100, 40, 1)[seed])  # layers per product
    found = suffixes(forward, slots, token, confidence, 1)
    seen = Observation(np.zeros(0), token, token, confidence, tuple(found))
    assert {len(p) for p in found} >= {1, 2, 9}
    for first in (1, 4, 5, 7):
        rule = StabilityRule(theta_s=2.0, w=5.0, k_max=6, first_layer=first)
        walked, _ = forward.walk(slots, token, confidence, rule, lazy=False)
        width = 9 - first + 1
        assert seen.persistence(width).tolist() == walked.persistence.tolist()
        np.testing.assert_allclose(seen.drop(width), walked.drop, atol=1e-7)
        for i in range(40):
            rows = [z[layer][i] for layer in range(first, 10)]
            K, r, _ = literal.stability_from_logits(rows, int(token[i]), 6, 5.0)
            assert seen.persistence(width)[i] == K
            assert seen.drop(width)[i] == pytest.approx(r, abs=1e-5)


def test_masking_touches_nothing_else() -> None:
    canvas = Canvas([7, 8], 4, 99)
    canvas.commit([0, 1, 2, 3], [10, 11, 12, 13])
    state = masked(canvas, np.array([1, 3]))
    assert state.ids.tolist() == [7, 8, 10, 99, 12, 99] and state.open_positions().tolist() == [1, 3]
    assert canvas.ids.tolist() == [7, 8, 10, 11, 12, 13]


def test_states_are_made_a_batch_at_a_time(model: unmask.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode(model, TRACE)
    stream = observe(model, encoded, patterns(TRACE, 8, 16), batch_size=4)
    next(stream)
    calls = rows_per_call(monkeypatch)
    assert len(list(stream)) == 15
    assert calls == [4, 4, 4]


@pytest.mark.parametrize(("layers", "half"), [(32, 17), (28, 15), (16, 9), (6, 4), (7, 4)])
def test_the_final_half(layers: int, half: int) -> None:
    assert first_layer(layers) == half


def test_a_model_with_too_few_layers_is_named() -> None:
    def of(layers: int) -> unmask.Model:
        return SimpleNamespace(spec=tiny_spec(layers=layers), name="small")  # type: ignore[return-value]

    assert window(of(16)) == 8 and window(of(32)) == 16 and window(of(28)) == 14
    with pytest.raises(UserError, match=r"small has 4 layers, .* see 2: .* at least 3; use --first-layer 2 or lower"):
        window(of(4), hint=True)
    with pytest.raises(UserError, match=r"small has 4 layers, .* see 2: .* at least 3$"):
        window(of(4))
    with pytest.raises(UserError, match=r"at least 3$"):
        window(of(2))
    with pytest.raises(UserError, match="--first-layer 17 is not a layer"):
        window(of(16), 17)
    assert window(of(4), 2) == 3
