"""The adapter for models loaded with transformers, against a stand-in with the published module names.

The stand-in keeps the published conventions that make wrapping error-prone: its last hidden state is already
normalised, raw logits are unshifted, and each family takes its attention mask in its own form.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import unmask
from checkpoints import write_checkpoint
from unmask.errors import UserError
from unmask.models import hf
from unmask.models.backbone import rotate


class StandIn(nn.Module):
    """Published module names around a loaded backbone's weights, with its own forward."""

    def __init__(self, net, config: dict) -> None:
        super().__init__()
        self.net_spec, self.rotary = net.spec, net.rotary
        self.config = SimpleNamespace(to_dict=lambda: dict(config), _name_or_path="stand-in")
        spec, kv = net.spec, net.spec.kv_heads * net.spec.head_dim
        for key, module in (("embed.weight", net.embed), ("norm.weight", net.norm), ("head.weight", net.head)):
            self.put(key, 0, module)
        for i, block in enumerate(net.blocks):
            for key in ("attn_norm.weight", "mlp_norm.weight", "out.weight", "down.weight"):
                self.put(key, i, block.get_submodule(key.removesuffix(".weight")))
            for key, start, rows in (("q", 0, spec.width), ("k", spec.width, kv), ("v", spec.width + kv, kv)):
                self.put(key, i, cut(block.qkv, start, rows))
            for key, start in (("gate.weight", 0), ("up.weight", spec.mlp_width)):
                self.put(key, i, cut(block.gate_up, start, spec.mlp_width))

    def put(self, key: str, layer: int, module: nn.Module) -> None:
        path = self.net_spec.family.keys[key].format(i=layer).removesuffix(".weight").split(".")
        parent: nn.Module = self
        for name in path[:-1]:
            if name not in parent._modules:
                parent.add_module(name, nn.Module())
            parent = parent._modules[name]
        parent.add_module(path[-1], module)

    def at(self, key: str, layer: int = 0) -> nn.Module:
        return self.get_submodule(self.net_spec.family.keys[key].format(i=layer).removesuffix(".weight"))

    def forward(self, input_ids, attention_mask=None, output_hidden_states=False, use_cache=None):
        spec = self.net_spec
        bias = None
        if attention_mask is not None:
            dream = spec.shift_logits
            assert attention_mask.ndim == (4 if dream else 2), "each family takes its own form of mask"
            keep = attention_mask if dream else attention_mask.bool()[:, None, None, :]
            assert keep.dtype == torch.bool
            bias = torch.zeros(keep.shape).masked_fill(~keep, torch.finfo(torch.float32).min)
        cos, sin = self.rotary.tables(torch.arange(input_ids.shape[1])[None], torch.float32)
        x = self.at("embed.weight")(input_ids)
        states = [x]
        for i in range(spec.layers):
            h = self.at("attn_norm.weight", i)(x)
            q, k, v = (
                self.at(n, i)(h).view(*h.shape[:2], -1, spec.head_dim).transpose(1, 2) for n in ("q", "k", "v")
            )
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=True)
            x = x + self.at("out.weight", i)(mixed.transpose(1, 2).flatten(2))
            h = self.at("mlp_norm.weight", i)(x)
            gated = nn.functional.silu(self.at("gate.weight", i)(h)) * self.at("up.weight", i)(h)
            x = x + self.at("down.weight", i)(gated)
            states.append(x)
        states[-1] = self.at("norm.weight")(x)  # the published convention
        return SimpleNamespace(logits=self.at("head.weight")(states[-1]), hidden_states=tuple(states))


def cut(linear: nn.Linear, start: int, rows: int) -> nn.Linear:
    part = nn.Linear(linear.in_features, rows, bias=linear.bias is not None)
    part.weight = nn.Parameter(linear.weight[start : start + rows].clone())
    if linear.bias is not None:
        part.bias = nn.Parameter(linear.bias[start : start + rows].clone())
    return part


@pytest.fixture(scope="module", params=["llada", "dream"])
def pair(request, tmp_path_factory):
    """The same random weights loaded by us, and wrapped as a transformers-style model."""
    import json

    folder = write_checkpoint(tmp_path_factory.mktemp("hf"), request.param, layers=6)
    ours = unmask.load(folder)
    config = json.loads((folder / "config.json").read_text())
    return ours, hf.wrap(StandIn(ours.net, config), folder), config


def test_states_and_logits_agree(pair):
    ours, wrapped, _ = pair
    ids = torch.randint(0, 200, (3, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        a, b = ours.net(ids), wrapped.net(ids)
    assert torch.allclose(a.logits, b.logits, atol=1e-4)
    for ours_state, theirs in zip(a.hidden, b.hidden, strict=True):
        assert torch.allclose(ours_state, theirs, atol=1e-4)


@pytest.mark.parametrize("padding", [slice(0, 4), slice(9, 12)])
def test_a_padded_row_is_the_row_alone(pair, padding):
    ours, wrapped, _ = pair
    ids = torch.randint(0, 200, (3, 12), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(3, 12, dtype=torch.long)
    mask[1, padding] = 0
    with torch.no_grad():
        together, others = wrapped.net(ids, mask), ours.net(ids)
        alone = ours.net(ids[1:2, mask[1].bool()])
    assert torch.allclose(together.logits[[0, 2]], others.logits[[0, 2]], atol=1e-4)
    assert torch.allclose(together.logits[1, mask[1].bool()], alone.logits[0], atol=1e-4)
    for state, expected in zip(together.hidden, alone.hidden, strict=True):
        assert torch.allclose(state[1, mask[1].bool()], expected[0], atol=1e-4)
        assert not state[1, padding].any()


@pytest.mark.parametrize("decoder", ["default", "fast-dllm", "rpd", "rpd-block", "lopa", "dapd"])
def test_decodes_alike(pair, decoder):
    ours, wrapped, _ = pair
    prompts = ["hello", "What is 12 + 13?"]
    a = unmask.generate(ours, prompts, decoder=decoder, canvas_length=32)
    b = unmask.generate(wrapped, prompts, decoder=decoder, canvas_length=32)
    assert [out.canvas for out in a] == [out.canvas for out in b]
    assert wrapped.name == "stand-in"


class Forgetful(StandIn):
    """Code that takes a mask and ignores it, as LLaDA's did before October 2025."""

    def forward(self, input_ids, attention_mask=None, output_hidden_states=False, use_cache=None):
        return super().forward(input_ids)


def test_a_batch_does_not_trust_the_models_mask(pair):
    ours, _, config = pair
    wrapped = hf.wrap(Forgetful(ours.net, config), ours.tokenizer)
    prompts = ["hello", "What is 12 + 13? Tell me now, please"]
    batch = unmask.generate(wrapped, prompts, "fast-dllm", canvas_length=32)
    for prompt, together in zip(prompts, batch, strict=True):
        alone = unmask.generate(wrapped, prompt, "fast-dllm", canvas_length=32)
        assert together.canvas == alone.canvas
        for a, b in zip(together.trace.steps, alone.trace.steps, strict=True):
            assert (a.confidence == b.confidence).all()
    holes = torch.tensor([[1, 0, 1], [1, 1, 1]])
    with pytest.raises(UserError, match="padding"):
        wrapped.net(torch.zeros_like(holes), holes)


def test_refusals_name_the_fix(pair):
    ours, _, config = pair
    odd = StandIn(ours.net, {**config, "model_type": "gpt2"})
    with pytest.raises(UserError, match="gpt2"):
        hf.wrap(odd, ours.tokenizer)
    switch = {"llada": ("alibi", True), "dream": ("use_sliding_window", True)}[ours.spec.family.name]
    with pytest.raises(UserError, match=switch[0]):
        hf.wrap(StandIn(ours.net, {**config, switch[0]: switch[1]}), ours.tokenizer)
    with pytest.raises(UserError, match="slow"):
        hf.wrap(StandIn(ours.net, config), object())
