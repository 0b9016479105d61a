"""A model the user loaded with transformers, as a backbone of ours: `wrap(model, tokenizer, spec)`.

The user's own forward runs (quantised layers and adapters included); only its conventions are translated.
The published code normalises its last hidden state, so the raw output of the last block is caught on its
way into the final norm. transformers itself is never imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.errors import UserError
from unmask.models import Model
from unmask.models.backbone import Output, Rotary, key_bias, rotate
from unmask.models.spec import FAMILIES, ModelSpec, build_spec, refuse_unsupported
from unmask.models.tokenizer import Tokenizer, load_tokenizer, tokenizer_from


def wrap(model: Any, tokenizer: Any, spec: ModelSpec | None = None, *, name: str | None = None) -> Model:
    """`model`: a loaded LLaDA or Dream class; `tokenizer`: a checkpoint folder, a transformers tokenizer, or ours.
    `spec` is read from `model.config` unless given."""
    spec = spec or spec_of(model)
    name = name or str(getattr(getattr(model, "config", None), "_name_or_path", "") or type(model).__name__)
    return Model(name, Adapter(model, spec), as_tokenizer(tokenizer, spec))


def spec_of(model: Any) -> ModelSpec:
    config = getattr(model, "config", None)
    if config is None or not hasattr(config, "to_dict"):
        raise UserError("the model has no transformers config: pass spec=unmask.models.spec.read_spec(folder)")
    data = config.to_dict()
    family = FAMILIES.get(data.get("model_type"))
    if family is None:
        raise UserError(f"model_type {data.get('model_type')!r} is not supported; supported: {', '.join(FAMILIES)}")
    data = {key: value for key, value in data.items() if key in family.dims.values() or key in family.switches}
    where = Path("model.config")
    refuse_unsupported(data, family, where)
    return build_spec({**config.to_dict(), **data}, family, where, {})


def as_tokenizer(tokenizer: Any, spec: ModelSpec) -> Tokenizer:
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    if isinstance(tokenizer, str | Path):
        return load_tokenizer(Path(tokenizer), spec)
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is not None:
        return tokenizer_from(fast, {"chat_template": getattr(tokenizer, "chat_template", None),
                                     **getattr(tokenizer, "special_tokens_map", {})}, spec)  # fmt: skip
    raise UserError(
        "a slow (Python) tokenizer cannot be wrapped: pass the checkpoint folder instead, and unmask builds the "
        "same tokenizer from its vocab.json and merges.txt"
    )


class Adapter:
    """The five things the loop asks of a backbone, answered by a transformers module."""

    def __init__(self, model: Any, spec: ModelSpec) -> None:
        self.model, self.spec, self.rotary = model.eval(), spec, Rotary(spec)
        self.embed = self.part("embed.weight")
        self.norm, self.head = self.part("norm.weight"), self.part("head.weight")

    def part(self, key: str, layer: int = 0) -> Any:
        """The module behind one of our parameter names, found by the family's key map."""
        path = self.spec.family.keys[key].format(i=layer).removesuffix(".weight")
        try:
            return self.model.get_submodule(path)
        except AttributeError:
            raise UserError(f"the model has no module {path}: is it a {self.spec.family.name} model?") from None

    @property
    def device(self) -> torch.device:
        return self.embed.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embed.weight.dtype

    def __call__(self, ids: Tensor, attention_mask: Tensor | None = None) -> Output:
        hidden = self.states(ids, attention_mask)
        return Output(self.readout(hidden[-1]), hidden)

    def states(self, ids: Tensor, attention_mask: Tensor | None = None, keep_from: int = 0) -> list[Any]:
        """Rows of one length run together. Padded ones run one by one, without their padding: published code of
        LLaDA ignores its mask before October 2025, most forks do still, and none of it says so."""
        if attention_mask is None or bool(attention_mask.all()):
            return self.run(ids, keep_from)
        spans = [span(row) for row in attention_mask]
        parts = [self.run(ids[i : i + 1, where], keep_from) for i, where in enumerate(spans)]
        shape = (*ids.shape, self.spec.width)
        return [place(layer, spans, shape) for layer in zip(*parts, strict=True)]

    def run(self, ids: Tensor, keep_from: int) -> list[Any]:
        caught: list[Tensor] = []
        hook = self.norm.register_forward_pre_hook(lambda _module, inputs: caught.append(inputs[0]))
        try:
            out = self.model(input_ids=ids, attention_mask=None, output_hidden_states=True, use_cache=False)
        finally:
            hook.remove()
        if len(caught) != 1:
            raise UserError(f"the model ran its final norm {len(caught)} times in one forward; it cannot be wrapped")
        hidden = [*out.hidden_states[: self.spec.layers], caught[0]]
        return [state if layer >= keep_from else None for layer, state in enumerate(hidden)]

    def readout(self, states: Tensor) -> Tensor:
        return self.head(self.norm(states))

    def attention_maps(
        self, hidden: Mapping[int, Tensor], attention_mask: Tensor | None, layers: Sequence[int]
    ) -> Tensor:
        """As Backbone.attention_maps, from the user's own projections."""
        batch, length, _ = hidden[layers[0]].shape
        cos, sin = self.rotary.tables(torch.arange(length, device=self.device)[None], self.dtype)
        bias = key_bias(attention_mask, torch.float32)
        total = torch.zeros((batch, length, length), device=self.device)
        for layer in layers:
            x = self.part("attn_norm.weight", layer)(hidden[layer])
            q, k = (
                rotate(
                    self.part(name, layer)(x).view(batch, length, -1, self.spec.head_dim).transpose(1, 2), cos, sin
                )
                for name in ("q", "k")
            )
            k = k.repeat_interleave(self.spec.heads // self.spec.kv_heads, dim=1)
            scores = q.float() @ k.float().transpose(-1, -2) * self.spec.head_dim**-0.5
            total += torch.softmax(scores if bias is None else scores + bias, dim=-1).mean(dim=1)
        return total / len(layers)


def span(mask: Tensor) -> slice:
    """Where one row's tokens stand among its padding, which is on the left or on the right."""
    kept = mask.nonzero().flatten().tolist()
    if not kept or kept[-1] - kept[0] + 1 != len(kept):
        raise UserError("an attention mask may leave out padding before or behind a row's tokens, nothing else")
    return slice(kept[0], kept[-1] + 1)


def place(parts: Sequence[Any], spans: Sequence[slice], shape: tuple[int, ...]) -> Any:
    """(1, length, D) each -> (B, T, D), zero where there is padding; None where the layer was not kept."""
    if parts[0] is None:
        return None
    whole = parts[0].new_zeros(shape)
    for row, (part, where) in enumerate(zip(parts, spans, strict=True)):
        whole[row, where] = part[0]
    return whole
