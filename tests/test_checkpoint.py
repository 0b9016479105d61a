"""Loading: what a folder must hold, what is said when it does not, and what it costs in memory."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import checkpoints
import unmask
from reference.published import dream_config, llada_config, tensor_shapes
from unmask import UserError
from unmask.models import TINY
from unmask.models import checkpoint as loader
from unmask.models.checkpoint import load_backbone, to_checkpoint
from unmask.models.spec import DREAM, LLADA, build_spec, read_spec

INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of the sharded checkpoint, to be damaged."""
    return Path(shutil.copytree(checkpoint, tmp_path / "copy"))


def stored(folder: Path) -> dict[str, np.ndarray]:
    return {key: x for path in sorted(folder.glob("*.safetensors")) for key, x in load_file(path).items()}


# --- what loads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [True, False], ids=["sharded", "single"])
@pytest.mark.parametrize("kept", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("target", [None, torch.bfloat16, torch.float64], ids=str)
def test_every_tensor_arrives(family: Any, tmp_path: Path, shards: bool, kept: str, target: Any) -> None:
    checkpoints.write_checkpoint(tmp_path, family, dtype=kept, shards=shards, layers=3, dim=16, mlp=24)
    net = load_backbone(tmp_path, dtype=target)
    assert net.dtype == (target or torch.float32)  # on a CPU, half precision is loaded as float32 unless asked for
    expected = checkpoints.random_weights(json.loads((tmp_path / "config.json").read_text()))
    found = to_checkpoint(net)
    assert set(found) == set(expected)
    for key, values in expected.items():
        rounded = torch.from_numpy(values).to(getattr(torch, kept)).to(net.dtype)
        assert torch.equal(found[key], rounded), key


def test_a_shard_order_that_splits_blocks_loads_like_one_file(checkpoint: Path, tmp_path: Path) -> None:
    shutil.copy(checkpoint / "config.json", tmp_path)
    save_file(stored(checkpoint), tmp_path / "model.safetensors")
    sharded, single = to_checkpoint(load_backbone(checkpoint)), to_checkpoint(load_backbone(tmp_path))
    assert len(list(checkpoint.glob("*.safetensors"))) > 3
    assert all(torch.equal(sharded[key], single[key]) for key in single)


def test_nothing_is_left_trainable(model: unmask.Model) -> None:
    assert not model.net.training and not any(p.requires_grad for p in model.net.parameters())


@pytest.mark.parametrize(
    ("family", "config", "keys", "parameters"),
    [
        (
            LLADA,
            llada_config(
                dim=4096, layers=32, heads=32, kv_heads=32, mlp=12288, rows=126464,
                ids={"mask": 126336, "eos": 126081, "pad": 126081},
            ),
            291,
            8_015_581_184,
        ),
        (
            DREAM,
            dream_config(
                dim=3584, layers=28, heads=28, kv_heads=4, mlp=18944, rows=152064,
                ids={"mask": 151666, "eos": 151643, "pad": 151643},
            ),
            339,
            7_615_616_512,
        ),
    ],
    ids=["llada", "dream"],
)  # fmt: skip
def test_the_published_sizes(family: Any, config: Any, keys: int, parameters: int) -> None:
    spec = build_spec(config, family, "config.json", {})
    shapes = {key: slot.shape for key, slot in spec.slots()}
    assert shapes == tensor_shapes(config)
    assert len(shapes) == keys and sum(int(np.prod(shape)) for shape in shapes.values()) == parameters
    assert spec.context == {"llada": 4096, "dream": 2048}[family.name]
    assert spec.first_layer == {"llada": 17, "dream": 15}[family.name]


# --- what does not: weights -----------------------------------------------------------------------------------


def edit_index(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path, str, str], None]:
    def apply(folder: Path, key: str, shard: str) -> None:
        index = json.loads((folder / INDEX).read_text())
        change(index["weight_map"])
        (folder / INDEX).write_text(json.dumps(index))

    return apply


def edit_shard(change: Callable[[dict[str, np.ndarray], str], Any]) -> Callable[[Path, str, str], None]:
    def apply(folder: Path, key: str, shard: str) -> None:
        tensors = {name: x.copy() for name, x in load_file(folder / shard).items()}
        change(tensors, key)
        save_file(tensors, folder / shard)

    return apply


def edit_bytes(change: Callable[[bytes], bytes]) -> Callable[[Path, str, str], None]:
    def apply(folder: Path, key: str, shard: str) -> None:
        (folder / shard).write_bytes(change((folder / shard).read_bytes()))

    return apply


def edit_header(change: Callable[[dict[str, Any], str], Any]) -> Callable[[Path, str, str], None]:
    def apply(folder: Path, key: str, shard: str) -> None:
        data = (folder / shard).read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + size])
        change(header, key)
        text = json.dumps(header).encode()
        (folder / shard).write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])

    return apply


def drop_everywhere(folder: Path, key: str, shard: str) -> None:
    edit_shard(lambda tensors, key: tensors.pop(key))(folder, key, shard)
    index = json.loads((folder / INDEX).read_text())
    del index["weight_map"][key]
    (folder / INDEX).write_text(json.dumps(index))


def add_everywhere(folder: Path, key: str, shard: str) -> None:
    edit_shard(lambda tensors, key: tensors.update({key + "_scale": np.ones(1, np.float32)}))(folder, key, shard)
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"][key + "_scale"] = shard
    (folder / INDEX).write_text(json.dumps(index))


# damage -> what the sentence must name; KEY and FILE stand for the damaged tensor and shard
DAMAGE: dict[str, tuple[Callable[[Path, str, str], Any], list[str]]] = {
    "missing shard": (lambda folder, key, shard: (folder / shard).unlink(), ["FILE", "missing"]),
    "missing key": (drop_everywhere, ["missing key KEY"]),
    "unexpected key": (add_everywhere, ["unexpected key KEY_scale", "FILE"]),
    "key in the index only": (edit_shard(lambda t, key: t.pop(key)), ["KEY is in the index but not in", "FILE"]),
    "key in the shard only": (
        edit_shard(lambda t, key: t.update({key + "x": np.ones(1, np.float32)})),
        ["KEYx is not in the index but in", "FILE"],
    ),
    "misshapen": (
        edit_shard(lambda t, key: t.update({key: np.ascontiguousarray(t[key][:-1])})),
        ["KEY", "FILE", "shape", "implies"],
    ),
    "another rank": (edit_shard(lambda t, key: t.update({key: t[key][None]})), ["KEY", "FILE", "shape"]),
    "one tensor in another float type": (
        edit_shard(lambda t, key: t.update({key: t[key].astype(np.float16)})),
        ["KEY", "FILE", "F16"],
    ),
    "dtype flipped to an integer": (
        edit_header(lambda header, key: header[key].update(dtype="I32")),
        ["KEY", "FILE", "I32"],
    ),
    "dtype flipped to another width": (
        edit_header(lambda header, key: header[key].update(dtype="F16")),
        ["FILE", "not a readable"],
    ),
    "not a number": (edit_shard(lambda t, key: t[key].__setitem__(0, np.nan)), ["KEY", "FILE", "non-finite"]),
    "infinite": (edit_shard(lambda t, key: t[key].__setitem__(-1, -np.inf)), ["KEY", "FILE", "non-finite"]),
    "truncated by one byte": (edit_bytes(lambda data: data[:-1]), ["FILE", "truncated"]),
    "truncated in the header": (edit_bytes(lambda data: data[:100]), ["FILE", "truncated"]),
    "empty": (edit_bytes(lambda data: b""), ["FILE", "truncated"]),
    "header is no JSON": (edit_bytes(lambda data: data[:8] + b"!" + data[9:]), ["FILE", "not a readable"]),
    "header of absurd length": (edit_bytes(lambda data: b"\xff" * 8 + data[8:]), ["FILE", "not a readable"]),
    "offsets past the end": (
        edit_header(lambda header, key: header[key].update(data_offsets=[0, 10**9])),
        ["FILE", "not a readable"],
    ),
    "a shard that is a folder": (
        lambda folder, key, shard: ((folder / shard).unlink(), (folder / shard).mkdir()),
        ["FILE", "not a readable"],
    ),
    "no index entry": (edit_index(lambda index: index.clear()), [INDEX, "weight_map"]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_refused_by_name(folder: Path, damage: str) -> None:
    index = json.loads((folder / INDEX).read_text())["weight_map"]
    key = next(key for key in sorted(index) if key.endswith(("q_proj.weight",)))
    apply, words = DAMAGE[damage]
    apply(folder, key, index[key])
    with pytest.raises(UserError) as caught:
        load_backbone(folder)
    said = str(caught.value)
    for word in words:
        assert word.replace("KEY", key).replace("FILE", index[key]) in said, said
    assert "\n" not in said


@pytest.mark.parametrize(
    "name", ["../model.safetensors", "/etc/passwd", "sub/a.safetensors", "..", "", 7, None, ["a"]]
)
def test_an_index_may_not_lead_out_of_the_folder(folder: Path, name: Any) -> None:
    outside = folder.parent / "model.safetensors"
    save_file(stored(folder), outside)
    edit_index(lambda index: index.update(dict.fromkeys(index, name)))(folder, "", "")
    with pytest.raises(UserError, match=r"points outside the folder|not a readable safetensors"):
        load_backbone(folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not valid JSON"), ("[]", "must hold a JSON object"), ("{}", "no weight_map"), ("\xff", "not valid JSON")],
)
def test_an_unreadable_index(folder: Path, text: str, words: str) -> None:
    (folder / INDEX).write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=f"{re.escape(INDEX)}.*{words}"):
        load_backbone(folder)


def test_a_folder_without_weights_or_none_at_all(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no checkpoint folder at ~nosuchuser/x: could not"):
        load_backbone("~nosuchuser/x")
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    with pytest.raises(UserError, match=r"neither model\.safetensors nor"):
        load_backbone(folder)
    with pytest.raises(UserError, match="not a folder"):
        load_backbone(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"config\.json is missing"):
        load_backbone(tmp_path / "empty")


def test_nothing_is_copied_before_everything_is_checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = sorted(folder.glob("*.safetensors"))[-1]
    save_file({key: x.astype(np.float16) for key, x in load_file(last).items()}, last)
    monkeypatch.setattr(loader, "empty_backbone", lambda *args: pytest.fail("memory was taken for a bad checkpoint"))
    with pytest.raises(UserError, match=r"stored as F\d\d, but .* as F\d\d"):
        load_backbone(folder)


# --- what does not: config ------------------------------------------------------------------------------------

SWITCHES: dict[str, dict[str, Any]] = {
    "llada": {
        "alibi": True, "attention_layer_norm": True, "scale_logits": True, "input_emb_norm": True, "rope": False,
        "bias_for_layer_norm": True, "include_bias": True, "weight_tying": True, "block_group_size": 2,
        "block_type": "sequential", "activation_type": "gelu", "layer_norm_type": "default",
        "layer_norm_with_affine": False, "multi_query_attention": True, "clip_qkv": 8.0,
        "rope_scaling": {"type": "linear", "factor": 2.0},
    },
    "dream": {
        "use_sliding_window": True, "use_mrope": True, "tie_word_embeddings": True, "hidden_act": "gelu",
        "mlp_bias": True, "attention_bias": False, "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
    },
}  # fmt: skip
UNHEARD_OF = {
    "quantization_config": {"bits": 4}, "qk_norm": True, "partial_rotary_factor": 0.5,
    "final_logit_softcapping": 30.0, "attention_multiplier": 0.1, "logit_scale": 0.1, "num_experts": 8, "head_dim": 7,
    "hidden_act_2": "gelu",
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}, "layer_types": ["sliding_attention"],
    "rope_scaling_factor": 4.0,
}  # fmt: skip
NO_SIZES = [("head_dim", {"of": 8}), ("head_dim", [8]), ("head_dim", "8"), ("layer_types", [["full_attention"]])]
TWINS = {"hidden_size": 31, "num_hidden_layers": 5, "num_attention_heads": 2, "max_position_embeddings": 1}


def edit_config(folder: Path, **fields: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **fields}))


@pytest.mark.parametrize(
    ("family", "switch", "value"),
    [(f, s, v) for f, switches in SWITCHES.items() for s, v in [*{**switches, **UNHEARD_OF}.items(), *NO_SIZES]],
    indirect=["family"],
)
def test_a_switch_we_do_not_compute_is_refused_by_name(folder: Path, switch: str, value: Any) -> None:
    edit_config(folder, **{switch: value})
    with pytest.raises(UserError, match=rf"config\.json: {switch} = .* "):
        load_backbone(folder)


# What the published checkpoints, their fine-tunes and other versions of transformers write besides.
METADATA: dict[str, Any] = {
    "_name_or_path": "org/name", "_attn_implementation_autoset": True, "torch_dtype": "float32", "dtype": "float32",
    "transformers_version": "4.57.1", "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "bos_token_id": 3,
    "max_length": 20, "temperature": 1.0, "top_k": 50, "top_p": 1.0, "typical_p": 1.0, "num_beams": 1,
    "repetition_penalty": 1.0, "length_penalty": 1.0, "chunk_size_feed_forward": 0, "return_dict": True,
    "output_attentions": False, "pruned_heads": {}, "tokenizer_class": None, "use_bfloat16": False,
    "initializer_range": 0.02, "attention_dropout": 0.0, "max_window_layers": 28, "sliding_window": 4096,
    "head_dim": 8, "layer_types": ["full_attention"] * 6, "some_switch": False, "some_list": [], "some_number": 0,
}  # fmt: skip


def test_metadata_and_what_is_off_is_no_switch(folder: Path) -> None:
    before = load_backbone(folder).spec
    edit_config(folder, **METADATA)
    assert load_backbone(folder).spec == before


def test_the_embedded_config_passes() -> None:
    assert read_spec(TINY).canvas_length == 160


@pytest.mark.parametrize("family", ["llada"], indirect=True)
def test_a_size_under_another_name_must_be_the_same(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    same = {"hidden_size": config["d_model"], "num_hidden_layers": config["n_layers"],
            "num_attention_heads": config["n_heads"], "max_position_embeddings": 4096}  # fmt: skip
    edit_config(folder, **same)
    assert load_backbone(folder).spec.width == config["d_model"]
    for name, value in TWINS.items():
        edit_config(folder, **{**same, name: value})
        with pytest.raises(UserError, match=rf"{name} = {value}"):
            load_backbone(folder)


@pytest.mark.parametrize("content", ["[" * 100_000, b"\xff\xfe", "", "[]", None])
def test_a_config_that_cannot_be_read(folder: Path, content: Any) -> None:
    path = folder / "config.json"
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=r"config\.json") as told:
        load_backbone(folder)
    assert len(str(told.value)) < 400 and "\n" not in str(told.value)


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "dream", "llada_moe", None])
def test_another_architecture_is_refused(folder: Path, model_type: Any) -> None:
    edit_config(folder, model_type=model_type)
    with pytest.raises(UserError, match=r"model_type .* is not supported; supported: llada, Dream"):
        load_backbone(folder)


@pytest.mark.parametrize(
    ("ours", "value"),
    [
        ("width", None), ("width", "32"), ("width", True), ("width", -32), ("width", 30), ("width", 0),
        ("layers", 0), ("layers", 2.5), ("heads", 0), ("heads", 5), ("kv_heads", 3), ("kv_heads", 0),
        ("mlp_width", 0), ("rows", 0), ("norm_eps", None), ("norm_eps", float("nan")),
        ("layers", float("inf")), ("rope_theta", 0), ("rope_theta", "1e6"), ("rope_theta", None),
        ("heads", 32),  # heads of one dimension cannot be rotated
        ("mask_id", None), ("eos_id", None),
    ],
)  # fmt: skip
def test_impossible_dimensions(folder: Path, ours: str, value: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    family = {"llada": LLADA, "Dream": DREAM}[config["model_type"]]
    edit_config(folder, **{family.dims[ours]: value})
    with pytest.raises(UserError, match=r"config\.json"):
        load_backbone(folder)


def test_more_layers_than_the_weights_have(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    name = "n_layers" if "n_layers" in config else "num_hidden_layers"
    edit_config(folder, **{name: config[name] + 1})
    with pytest.raises(UserError, match=rf"missing key \S+\.{config[name]}\."):
        load_backbone(folder)


# --- what it costs --------------------------------------------------------------------------------------------

LOAD = """
import re, sys, torch
from pathlib import Path
torch.set_num_threads(1)
from unmask.models.checkpoint import load_backbone
load_backbone(sys.argv[1])  # a small one first: what the code and its buffers take is not measured
def resident(field):
    return int(re.search(field + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
before = resident("VmRSS")
net = load_backbone(sys.argv[2], dtype=sys.argv[3])
print(sum(p.nbytes for p in net.parameters()), resident("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize(("shards", "dtype"), [(True, "float32"), (False, "bfloat16")], ids=["shards", "one file"])
def test_loading_never_holds_a_second_copy(tmp_path: Path, shards: bool, dtype: str) -> None:
    """Everything counted, pages of mapped files too: the peak is the model and a tensor or two."""
    config = checkpoints.checkpoint_config("llada", dim=512, layers=8, heads=8, mlp=1024, rows=4096)
    weights = {key: np.full(shape, 0.5, np.float32) for key, shape in tensor_shapes(config).items()}
    groups = checkpoints.shard_groups(config) if shards else [list(weights)]
    checkpoints.write_weights(tmp_path, weights, groups, "bfloat16")
    (tmp_path / "config.json").write_text(json.dumps(config))
    largest = max(x.nbytes for x in weights.values()) // 2
    del weights
    small = checkpoints.write_checkpoint(tmp_path / "small", "llada", layers=1)
    command = [sys.executable, "-c", LOAD, str(small), str(tmp_path), dtype]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    parameters, grown = map(int, told.split())
    assert parameters > 30e6
    assert parameters * 0.8 < grown < parameters + 4 * largest, f"{grown / 1e6:.0f} of {parameters / 1e6:.0f} MB"


@pytest.mark.parametrize("kept", ["bfloat16", "float16"])
def test_all_dtypes_flipped_alike(tmp_path: Path, family: Any, kept: str) -> None:
    """One half precision read as the other is nonsense that loads: what config.json declares tells."""
    other = "float16" if kept == "bfloat16" else "bfloat16"
    checkpoints.write_checkpoint(tmp_path, family, dtype=kept, shards=False, layers=1)
    edit_config(tmp_path, torch_dtype=kept)
    load_backbone(tmp_path)
    edit_config(tmp_path, torch_dtype=other)
    with pytest.raises(UserError, match=f"store {kept}, but torch_dtype there is {other}"):
        load_backbone(tmp_path)
    edit_config(tmp_path, torch_dtype="float32")  # wider or narrower files are the writer's choice
    assert load_backbone(tmp_path)


def test_integers_are_no_weights(folder: Path) -> None:
    for path in folder.glob("*.safetensors"):
        size = struct.unpack("<Q", path.read_bytes()[:8])[0]
        header = path.read_bytes()[8 : 8 + size].replace(b'"F32"', b'"I32"')
        path.write_bytes(path.read_bytes()[:8] + header + path.read_bytes()[8 + size :])
    with pytest.raises(UserError, match="is stored as I32; only BF16, F16, F32, F64 can be loaded"):
        load_backbone(folder)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"eos_token_id": 9999}, "eos_token_id 9999 is outside the model's 320 rows"),
        ({"pad_token_id": 320}, "pad_token_id 320 is outside"),
        ({"mask_token_id": 320}, "mask_token_id 320 is outside"),
        ({"mask_token_id": 7, "eos_token_id": 7}, "the mask and the end of text share the id 7"),
        ({"mask_token_id": 7, "pad_token_id": 7}, "the mask and the end of text share the id 7"),
    ],
)
def test_ids_that_cannot_be(folder: Path, fields: dict[str, int], words: str) -> None:
    edit_config(folder, **fields)
    with pytest.raises(UserError, match=words):
        load_backbone(folder)


def test_the_target_may_be_named_by_text(checkpoint: Path) -> None:
    assert load_backbone(str(checkpoint), device="cpu", dtype="float64").dtype == torch.float64
    for place, words in (
        ({"dtype": "float31"}, "unknown dtype 'float31'"),
        ({"device": "gpu"}, "unknown device 'gpu'"),
    ):
        with pytest.raises(UserError, match=words):
            load_backbone(checkpoint, **place)  # type: ignore[arg-type]


def test_the_vocabulary_gives_the_rows_where_the_embedding_does_not(tmp_path: Path) -> None:
    """As in the published code, where embedding_size may be null."""
    checkpoints.write_checkpoint(tmp_path, "llada", layers=1)
    config = json.loads((tmp_path / "config.json").read_text())
    edit_config(tmp_path, embedding_size=None, vocab_size=config["embedding_size"])
    assert load_backbone(tmp_path).spec.rows == config["embedding_size"]


def test_tensors_are_read_one_at_a_time(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tensor of the file is alive when the next one is asked for."""
    alive: list[weakref.ref[torch.Tensor]] = []
    plain = loader.place

    def place(parameters, slot, tensor, key, path):
        assert sum(ref() is not None for ref in alive) <= 1, f"before {key}"
        alive.append(weakref.ref(tensor))
        plain(parameters, slot, tensor, key, path)

    monkeypatch.setattr(loader, "place", place)
    load_backbone(checkpoint)
    assert len(alive) == len(stored(checkpoint))
