"""Small checkpoints and tokenizers in the form LLaDA and Dream are published in.

write_checkpoint(folder, "llada")                weights, index, config and a small tokenizer
write_published_ids_tokenizer(folder, "dream")   a tokenizer whose special and chat ids are the published ones
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from reference.published import Family, dream_config, llada_config, shard_groups, tensor_shapes

Array = NDArray[Any]

# --- tokenizers ---------------------------------------------------------------------------------------------

# The added tokens of each family, in id order.
LLADA_ADDED = (
    "<|startoftext|>",
    "<|endoftext|>",
    "[CLS]",
    "[gMASK]",
    "<|reserved_token_0|>",
    "<|mdm_mask|>",
    "<|reserved_token_1|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
)
DREAM_ADDED = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<|beginoftext|>",
    "<|mask|>",
)
NOT_SPECIAL = frozenset(DREAM_ADDED[14:22])  # <tool_call> to <|file_sep|>: added, yet ordinary text

# Numbers are split into digits; no merge joins newlines.
LLADA_SPLIT = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)

LLADA_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if loop.first -%}{{ bos_token }}{%- endif -%}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}"
    "{{ message['content'] | trim }}{{ '<|eot_id|>' }}"
    "{%- endfor -%}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"  # whatever add_generation_prompt says
)

DREAM_TEMPLATE = (
    "{%- if messages[0]['role'] != 'system' -%}"
    "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}"
    "{%- endif -%}"
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"
)

SMALL_WORDS = ("user", "assistant", "system", "the", "Ġthe", "Ġand", "ing")


def byte_alphabet() -> list[str]:
    """The printable stand-ins of the 256 bytes in published id order: "!" is 0, "0" is 15, " " is 220."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(256 + n) for n in range(len(others))]


def merges_for(words: Iterable[str]) -> list[tuple[str, str]]:
    """Merges that build each word from the left; a leading "Ġ" (space) joins last, after the bare word."""
    merges: list[tuple[str, str]] = []
    for word in words:
        stem = word.removeprefix("Ġ") or word
        steps = [(stem[:n], stem[n]) for n in range(1, len(stem))]
        if stem != word:
            steps.append(("Ġ", stem))
        merges += [step for step in steps if step not in merges]
    return merges


@dataclass(frozen=True)
class Vocabulary:
    """A byte-level BPE: regular tokens with dense ids from 0, then the added tokens."""

    family: Family
    tokens: dict[str, int]
    merges: list[tuple[str, str]]
    added: dict[str, int]

    @property
    def ids(self) -> dict[str, int]:
        mask = "<|mdm_mask|>" if self.family == "llada" else "<|mask|>"
        eos = self.added["<|endoftext|>"]
        return {"mask": self.added[mask], "eos": eos, "pad": eos}


def small_vocabulary(family: Family) -> Vocabulary:
    merges = merges_for(SMALL_WORDS)
    tokens = [*byte_alphabet(), *dict.fromkeys(left + right for left, right in merges)]
    added = LLADA_ADDED if family == "llada" else DREAM_ADDED
    return Vocabulary(
        family,
        {token: n for n, token in enumerate(tokens)},
        merges,
        {token: len(tokens) + n for n, token in enumerate(added)},
    )


def published_vocabulary(family: Family) -> Vocabulary:
    """The published ids for the pieces of the chat templates, placeholders for all other regular ids."""
    if family == "llada":
        size = 126080
        known = {"user": 3840, "ass": 598, "istant": 10450}
        merges = merges_for(["user", "ass"])
        merges += [("i", "s"), ("is", "t"), ("a", "n"), ("an", "t"), ("ist", "ant")]  # "ass" + "istant"
        added = {name: size + n for n, name in enumerate(LLADA_ADDED[:4])}
        added |= {f"<|reserved_token_{n}|>": size + 4 + n for n in range(265)}  # up to 126348
        named = {"<|mdm_mask|>": 126336, "<|start_header_id|>": 126346, "<|end_header_id|>": 126347}
        named |= {"<|eot_id|>": 126348}
        renamed = {n: name for name, n in named.items()}
        added = {renamed.get(n, name): n for name, n in added.items()}
    else:
        size = 151643
        known = {"system": 8948, "You": 2610, "Ġare": 525, "Ġa": 264, "Ġhelpful": 10950, "Ġassistant": 17847}
        known |= {"user": 872, "assistant": 77091}
        merges = merges_for(["system", "You", "user", "assistant", "Ġassistant", "Ġare", "Ġhelpful"])
        merges.append(("Ġ", "a"))  # last, so that it breaks no word
        added = {token: size + n for n, token in enumerate(DREAM_ADDED)}

    by_id: dict[int, str] = dict(enumerate(byte_alphabet())) | {n: token for token, n in known.items()}
    intermediate = [left + right for left, right in merges if left + right not in known]
    free = (n for n in range(size) if n not in by_id)
    by_id |= dict(zip(free, dict.fromkeys(intermediate), strict=False))
    tokens = {by_id.get(n, f"<unused_{n}>"): n for n in range(size)}
    return Vocabulary(family, tokens, merges, added)


def write_tokenizer(folder: Path, vocabulary: Vocabulary) -> None:
    """LLaDA: tokenizer.json. Dream: vocab.json and merges.txt. Both: tokenizer_config.json."""
    if vocabulary.family == "llada":
        bpe = models.BPE(vocab=vocabulary.tokens, merges=vocabulary.merges)
        tokenizer = Tokenizer(bpe)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(LLADA_SPLIT), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_special_tokens(
            [AddedToken(token, normalized=False, special=True) for token in vocabulary.added]
        )
        tokenizer.save(str(folder / "tokenizer.json"))
    else:
        text = json.dumps(vocabulary.tokens, ensure_ascii=False)
        (folder / "vocab.json").write_text(text, encoding="utf-8")
        lines = ["#version: 0.2", *(f"{left} {right}" for left, right in vocabulary.merges)]
        (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _write_json(folder / "tokenizer_config.json", tokenizer_config(vocabulary))


def tokenizer_config(vocabulary: Vocabulary) -> dict[str, Any]:
    shared = {
        "added_tokens_decoder": {
            str(n): {
                "content": token,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": token not in NOT_SPECIAL,
            }
            for token, n in vocabulary.added.items()
        },
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
    }
    if vocabulary.family == "llada":  # no mask_token: the id is found in config.json
        return shared | {
            "add_bos_token": False,
            "add_eos_token": False,
            "bos_token": "<|startoftext|>",
            "chat_template": LLADA_TEMPLATE,
            "cls_token": "[CLS]",
            "fast_tokenizer": True,
            "gmask_token": "[gMASK]",
            "merges_file": None,
            "model_input_names": ["input_ids", "attention_mask"],
            "model_max_length": 1000000000000000019884624838656,
            "tokenizer_class": "PreTrainedTokenizerFast",
            "trust_remote_code": True,
        }
    return shared | {
        "add_bos_token": False,
        "add_prefix_space": False,
        "additional_special_tokens": ["<|beginoftext|>", "<|mask|>"],
        "auto_map": {"AutoTokenizer": ["tokenization_dream.DreamTokenizer", None]},
        "bos_token": "<|beginoftext|>",
        "chat_template": DREAM_TEMPLATE,
        "errors": "replace",
        "mask_token": "<|mask|>",
        "model_max_length": 131072,
        "split_special_tokens": False,
        "tokenizer_class": "DreamTokenizer",
        "unk_token": None,
    }


def write_published_ids_tokenizer(folder: str | Path, family: Family) -> Path:
    """A tokenizer that gives one user turn the published ids; other text falls back to bytes."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, published_vocabulary(family))
    return folder


# --- weights ------------------------------------------------------------------------------------------------


def checkpoint_config(
    family: Family,
    *,
    dim: int = 32,
    layers: int = 4,
    heads: int = 4,
    kv_heads: int | None = None,
    mlp: int = 48,
    rows: int = 320,
    **overrides: Any,
) -> dict[str, Any]:
    """The published fields at a small size, with the small tokenizer's ids; `overrides` replace fields."""
    vocabulary = small_vocabulary(family)
    assert rows > max(vocabulary.added.values()), "the head must have a row for every token"
    make = llada_config if family == "llada" else dream_config
    kv_heads = kv_heads or (heads if family == "llada" else heads // 2)
    config = make(dim=dim, layers=layers, heads=heads, kv_heads=kv_heads, mlp=mlp, rows=rows, ids=vocabulary.ids)
    return config | overrides


def random_weights(config: Mapping[str, Any], seed: int = 0, scale: float = 1.0) -> dict[str, Array]:
    """Weights under which masks decode to a spread of confidences. `scale` multiplies the head: an inverse
    temperature, so that a small one makes every distribution flat and a large one makes it sharp.

    All masks share one embedding, so positions differ only through attention: the mask row is small, and
    queries and keys are large enough for attention to prefer some positions. Later blocks add less than
    earlier ones, so that some predictions settle before the last layer.
    """
    rng = np.random.default_rng(seed)
    layers = config["n_layers"] if config["model_type"] == "llada" else config["num_hidden_layers"]
    weights = {}
    for key, shape in tensor_shapes(config).items():
        kind = _kind(key)
        if len(shape) == 1:
            values = rng.normal(0, 0.3, shape) if kind == "bias" else rng.uniform(0.7, 1.3, shape)
        else:
            values = rng.normal(0, GAIN[kind] / np.sqrt(shape[1]), shape)
        if kind == "embedding":
            values *= np.sqrt(shape[1])
            values[config["mask_token_id"]] *= 0.2
        if kind == "head":
            loud = [config["mask_token_id"], config["eos_token_id"], shape[0] - 1]
            values[loud] *= 1.3  # now and then the argmax is the mask, an end of text or an id without a token
            values *= scale
        if kind == "out":
            block = int(key.split("blocks." if "blocks." in key else "layers.")[1].split(".")[0])
            values *= LATE ** (block / max(layers - 1, 1))
        weights[key] = values.astype(np.float32)
    return weights


GAIN = {"embedding": 1.0, "query": 3.0, "value": 1.5, "gate": 1.5, "out": 1.5, "head": 6.0}
LATE = 0.3  # the last block's outputs, relative to the first's


def _kind(key: str) -> str:
    if key.endswith(".bias"):
        return "bias"
    if key in ("model.transformer.ff_out.weight", "lm_head.weight"):
        return "head"
    name = key.split(".")[-2]
    kinds = {
        "embedding": ("wte", "embed_tokens"),
        "query": ("q_proj", "k_proj"),
        "value": ("v_proj",),
        "gate": ("ff_proj", "gate_proj", "up_proj"),
        "out": ("attn_out", "o_proj", "ff_out", "down_proj"),
    }
    return next((kind for kind, names in kinds.items() if name in names), "norm")


def write_weights(folder: Path, weights: Mapping[str, Array], groups: Sequence[Sequence[str]], dtype: str) -> None:
    """One file per group and an index; a single `model.safetensors` without index for one group."""
    names = [f"model-{n + 1:05d}-of-{len(groups):05d}.safetensors" for n in range(len(groups))]
    if len(groups) == 1:
        names = ["model.safetensors"]
    for name, keys in zip(names, groups, strict=True):
        _save(folder / name, {key: weights[key] for key in keys}, dtype)
    if len(groups) > 1:
        width = {"float32": 4, "bfloat16": 2, "float16": 2}[dtype]
        shard = {key: name for name, keys in zip(names, groups, strict=True) for key in keys}
        index = {
            "metadata": {"total_size": width * sum(weight.size for weight in weights.values())},
            "weight_map": dict(sorted(shard.items())),
        }
        _write_json(folder / "model.safetensors.index.json", index)


def _save(path: Path, tensors: Mapping[str, Array], dtype: str) -> None:
    if dtype == "bfloat16":  # NumPy has no bfloat16
        import torch
        from safetensors.torch import save_file as save_torch

        save_torch({key: torch.from_numpy(x).bfloat16() for key, x in tensors.items()}, path, {"format": "pt"})
    else:
        save_file({key: x.astype(dtype) for key, x in tensors.items()}, path, {"format": "pt"})


def write_checkpoint(
    folder: str | Path,
    family: Family = "llada",
    seed: int = 0,
    dtype: str = "float32",
    shards: bool = True,
    *,
    scale: float = 1.0,
    **config: Any,
) -> Path:
    """A random checkpoint in the family's published layout.

    `config` takes the sizes of `checkpoint_config` (dim, layers, heads, kv_heads, mlp, rows) and any field of
    config.json by its own name. Shapes follow the resulting config.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    fields = checkpoint_config(family, **config)
    if family == "dream" and "torch_dtype" not in config:
        fields["torch_dtype"] = dtype
    weights = random_weights(fields, seed, scale)
    write_weights(folder, weights, shard_groups(fields) if shards else [list(weights)], dtype)
    _write_json(folder / "config.json", fields)
    _write_json(folder / "generation_config.json", generation_config(family))
    write_tokenizer(folder, small_vocabulary(family))
    return folder


def generation_config(family: Family) -> dict[str, Any]:
    """LLaDA's holds two ids. Dream's has a null mask id, so that it must be taken from config.json."""
    added = small_vocabulary(family).added
    if family == "llada":
        return {"bos_token_id": added["<|startoftext|>"], "eos_token_id": added["<|endoftext|>"]}
    return {
        "alg": "origin",
        "alg_temp": None,
        "bos_token_id": added["<|endoftext|>"],
        "eos_token_id": added["<|endoftext|>"],
        "eps": 0.001,
        "mask_token_id": None,
        "pad_token_id": added["<|endoftext|>"],
        "steps": 512,
        "temperature": 0.0,
        "top_k": None,
        "top_p": None,
    }


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
