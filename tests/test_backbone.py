"""The backbone against arrays and a NumPy forward pass made without it: logits, states, attention, precision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import checkpoints
from reference import backbone as reference
from unmask.models.backbone import Backbone, RMSNorm, rotate
from unmask.models.checkpoint import load_backbone

GOLDEN = Path(__file__).parent / "golden"


class Golden:
    """A golden checkpoint as a folder, and the arrays that belong to it."""

    def __init__(self, family: str, folder: Path) -> None:
        self.config: dict[str, Any] = json.loads((GOLDEN / f"{family}.json").read_text())
        with np.load(GOLDEN / f"{family}.npz") as file:
            arrays = dict(file)
        self.weights = {key.removeprefix("weight."): x for key, x in arrays.items() if key.startswith("weight.")}
        self.arrays, self.folder = arrays, folder
        (folder / "config.json").write_text(json.dumps(self.config))
        save_file(self.weights, folder / "model.safetensors")

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]


@pytest.fixture(scope="module")
def golden(family: str, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return Golden(family, tmp_path_factory.mktemp(f"golden-{family}"))


@pytest.fixture(scope="module")
def net(golden: Golden) -> Backbone:
    return load_backbone(golden.folder)


def run(net: Backbone, ids: np.ndarray, mask: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    with torch.inference_mode():
        out = net(torch.from_numpy(ids), None if mask is None else torch.from_numpy(mask))
    return out.logits.double().numpy(), torch.stack(out.hidden).double().numpy()


# --- parity ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-4), (torch.float64, 5e-6)])
def test_logits_and_every_residual_state_equal_the_goldens(golden: Golden, dtype: torch.dtype, atol: float) -> None:
    net = load_backbone(golden.folder, dtype=dtype)
    logits, hidden = run(net, golden["ids"])
    assert len(hidden) == net.spec.layers + 1
    np.testing.assert_allclose(logits, golden["logits"], atol=atol)
    np.testing.assert_allclose(hidden, golden["hidden"], atol=atol)

    logits, hidden = run(net, golden["ids"], golden["mask"])
    valid = golden["mask"] == 1
    np.testing.assert_allclose(logits[valid], golden["masked_logits"][valid], atol=atol)
    np.testing.assert_allclose(hidden[:, valid], golden["masked_hidden"][:, valid], atol=atol)
    assert np.isfinite(logits).all()  # padded queries see the real keys, so they stay finite


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_row_is_the_row_alone(net: Backbone, golden: Golden, side: str) -> None:
    ids = golden["ids"][0, :6]
    alone, _ = run(net, ids[None])
    padding = np.full(4, net.spec.pad_id)
    row, mask = (padding, ids), (np.zeros(4), np.ones(6))
    if side == "right":
        row, mask = row[::-1], mask[::-1]
    keep = np.concatenate(mask).astype(np.int64)
    padded, _ = run(net, np.concatenate(row)[None], keep[None])
    np.testing.assert_allclose(padded[0, keep == 1], alone[0], atol=2e-5)


def test_a_mask_that_keeps_everything_is_no_mask(net: Backbone, golden: Golden) -> None:
    masked, _ = run(net, golden["ids"], np.ones_like(golden["mask"]))
    np.testing.assert_array_equal(masked, run(net, golden["ids"])[0])


@pytest.mark.parametrize("layer", range(5))
def test_every_layer_reads_out_alike(net: Backbone, golden: Golden, layer: int) -> None:
    """Norm and head on an un-normalised state, at every layer: the last one is not special."""
    state = torch.from_numpy(golden["hidden"][layer])
    expected = reference.readout(golden.config, golden.weights, golden["hidden"][layer].astype(np.float64))
    with torch.inference_mode():
        np.testing.assert_allclose(net.readout(state).numpy(), expected, atol=1e-4)


def test_states_below_the_window_are_let_go(net: Backbone, golden: Golden) -> None:
    with torch.inference_mode():
        states = net.states(torch.from_numpy(golden["ids"]), keep_from=3)
    assert [state is None for state in states] == [True, True, True, False, False]
    np.testing.assert_allclose(states[3].numpy(), golden["hidden"][3], atol=1e-4)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("blocks", [[0, 1, 2, 3], [3]])
def test_attention_maps(net: Backbone, golden: Golden, blocks: list[int], padded: bool) -> None:
    mask = golden["mask"] if padded else None
    expected = reference.attention_maps(golden.config, golden.weights, golden["ids"], mask, [b + 1 for b in blocks])
    tensor_mask = None if mask is None else torch.from_numpy(mask)
    with torch.inference_mode():
        hidden = dict(enumerate(net.states(torch.from_numpy(golden["ids"]), tensor_mask)))
        maps = net.attention_maps(hidden, tensor_mask, blocks).numpy()
    valid = golden["mask"] == 1 if padded else np.ones_like(golden["mask"], dtype=bool)
    np.testing.assert_allclose(maps[valid], expected.mean(axis=0)[valid], atol=1e-5)
    if padded:
        assert (maps[1, :, :3] == 0).all()


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("llada", {"kv_heads": 2}),  # grouped KV heads are a switch of the config, not of the family
        ("llada", {"kv_heads": 1}),
        ("llada", {"n_kv_heads": None}),  # null: one per query head
        ("dream", {"kv_heads": 4}),
        ("dream", {"kv_heads": 1}),
        ("llada", {"rope_theta": 10000.0, "rms_norm_eps": 1e-3}),
    ],
)
def test_the_switches_of_a_config_are_obeyed(tmp_path: Path, family: Any, options: dict[str, Any]) -> None:
    sizes = {key: value for key, value in options.items() if value is not None}
    config = checkpoints.checkpoint_config(family, layers=2, **sizes)
    weights = checkpoints.random_weights(config)
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config | options if None in options.values() else config))
    ids = np.random.default_rng(1).integers(0, 250, (2, 9))
    logits, hidden = run(load_backbone(tmp_path), ids)
    expected, states = reference.forward(config, weights, ids, dtype=np.float64)
    np.testing.assert_allclose(logits, expected, atol=1e-4)
    np.testing.assert_allclose(hidden, np.stack(states), atol=1e-4)


def test_a_llada_config_may_ask_for_qkv_biases(tmp_path: Path) -> None:
    config = checkpoints.checkpoint_config("llada", layers=1) | {"include_qkv_bias": True}
    weights = checkpoints.random_weights(config)
    rng = np.random.default_rng(0)
    for name in ("q", "k", "v"):
        key = f"model.transformer.blocks.0.{name}_proj"
        weights[key + ".bias"] = rng.normal(size=len(weights[key + ".weight"])).astype(np.float32)
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    ids = rng.integers(0, 250, (1, 9))
    expected, _ = reference.forward(config, weights, ids, dtype=np.float64)
    np.testing.assert_allclose(run(load_backbone(tmp_path), ids)[0], expected, atol=1e-4)


# --- precision ------------------------------------------------------------------------------------------------


def angles(net: Backbone, position: int) -> np.ndarray:
    """The rotary angles of one position in float64, from the formula."""
    half = net.spec.head_dim // 2
    return position * net.spec.rope_theta ** (-2.0 * np.arange(half) / net.spec.head_dim)


@pytest.mark.parametrize("how", ["loaded", "cast"])
def test_no_cast_rounds_the_rotary_frequencies(golden: Golden, how: str) -> None:
    """Frequencies rounded to bfloat16 would be off by more than a radian at position 1000."""
    if how == "loaded":
        net = load_backbone(golden.folder, dtype=torch.bfloat16)
    else:
        net = load_backbone(golden.folder).to(torch.bfloat16).bfloat16()
    assert net.dtype == torch.bfloat16
    cos, sin = net.rotary.tables(torch.tensor([[1000]]), torch.bfloat16)
    expected = np.tile(angles(net, 1000), 2)
    tolerance = 2.0**-8 if net.spec.family.name == "dream" else 1e-4  # half a unit of bfloat16 below 1; float32
    np.testing.assert_allclose(cos.double().numpy().ravel(), np.cos(expected), atol=tolerance)
    np.testing.assert_allclose(sin.double().numpy().ravel(), np.sin(expected), atol=tolerance)


def test_rotation_precision_is_the_familys(golden: Golden) -> None:
    """LLaDA turns bfloat16 queries in float32 and rounds once; Dream works in bfloat16 throughout."""
    net = load_backbone(golden.folder, dtype=torch.bfloat16)
    positions = torch.arange(300)[None]
    x = torch.randn((1, 2, 300, net.spec.head_dim), generator=torch.Generator().manual_seed(0)).bfloat16()
    turned = rotate(x, *net.rotary.tables(positions, torch.bfloat16))
    assert turned.dtype == torch.bfloat16

    wide = torch.float32 if net.spec.family.name == "llada" else torch.bfloat16
    a = torch.from_numpy(np.stack([angles(net, t) for t in range(300)])).float()
    cos, sin, (first, second) = a.cos().to(wide), a.sin().to(wide), x.to(wide).chunk(2, dim=-1)
    expected = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).bfloat16()
    same = (turned == expected).float().mean()
    assert same > 0.999  # the angles above are rounded once more than the network's
    other = torch.bfloat16 if wide == torch.float32 else torch.float32
    c2, s2, (f2, g2) = a.cos().to(other), a.sin().to(other), x.to(other).chunk(2, dim=-1)
    assert (turned == torch.cat((f2 * c2 - g2 * s2, g2 * c2 + f2 * s2), dim=-1).bfloat16()).float().mean() < 0.95


def test_the_norm_rounds_before_its_weight_is_applied() -> None:
    norm = RMSNorm(64, 1e-6).bfloat16()
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        norm.weight.copy_(torch.rand(64, generator=rng) + 0.5)
    x = torch.randn((100, 64), generator=rng).bfloat16()
    wide = x.double() / torch.sqrt(x.double().pow(2).mean(-1, keepdim=True) + 1e-6)
    rounded_first = wide.bfloat16() * norm.weight
    rounded_last = (wide * norm.weight.double()).bfloat16()
    assert (norm(x) == rounded_first).float().mean() > 0.999 > 0.9 > (norm(x) == rounded_last).float().mean()


def test_half_precision_stays_close_and_finite(golden: Golden) -> None:
    net = load_backbone(golden.folder, dtype=torch.bfloat16)
    logits, hidden = run(net, golden["ids"], golden["mask"])
    valid = golden["mask"] == 1
    assert np.isfinite(logits).all() and np.isfinite(hidden).all()
    error = logits[valid] - golden["masked_logits"][valid]
    assert np.sqrt((error**2).mean()) < 0.05 * golden["masked_logits"][valid].std()
