"""What several test files need: hand-made views, a driver for `select`, and networks that are pure functions."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import GeneratorType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import checkpoints
import unmask
from reference import backbone as literal_backbone
from reference import loop as literal_loop
from unmask import forward
from unmask.decoders.base import Attention, Commit, Decoder, Explore, Lens, StepView
from unmask.lens import Readout
from unmask.models import Model
from unmask.models.spec import DREAM, LLADA, ModelSpec
from unmask.statistics import Choosable

# --- the literal twin of a small checkpoint -------------------------------------------------------------------


class ExactModel(literal_loop.Model):
    """The reference model in float64."""

    def run(self, canvas: Sequence[int]) -> tuple[np.ndarray, list[np.ndarray]]:
        ids = np.asarray(canvas)[None]
        logits, hidden = literal_backbone.forward(self.config, self.weights, ids, dtype=np.float64)
        return logits[0], [h[0] for h in hidden]

    def _view(self, canvas: Sequence[int]) -> literal_loop.View:
        logits, hidden = self.run(canvas)
        shift = literal_loop.align if self.config["model_type"] == "Dream" else np.asarray
        rows = shift(logits)
        statistics = literal_loop.statistics_rows(rows, self.forbidden)
        return literal_loop.View(rows, [shift(h) for h in hidden], *statistics)


def literal_model(family: Any, *, seed: int = 0, scale: float = 1.0, **config: Any) -> ExactModel:
    fields = checkpoints.checkpoint_config(family, **config)
    top = max(checkpoints.small_vocabulary(family).added.values())
    forbidden = [fields["mask_token_id"], *range(top + 1, fields.get("embedding_size", fields["vocab_size"]))]
    return ExactModel(fields, checkpoints.random_weights(fields, seed, scale), forbidden)


# --- hand-made views ------------------------------------------------------------------------------------------


def view(
    c: Sequence[float],
    H: Sequence[float] | None = None,
    *,
    length: int | None = None,
    remaining: int | None = None,
    start: int = 0,
    logits: Any = None,
    mask_id: int = -1,
    **fields: Any,
) -> StepView:
    """A view of the masks `start`, `start + 1`, ... with these confidences and entropies; y is 100, 101, ..."""
    n = len(c)
    z = None if logits is None else torch.as_tensor(np.asarray(logits, dtype=np.float64))
    choosable = None if z is None else Choosable(mask_id % z.shape[1], z.shape[1])
    made = StepView(
        positions=np.arange(start, start + n),
        token=np.arange(100, 100 + n),
        confidence=np.asarray(c, dtype=np.float64),
        entropy=np.zeros(n) if H is None else np.asarray(H, dtype=np.float64),
        step=0,
        length=length or start + n,
        remaining=n if remaining is None else remaining,
        logits=z,
        choosable=choosable,
    )
    return replace(made, **fields)


def run_select(
    decoder: Decoder,
    seen: StepView,
    *,
    stable: Sequence[bool] | None = None,
    attention: Any = None,
    futures: Callable[[Sequence[np.ndarray]], list[StepView]] | None = None,
) -> tuple[Commit, list[Any]]:
    """A decoder's commit on one view, with the answers to whatever it asks for; and what it asked for."""
    answer = decoder.select(seen)
    if not isinstance(answer, GeneratorType):
        return answer, []
    asked: list[Any] = []
    reply = None
    while True:
        try:
            request = answer.send(reply)
        except StopIteration as finished:
            return finished.value, asked
        asked.append(request)
        if isinstance(request, Lens):
            assert stable is not None, "this view has no layers"
            reply = readout(np.asarray(stable)[request.indices])
        elif isinstance(request, Attention):
            reply = np.asarray(attention, dtype=np.float64)
        else:
            assert isinstance(request, Explore) and futures is not None
            reply = futures(request.proposals)


def readout(stable: np.ndarray) -> Readout:
    n = len(stable)
    return Readout(np.ones(n, dtype=np.int64), np.zeros(n), np.ones(n), stable, np.zeros(n, dtype=bool), n)


def chosen(decoder: Decoder, seen: StepView, **answers: Any) -> list[int]:
    """The positions a decoder commits on one view."""
    commit, _ = run_select(decoder, seen, **answers)
    assert all((verdict != "") for verdict in commit.verdict)
    return seen.positions[commit.take].tolist()


def resolved(decoder: Decoder, family: str = "llada", length: int = 32) -> Decoder:
    return decoder.resolve(tiny_spec(family), length)


def tiny_spec(family: str = "llada", **fields: Any) -> ModelSpec:
    base = ModelSpec(
        family=LLADA if family == "llada" else DREAM,
        width=8, layers=6, heads=2, kv_heads=2, mlp_width=8, rows=16, norm_eps=1e-5, rope_theta=1e4, context=512,
        mask_id=13, eos_id=14, pad_id=14, qkv_bias=False, rope_full_precision=True,
    )  # fmt: skip
    return replace(base, **fields)


# --- networks that are pure functions of what a row can see ---------------------------------------------------


class HashNet:
    """A backbone whose logits at every layer are random, but fixed by the seed and the row's own ids.

    Its residual states *are* logits. Any canvas is answered with an unrelated distribution, so that a decoder
    meets every situation. `favourite` is made the most probable id wherever it is given."""

    def __init__(
        self, spec: ModelSpec, seed: int = 0, sharpness: float = 4.0, favourite: int | None = None, layers_agree=0.8
    ) -> None:
        self.spec, self.seed, self.sharpness, self.favourite = spec, seed, sharpness, favourite
        self.agree = layers_agree
        self.device, self.dtype = torch.device("cpu"), torch.float32

    def rng(self, ids: np.ndarray, salt: int = 0) -> np.random.Generator:
        return np.random.default_rng([self.seed, salt, zlib.crc32(np.ascontiguousarray(ids).tobytes())])

    def states(self, ids: torch.Tensor, attention_mask: torch.Tensor | None = None, keep_from: int = 0) -> list[Any]:
        batch, width = ids.shape
        layers, rows = self.spec.layers, self.spec.rows
        z = np.zeros((layers + 1, batch, width, rows), dtype=np.float32)
        for b in range(batch):
            own = ids[b].numpy() if attention_mask is None else ids[b, attention_mask[b].bool()].numpy()
            rng = self.rng(own)
            last = rng.normal(0, self.sharpness, (len(own), rows))
            for layer in range(layers + 1):
                fresh = rng.normal(0, self.sharpness, last.shape)
                share = self.agree ** (layers - layer)
                z[layer, b, : len(own)] = share * last + (1 - share) * fresh
        if self.favourite is not None:
            z[-1, ..., self.favourite] = z[-1].max(axis=-1) + 2.0
        kept = [torch.from_numpy(state) if i >= keep_from else None for i, state in enumerate(z)]
        return kept

    def readout(self, states: torch.Tensor) -> torch.Tensor:
        return states

    def attention_maps(self, hidden: Any, attention_mask: torch.Tensor | None, layers: Sequence[int]) -> torch.Tensor:
        first = hidden[layers[0]]
        batch, width, _ = first.shape
        out = np.zeros((batch, width, width), dtype=np.float32)
        for b in range(batch):
            n = width if attention_mask is None else int(attention_mask[b].sum())
            rng = self.rng(first[b, :n].numpy().round(4), salt=1)
            out[b, :n, :n] = rng.dirichlet(np.full(n, 0.3), n)
        return torch.from_numpy(out)


def stub_tokenizer(spec: ModelSpec, highest_id: int | None = None) -> Any:
    """As much of a tokenizer as the loop needs: ids are their own text."""
    top = spec.rows - 1 if highest_id is None else highest_id

    def cut(ids: Sequence[int]) -> list[int]:
        return list(ids[: next((i for i, token in enumerate(ids) if token == spec.eos_id), len(ids))])

    return SimpleNamespace(
        highest_id=top,
        stop_ids=frozenset({spec.eos_id}),
        encode=lambda text: [int(word) for word in text.split()],
        encode_chat=lambda messages: [int(word) for m in messages for word in m["content"].split()],
        decode=lambda ids: " ".join(map(str, ids)),
        piece=lambda token: f"<{token}>",
        cut=cut,
    )


def hash_model(family: str = "llada", seed: int = 0, *, highest_id: int | None = None, **net: Any) -> Model:
    spec = tiny_spec(family)
    return Model("hash", HashNet(spec, seed, **net), stub_tokenizer(spec, highest_id))


# --- whole decodes --------------------------------------------------------------------------------------------


def decode(model: Model, prompt: Any, decoder: Any, **options: Any) -> unmask.Generation:
    out = unmask.generate(model, prompt, decoder, **options)
    assert not isinstance(out, list)
    return out


def commits(out: unmask.Generation) -> list[dict[int, int]]:
    """Position -> token, per step."""
    return [{position: token for position, token, _ in step.commits()} for step in out.trace.steps]


# Options with which every decoder meets its interesting branches on the small models: blocks that divide the
# canvas, and stability thresholds that six layers can reach.
CANVAS = 32
LENIENT = {"first_layer": 2, "theta_s": 1.5, "w": 4.0}
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "llada-default": {"block_length": 16, "steps": 16},
    "dream-default": {"steps": 16},
    "left-to-right": {},
    "fast-dllm": {"block_length": 16},
    "eb-sampler": {"block_length": 16, "gamma": 0.5},
    "lopa": {"block_length": 16},
    "dapd": {"block_length": 16},
    "rpd": LENIENT,
    "rpd-block": {**LENIENT, "block_length": 16},
    "rpd-paper": {},
    "confidence": {},
    "confidence+block": {"block_length": 16},
    "confidence+pp": {**LENIENT, "w": 0.0, "block_length": 16},
    "confidence+ce": {},
}


def rows_per_call(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the number of rows at every backbone call."""
    rows, batch_states = [], forward.batch_states

    def counted(net: Any, ids: torch.Tensor, *args: Any) -> Any:
        rows.append(len(ids))
        return batch_states(net, ids, *args)

    monkeypatch.setattr(forward, "batch_states", counted)
    return rows
