"""The two families: what their checkpoints call things, what they switch on, and which config entries mean nothing.

Data only. What differs between LLaDA and Dream is here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

# Entries of the published configs that never change what the forward pass computes.
PUBLISHED = frozenset({
    "alibi_bias_max", "attention_dropout", "attention_layer_norm_with_affine", "embedding_dropout", "flash_attention",
    "init_cutoff_factor", "init_device", "init_fn", "init_std", "initializer_range", "max_window_layers", "mlp_ratio",
    "precision", "residual_dropout", "sliding_window", "use_cache",
})  # fmt: skip
# What transformers writes into any config: where the model came from, and how its own generate() would sample.
GENERIC = frozenset({
    "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal", "_commit_hash",
    "_name_or_path", "add_cross_attention", "architectures", "attn_implementation", "auto_map", "bad_words_ids",
    "begin_suppress_tokens", "bos_token_id", "chunk_size_feed_forward", "cross_attention_hidden_size",
    "decoder_start_token_id", "diversity_penalty", "do_sample", "dtype", "early_stopping",
    "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id",
    "forced_eos_token_id", "id2label", "is_decoder", "is_encoder_decoder", "label2id", "length_penalty",
    "max_length", "min_length", "model_type", "name_or_path", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_scores", "prefix", "problem_type",
    "pruned_heads", "remove_invalid_values", "repetition_penalty", "return_dict", "return_dict_in_generate",
    "sep_token_id", "suppress_tokens", "task_specific_params", "temperature", "tf_legacy_loss",
    "tie_encoder_decoder", "tokenizer_class", "top_k", "top_p", "torch_dtype", "torchscript", "transformers_version",
    "typical_p", "unsloth_fixed", "unsloth_version", "use_bfloat16",
})  # fmt: skip
HARMLESS = PUBLISHED | GENERIC
# transformers' names for the sizes: LLaDA's config may repeat its own under them, but not say something else.
TWINS = MappingProxyType({
    "hidden_size": "width", "num_hidden_layers": "layers", "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads", "intermediate_size": "mlp_width", "max_position_embeddings": "context",
})  # fmt: skip


@dataclass(frozen=True)
class Family:
    """What all checkpoints of one family share."""

    name: str
    model_type: str
    dims: Mapping[str, str]  # our name -> config.json key
    switches: Mapping[str, tuple[Any, ...]]  # config.json key -> the only values this backbone computes
    keys: Mapping[str, str]  # our parameter -> checkpoint key; {i} is the block
    shift_logits: bool  # row t-1 of the raw logits scores the token at t
    qkv_bias: bool
    rope_full_precision: bool
    stop_tokens: tuple[str, ...]  # looked up in the tokenizer; an answer ends at the first of them
    chat_template: str  # used only where a checkpoint ships none
    chat_tokens: tuple[str, ...]  # what a template may mark turns with; a base model's tokenizer may lack them
    context_cap: int | None  # what the authors state, where config.json promises more
    default_decoder: str
    rpd: Mapping[str, float]  # theta_s and w: the paper's two model-specific hyper-parameters


LLADA = Family(
    name="llada",
    model_type="llada",
    dims=MappingProxyType({
        "width": "d_model", "layers": "n_layers", "heads": "n_heads", "kv_heads": "n_kv_heads",
        "mlp_width": "mlp_hidden_size", "rows": "embedding_size", "norm_eps": "rms_norm_eps",
        "rope_theta": "rope_theta", "context": "max_sequence_length", "mask_id": "mask_token_id",
        "eos_id": "eos_token_id", "pad_id": "pad_token_id",
    }),
    switches=MappingProxyType({
        "block_type": ("llama",), "activation_type": ("silu",), "layer_norm_type": ("rms",), "rope": (True,),
        "layer_norm_with_affine": (True,), "weight_tying": (False,), "include_bias": (False, None),
        "bias_for_layer_norm": (False, None), "alibi": (False,), "attention_layer_norm": (False,),
        "scale_logits": (False,), "input_emb_norm": (False,), "block_group_size": (1,), "clip_qkv": (None,),
        "multi_query_attention": (None, False), "rope_scaling": (None,),
    }),
    keys=MappingProxyType({
        "embed.weight": "model.transformer.wte.weight",
        "norm.weight": "model.transformer.ln_f.weight",
        "head.weight": "model.transformer.ff_out.weight",
        "attn_norm.weight": "model.transformer.blocks.{i}.attn_norm.weight",
        "q": "model.transformer.blocks.{i}.q_proj",
        "k": "model.transformer.blocks.{i}.k_proj",
        "v": "model.transformer.blocks.{i}.v_proj",
        "out.weight": "model.transformer.blocks.{i}.attn_out.weight",
        "mlp_norm.weight": "model.transformer.blocks.{i}.ff_norm.weight",
        "gate.weight": "model.transformer.blocks.{i}.ff_proj.weight",
        "up.weight": "model.transformer.blocks.{i}.up_proj.weight",
        "down.weight": "model.transformer.blocks.{i}.ff_out.weight",
    }),
    shift_logits=False,
    qkv_bias=False,
    rope_full_precision=True,
    stop_tokens=("<|endoftext|>", "<|eot_id|>"),
    chat_template=(
        "{% for m in messages %}{{ '<|startoftext|>' if loop.first else '' }}<|start_header_id|>{{ m['role'] }}"
        "<|end_header_id|>\n\n{{ m['content'] | trim }}<|eot_id|>{% endfor %}"
        "<|start_header_id|>assistant<|end_header_id|>{{ '\n\n' }}"  # quoted: a template loses its last line end
    ),
    chat_tokens=("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    context_cap=None,
    default_decoder="llada-default",
    rpd=MappingProxyType({"theta_s": 3.5, "w": 15.0}),
)  # fmt: skip

DREAM = Family(
    name="dream",
    model_type="Dream",
    dims=MappingProxyType({
        "width": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads",
        "kv_heads": "num_key_value_heads", "mlp_width": "intermediate_size", "rows": "vocab_size",
        "norm_eps": "rms_norm_eps", "rope_theta": "rope_theta", "context": "max_position_embeddings",
        "mask_id": "mask_token_id", "eos_id": "eos_token_id", "pad_id": "pad_token_id",
    }),
    switches=MappingProxyType({
        "hidden_act": ("silu",), "tie_word_embeddings": (False,), "use_sliding_window": (False,),
        "use_mrope": (False,), "rope_scaling": (None,), "attention_bias": (True, None), "mlp_bias": (False, None),
    }),
    keys=MappingProxyType({
        "embed.weight": "model.embed_tokens.weight",
        "norm.weight": "model.norm.weight",
        "head.weight": "lm_head.weight",
        "attn_norm.weight": "model.layers.{i}.input_layernorm.weight",
        "q": "model.layers.{i}.self_attn.q_proj",
        "k": "model.layers.{i}.self_attn.k_proj",
        "v": "model.layers.{i}.self_attn.v_proj",
        "out.weight": "model.layers.{i}.self_attn.o_proj.weight",
        "mlp_norm.weight": "model.layers.{i}.post_attention_layernorm.weight",
        "gate.weight": "model.layers.{i}.mlp.gate_proj.weight",
        "up.weight": "model.layers.{i}.mlp.up_proj.weight",
        "down.weight": "model.layers.{i}.mlp.down_proj.weight",
    }),
    shift_logits=True,
    qkv_bias=True,
    rope_full_precision=False,
    stop_tokens=("<|endoftext|>", "<|im_end|>", "<|dlm_pad|>"),
    chat_template=(
        "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        "{% endif %}{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    chat_tokens=("<|im_start|>", "<|im_end|>"),
    context_cap=2048,
    default_decoder="dream-default",
    rpd=MappingProxyType({"theta_s": 2.5, "w": 20.0}),
)  # fmt: skip

FAMILIES = {family.model_type: family for family in (LLADA, DREAM)}
