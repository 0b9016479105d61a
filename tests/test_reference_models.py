"""The references of whole models: the backbone's goldens, checkpoints, tokenizers, and decodings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest
import tokenizers
from safetensors import safe_open

import checkpoints
from reference import backbone, loop

FAMILIES = ("llada", "dream")
GOLDEN = Path(__file__).parent / "golden"


# --- the backbone -------------------------------------------------------------------------------------------


def golden(family: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(config, weights, everything else)"""
    config = json.loads((GOLDEN / f"{family}.json").read_text())
    with np.load(GOLDEN / f"{family}.npz") as file:
        arrays = dict(file)
    weights = {key.removeprefix("weight."): x for key, x in arrays.items() if key.startswith("weight.")}
    return config, weights, {key: x for key, x in arrays.items() if not key.startswith("weight.")}


@pytest.mark.parametrize("family", FAMILIES)
def test_goldens_are_reproduced_in_float32(family: str) -> None:
    config, weights, g = golden(family)
    for prefix, mask in (("", None), ("masked_", g["mask"])):
        logits, hidden = backbone.forward(config, weights, g["ids"], mask)
        assert logits.dtype == np.float32 and len(hidden) == 5
        np.testing.assert_allclose(logits, g[f"{prefix}logits"], atol=5e-5)
        np.testing.assert_allclose(np.stack(hidden), g[f"{prefix}hidden"], atol=5e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_changes_nothing_on_valid_rows(family: str) -> None:
    config, weights, g = golden(family)
    shifted = np.where(g["mask"] == 1, g["mask"].cumsum(axis=1) - 1, 1)
    for positions in (None, shifted):
        logits, _ = backbone.forward(config, weights, g["ids"], g["mask"], positions, np.float64)
        for row in range(3):
            valid = g["mask"][row] == 1
            alone, _ = backbone.forward(config, weights, g["ids"][row : row + 1, valid], dtype=np.float64)
            np.testing.assert_allclose(logits[row, valid], alone[0], atol=2e-5)
        assert np.isfinite(logits).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_golden_states_are_not_normalised(family: str) -> None:
    """Normalising once gives the logits; the stored states are neither unit-scale nor idempotent."""
    config, weights, g = golden(family)
    states = g["hidden"].astype(np.float64)
    np.testing.assert_allclose(backbone.readout(config, weights, states[-1]), g["logits"], atol=1e-5)
    layout = backbone.layout(config)
    normed = backbone.rms_norm(states[-1], weights[layout.final_norm + ".weight"], layout.eps)
    assert np.abs(backbone.readout(config, weights, normed) - g["logits"]).max() > 1


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_maps_are_distributions_over_valid_keys(family: str) -> None:
    config, weights, g = golden(family)
    maps = backbone.attention_maps(config, weights, g["ids"], g["mask"], [3, 4])
    assert maps.shape == (2, 3, 10, 10)
    np.testing.assert_allclose(maps.sum(axis=-1), 1, atol=1e-5)
    assert (maps[:, 1, :, :3] == 0).all() and (maps[:, 2, :, :6] == 0).all()


# --- checkpoints and tokenizers -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_checkpoint_index_matches_its_shards(tmp_path: Path, family: Any, dtype: str) -> None:
    checkpoints.write_checkpoint(tmp_path, family, dtype=dtype, layers=4)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    found, size = {}, 0
    for path in sorted(tmp_path.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for key in file.keys():  # noqa: SIM118 - not a dict
                tensor = file.get_tensor(key)
                found[key], size = path.name, size + tensor.numel() * tensor.element_size()
    assert found == index["weight_map"]
    assert size == index["metadata"]["total_size"]
    config = json.loads((tmp_path / "config.json").read_text())
    assert set(found) == set(checkpoints.tensor_shapes(config))
    if family == "llada":
        per_block = [{f for k, f in found.items() if f".blocks.{n}." in k} for n in range(4)]
        assert len(set(found.values())) == 6 and all(len(files) > 2 for files in per_block)
    else:
        straddling = [n for n in range(4) if len({f for k, f in found.items() if f".layers.{n}." in k}) == 2]
        head_shard = found["lm_head.weight"]
        assert len(straddling) == 2 and list(found.values()).count(head_shard) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_single_file_checkpoint(tmp_path: Path, family: Any) -> None:
    checkpoints.write_checkpoint(tmp_path, family, shards=False, layers=2)
    assert [p.name for p in tmp_path.glob("*.safetensors*")] == ["model.safetensors"]


def load_tokenizer(folder: Path) -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    config = json.loads((folder / "tokenizer_config.json").read_text())
    if (folder / "tokenizer.json").exists():
        return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")), config
    bpe = tokenizers.models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = tokenizers.Tokenizer(bpe)
    tokenizer.normalizer = tokenizers.normalizers.NFC()
    qwen = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    pre = tokenizers.pre_tokenizers
    tokenizer.pre_tokenizer = pre.Sequence(
        [
            pre.Split(tokenizers.Regex(qwen + r"|\s+(?!\S)|\s+"), "isolated"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    added = sorted(config["added_tokens_decoder"].items(), key=lambda item: int(item[0]))
    tokenizer.add_tokens([tokenizers.AddedToken(t["content"], normalized=False) for _, t in added])
    return tokenizer, config


def one_turn(config: dict[str, Any], content: str) -> str:
    template = jinja2.Template(config["chat_template"])
    messages = [{"role": "user", "content": content}]
    return template.render(messages=messages, bos_token=config["bos_token"], add_generation_prompt=True)


DREAM_SYSTEM = [151644, 8948, 198, 2610, 525, 264, 10950, 17847, 13, 151645, 198]
TURN = [22, 220, 16, 17]  # "7 12"
PUBLISHED_TURN = {
    "llada": (
        "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n7 12<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        [126080, 126346, 3840, 126347, 198, 198, *TURN, 126348, 126346, 598, 10450, 126347, 198, 198],
    ),
    "dream": (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n7 12<|im_end|>\n"
        "<|im_start|>assistant\n",
        [*DREAM_SYSTEM, 151644, 872, 198, *TURN, 151645, 198, 151644, 77091, 198],
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_published_ids_of_one_turn(tmp_path: Path, family: Any) -> None:
    checkpoints.write_published_ids_tokenizer(tmp_path, family)
    tokenizer, config = load_tokenizer(tmp_path)
    text = one_turn(config, "7 12")
    assert (text, tokenizer.encode(text, add_special_tokens=False).ids) == PUBLISHED_TURN[family]
    special = {"llada": {"<|mdm_mask|>": 126336}, "dream": {"<|mask|>": 151666, "<|beginoftext|>": 151665}}
    for token, n in special[family].items():
        assert tokenizer.token_to_id(token) == n


@pytest.mark.parametrize("family", FAMILIES)
def test_small_tokenizer_encodes_any_text(tmp_path: Path, family: Any) -> None:
    checkpoints.write_checkpoint(tmp_path, family, layers=1)
    tokenizer, config = load_tokenizer(tmp_path)
    for n, token in config["added_tokens_decoder"].items():
        assert tokenizer.token_to_id(token["content"]) == int(n)
    text = "The user's 世界 costs €12.50;\n\n\tthe assistant is counting. 🍎"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode(" 12").ids == [220, 16, 17]
    model = json.loads((tmp_path / "config.json").read_text())
    assert max(ids) < model["mask_token_id"] < model["vocab_size"] - 8  # unused rows above the tokenizer
    mask = "<|mdm_mask|>" if family == "llada" else "<|mask|>"
    assert tokenizer.token_to_id(mask) == model["mask_token_id"]
    assert tokenizer.token_to_id("<|endoftext|>") == model["eos_token_id"] == model["pad_token_id"]


# --- whole decodings ----------------------------------------------------------------------------------------

PROMPT = [39, 68, 75, 75, 78, 220, 16, 17]
LENGTH = 32


def small_model(family: Any) -> loop.Model:
    config = checkpoints.checkpoint_config(family)
    top = max(checkpoints.small_vocabulary(family).added.values())
    forbidden = [config["mask_token_id"], *range(top + 1, config["vocab_size"])]
    return loop.Model(config, checkpoints.random_weights(config, seed=0), forbidden)


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> loop.Model:
    return small_model(request.param)


def test_the_random_weights_spread_confidence(model: loop.Model) -> None:
    view = model.view([*PROMPT, *[model.mask_id] * LENGTH])
    c = np.array(view.c[len(PROMPT) :])
    assert (c >= 0.9).any() and ((c >= 0.6) & (c < 0.9)).any() and (c < 0.6).any()
    assert len(set(view.y[len(PROMPT) :])) > 8


RPD: dict[str, Any] = {"first_layer": 2, "theta_s": 1.5, "w": 4.0}
DECODINGS = {
    "llada": lambda m: loop.decode_llada(m, PROMPT, LENGTH, steps=16, block=16),
    "dream": lambda m: loop.decode_dream(m, PROMPT, LENGTH, steps=16),
    "fast": lambda m: loop.decode_fast(m, PROMPT, LENGTH, block=16),
    "factor": lambda m: loop.decode_factor(m, PROMPT, LENGTH, block=16),
    "eb": lambda m: loop.decode_eb(m, PROMPT, LENGTH, block=16),
    "lopa": lambda m: loop.decode_lopa(m, PROMPT, LENGTH, block=16),
    "dapd": lambda m: loop.decode_dapd(m, PROMPT, LENGTH, 0.005, 0.05, block=16),
    "rpd": lambda m: loop.decode_rpd(m, PROMPT, LENGTH, **RPD),
    "rpd-affordable": lambda m: loop.decode_rpd(m, PROMPT, LENGTH, **RPD, fallback="affordable"),
    "rpd-block": lambda m: loop.decode_rpd_block(m, PROMPT, LENGTH, **RPD, block=16),
}


@pytest.mark.parametrize("name", DECODINGS)
def test_every_decoding_fills_the_canvas(model: loop.Model, name: str) -> None:
    out = DECODINGS[name](model)
    assert out.ids[: len(PROMPT)] == PROMPT
    assert not set(out.ids) & set(model.forbidden)
    assert sum(map(len, out.steps)) == LENGTH  # every position once
    assert out.nfe <= LENGTH


def test_lopa_without_branches_is_the_threshold_rule(model: loop.Model) -> None:
    """No confidence equals the threshold exactly, so strictness does not matter."""
    without = loop.decode_lopa(model, PROMPT, LENGTH, k=0, block=16)
    threshold = loop.decode_fast(model, PROMPT, LENGTH, block=16)
    assert (without.ids, without.steps) == (threshold.ids, threshold.steps)


def test_rpd_block_with_an_empty_band_decodes_like_fast_dllm(model: loop.Model) -> None:
    empty = loop.decode_rpd_block(model, PROMPT, LENGTH, **RPD, theta_c=0.9, block=16)
    assert empty == loop.decode_fast(model, PROMPT, LENGTH, block=16)
