"""What the published checkpoints look like: config fields, tensor names and shapes, shards.

Every field of the published `config.json` is present with its published value; only sizes and ids change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Family = Literal["llada", "dream"]
Config = dict[str, Any]


def llada_config(
    *, dim: int, layers: int, heads: int, kv_heads: int, mlp: int, rows: int, ids: Mapping[str, int]
) -> Config:
    """LLaDA-8B-Instruct's fields. There is no torch_dtype, and mlp_ratio is ignored by the model."""
    return {
        "activation_type": "silu",
        "alibi": False,
        "alibi_bias_max": 8.0,
        "architectures": ["LLaDAModelLM"],
        "attention_dropout": 0.0,
        "attention_layer_norm": False,
        "attention_layer_norm_with_affine": True,
        "auto_map": {
            "AutoConfig": "configuration_llada.LLaDAConfig",
            "AutoModelForCausalLM": "modeling_llada.LLaDAModelLM",
            "AutoModel": "modeling_llada.LLaDAModelLM",
        },
        "bias_for_layer_norm": False,
        "block_group_size": 1,
        "block_type": "llama",
        "d_model": dim,
        "embedding_dropout": 0.0,
        "embedding_size": rows,
        "eos_token_id": ids["eos"],
        "flash_attention": False,
        "include_bias": False,
        "include_qkv_bias": False,
        "init_cutoff_factor": None,
        "init_device": "meta",
        "init_fn": "mitchell",
        "init_std": 0.02,
        "input_emb_norm": False,
        "layer_norm_type": "rms",
        "layer_norm_with_affine": True,
        "mask_token_id": ids["mask"],
        "max_sequence_length": 4096,
        "mlp_hidden_size": mlp,
        "mlp_ratio": 4,
        "model_type": "llada",
        "multi_query_attention": None,
        "n_heads": heads,
        "n_kv_heads": kv_heads,
        "n_layers": layers,
        "pad_token_id": ids["pad"],
        "precision": "amp_bf16",
        "residual_dropout": 0.0,
        "rms_norm_eps": 1e-05,
        "rope": True,
        "rope_full_precision": True,
        "rope_theta": 500000.0,
        "scale_logits": False,
        "transformers_version": "4.46.3",
        "use_cache": False,
        "vocab_size": rows,
        "weight_tying": False,
    }


def dream_config(
    *, dim: int, layers: int, heads: int, kv_heads: int, mlp: int, rows: int, ids: Mapping[str, int]
) -> Config:
    """Dream-v0-Instruct-7B's fields. The config's bos is the end-of-text id; the tokenizer's is another."""
    return {
        "architectures": ["DreamModel"],
        "attention_dropout": 0.0,
        "auto_map": {
            "AutoConfig": "configuration_dream.DreamConfig",
            "AutoModel": "modeling_dream.DreamModel",
        },
        "bos_token_id": ids["eos"],
        "eos_token_id": ids["eos"],
        "hidden_act": "silu",
        "hidden_size": dim,
        "initializer_range": 0.02,
        "intermediate_size": mlp,
        "mask_token_id": ids["mask"],
        "max_position_embeddings": 131072,
        "max_window_layers": layers,
        "model_type": "Dream",
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": kv_heads,
        "pad_token_id": ids["pad"],
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000.0,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.46.2",
        "use_cache": True,
        "use_mrope": False,
        "use_sliding_window": False,
        "vocab_size": rows,
    }


def tensor_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Checkpoint key -> shape, in the order the model declares its tensors."""
    return _llada_shapes(config) if config["model_type"] == "llada" else _dream_shapes(config)


def _llada_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    dim, mlp, rows = config["d_model"], config["mlp_hidden_size"], config["embedding_size"]
    kv = dim // config["n_heads"] * config["n_kv_heads"]
    top = "model.transformer."
    shapes: dict[str, tuple[int, ...]] = {top + "wte.weight": (rows, dim)}
    for n in range(config["n_layers"]):
        block = f"{top}blocks.{n}."
        shapes |= {
            block + "attn_norm.weight": (dim,),
            block + "q_proj.weight": (dim, dim),
            block + "k_proj.weight": (kv, dim),
            block + "v_proj.weight": (kv, dim),
            block + "attn_out.weight": (dim, dim),
            block + "ff_norm.weight": (dim,),
            block + "ff_proj.weight": (mlp, dim),
            block + "up_proj.weight": (mlp, dim),
            block + "ff_out.weight": (dim, mlp),
        }
    return shapes | {top + "ln_f.weight": (dim,), top + "ff_out.weight": (rows, dim)}


def _dream_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    dim, mlp, rows = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = dim // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (rows, dim)}
    for n in range(config["num_hidden_layers"]):
        block = f"model.layers.{n}."
        shapes |= {
            block + "self_attn.q_proj.weight": (dim, dim),
            block + "self_attn.q_proj.bias": (dim,),
            block + "self_attn.k_proj.weight": (kv, dim),
            block + "self_attn.k_proj.bias": (kv,),
            block + "self_attn.v_proj.weight": (kv, dim),
            block + "self_attn.v_proj.bias": (kv,),
            block + "self_attn.o_proj.weight": (dim, dim),
            block + "mlp.gate_proj.weight": (mlp, dim),
            block + "mlp.up_proj.weight": (mlp, dim),
            block + "mlp.down_proj.weight": (dim, mlp),
            block + "input_layernorm.weight": (dim,),
            block + "post_attention_layernorm.weight": (dim,),
        }
    return shapes | {"model.norm.weight": (dim,), "lm_head.weight": (rows, dim)}


def shard_groups(config: Mapping[str, Any]) -> list[list[str]]:
    """The keys of each shard, in the published arrangement scaled to the number of layers."""
    keys = list(tensor_shapes(config))
    return _llada_shards(keys, config["n_layers"]) if config["model_type"] == "llada" else _dream_shards(keys)


def _llada_shards(keys: list[str], layers: int) -> list[list[str]]:
    """Six shards by tensor kind, so that every block spans several of them."""
    top = "model.transformer."

    def kind(name: str) -> list[str]:
        return [key for key in keys if key.startswith(top + "blocks.") and key.endswith(f".{name}.weight")]

    def split(name: str, first_of_32: int) -> tuple[list[str], list[str]]:
        found = kind(name)
        cut = round(layers * first_of_32 / 32)
        return found[:cut], found[cut:]

    down_first, down_rest = split("ff_out", 19)
    k_first, k_rest = split("k_proj", 18)
    gate_first, gate_rest = split("ff_proj", 14)
    up_first, up_rest = split("up_proj", 11)
    return [
        [top + "wte.weight", top + "ln_f.weight", *kind("attn_out")],
        [top + "ff_out.weight", *down_first],
        [*kind("attn_norm"), *kind("ff_norm"), *kind("q_proj"), *down_rest, *k_first],
        [*kind("v_proj"), *k_rest, *gate_first],
        [*gate_rest, *up_first],
        [*up_rest],
    ]


def _dream_shards(keys: list[str]) -> list[list[str]]:
    """Four shards in layer order; two layers straddle a boundary, and the last shard holds only the head."""
    body = [key for key in keys if key != "lm_head.weight"]
    layers = 1 + max(int(key.split(".")[2]) for key in body if key.startswith("model.layers."))
    # 8 and 18 of 28 layers; the cut falls between a layer's attention and its MLP
    cuts = [body.index(f"model.layers.{layers * n // 28}.mlp.gate_proj.weight") for n in (8, 18)]
    return [body[: cuts[0]], body[cuts[0] : cuts[1]], body[cuts[1] :], ["lm_head.weight"]]
