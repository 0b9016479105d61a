"""Masked states of gold traces, each evaluated with one forward pass (paper, "Prediction and scoring").

    check_digits(model)                            every digit is one token, or a UserError
    encoded = encode(model, trace)                 tokens, and the canvas position of every digit character
    for seen in observe(model, encoded, patterns): one Observation per pattern, in order
        seen.entropy                               H of each hidden upstream digit (nats); .E is their sum
        seen.token, seen.gold, seen.confidence     of each target digit; .answered: all of them right
        seen.persistence(first), seen.drop(first)  K and r of each target digit for the window first..L

Memory does not grow with the number of states: they are made, evaluated and handed out a batch at a time. All
states of a trace are equally long, so a batch has no padding. Probabilities are the model's own: no temperature,
no noise, no truncation. Alignment (Dream) is `Forward`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from unmask.api import encode_prompt
from unmask.canvas import Canvas
from unmask.diagnostics.masking import Pattern
from unmask.diagnostics.traces import GoldTrace
from unmask.errors import UserError
from unmask.forward import SCORED_ROWS, Forward
from unmask.statistics import trajectory

if TYPE_CHECKING:
    from unmask.models import Model
    from unmask.models.tokenizer import Tokenizer

BATCH = 16
SHORTEST_WINDOW = 3  # layers: with fewer, persistence has next to nothing to count


@dataclass(frozen=True)
class Encoded:
    """A trace as tokens. `at` maps the character index of every digit to its canvas position."""

    trace: GoldTrace
    prompt_ids: list[int]
    ids: np.ndarray  # canvas tokens
    at: dict[int, int]
    room: int = 0  # masks behind the target

    def positions(self, characters: Sequence[int]) -> np.ndarray:
        return np.array([self.at[character] for character in characters], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.ids) + self.room


@dataclass(frozen=True)
class Observation:
    """What one forward says of one masked state."""

    entropy: np.ndarray  # (m,) nats
    gold: np.ndarray  # (T,) target tokens
    token: np.ndarray  # (T,) final-layer argmax
    confidence: np.ndarray  # (T,) its probability
    suffix: tuple[np.ndarray, ...]  # per target: p(token) at layers L, L-1, ... down to the last that agrees

    @property
    def E(self) -> float:
        """Cumulative entropy over the hidden upstream digits (paper Eq. 1)."""
        return float(self.entropy.sum())

    @property
    def answered(self) -> bool:
        return bool((self.token == self.gold).all())

    def persistence(self, window: int) -> np.ndarray:
        """K (Eq. 2) in a window of the last `window` layers."""
        return np.array([min(len(p), window) for p in self.suffix])

    def drop(self, window: int) -> np.ndarray:
        """r (Eq. 3) in a window of the last `window` layers."""
        return np.array([p[:window].max() - p[0] for p in self.suffix])


def first_layer(layers: int) -> int:
    """ℓ0 of the analysis: the final half of the stack, 1-based (17 of 32, 15 of 28)."""
    return layers // 2 + 1


def window(model: Model, first: int | None = None, hint: bool = False) -> int:
    """How many layers the analysis sees, the final one included. `hint`: the user can choose the first."""
    layers = model.spec.layers
    first = first_layer(layers) if first is None else first
    if not 1 <= first <= layers:
        raise UserError(f"--first-layer {first} is not a layer of {model.name}, which has {layers}")
    highest = layers - SHORTEST_WINDOW + 1
    if first > highest:
        raise UserError(
            f"{model.name} has {layers} layers, of which the analysis would see {layers - first + 1}: persistence "
            f"needs at least {SHORTEST_WINDOW}"
            + (f"; use --first-layer {highest} or lower" if hint and highest > 1 else "")
        )
    return layers - first + 1


# --- tokens -----------------------------------------------------------------------------------------------------


def check_digits(tokenizer: Tokenizer, name: str) -> dict[str, int]:
    """The token of each digit; a UserError where a digit has none of its own."""
    tokens: dict[str, int] = {}
    for digit in "0123456789":
        ids = tokenizer.encode(digit)
        if len(ids) != 1 or ids[0] == tokenizer.unk_id or tokenizer.decode(ids) != digit:
            raise UserError(
                f"the tokenizer of {name} writes the digit {digit} as {len(ids)} tokens ({ids}), not as one of its "
                "own: masking digit by digit needs one token per digit, so use a model that has it (LLaDA, Dream)"
            )
        tokens[digit] = ids[0]
    if len(set(tokens.values())) < len(tokens):
        raise UserError(f"the tokenizer of {name} gives several digits one token: use a model that tells them apart")
    return tokens


def encode(model: Model, trace: GoldTrace, raw: bool = False, canvas: int | None = None) -> Encoded:
    """Explicit digit tokenisation: runs between digits are encoded apart, every digit is a token of its own.

    The question is the user turn (`raw`: plain text and a line end), the trace the canvas. Nothing follows a trace
    that ends with its target, as in the paper; a response that goes on is closed by an end-of-text token. With
    `canvas`, what follows the target is masks up to that length instead, as while decoding."""
    tokens = check_digits(model.tokenizer, model.name)
    ids: list[int] = []
    at: dict[int, int] = {}
    stop = max(trace.target) + 1
    text = trace.text if canvas is None else trace.text[:stop]
    for part in re.finditer(r"[0-9]|[^0-9]+", text):
        if part.group() in tokens:
            at[part.start()] = len(ids)
            ids.append(tokens[part.group()])
        else:
            ids += model.tokenizer.encode(part.group())
    if stop < len(text):
        ids.append(model.spec.eos_id)
    question = f"{trace.question}\n" if raw else trace.question
    room = max(0, (canvas or 0) - len(ids))
    encoded = Encoded(trace, encode_prompt(model, question, raw), np.array(ids, dtype=np.int64), at, room)
    last, first = max(trace.upstream), min(trace.target)
    if encoded.at[last] >= encoded.at[first]:
        raise ValueError("an upstream digit does not precede the target")
    return encoded


def fits(model: Model, encoded: Encoded) -> bool:
    return len(encoded) <= model.spec.context


# --- evaluation -------------------------------------------------------------------------------------------------


def observe(
    model: Model, encoded: Encoded, patterns: Sequence[Pattern], *, batch_size: int = BATCH, lowest: int = 1
) -> Iterator[Observation]:
    """One Observation per pattern (characters of the trace). Layers below `lowest` are not read."""
    target = encoded.positions(encoded.trace.target)
    ending = encoded.positions([at for at in encoded.trace.ending if at in encoded.at])
    full = Canvas(encoded.prompt_ids, len(encoded.ids) + encoded.room, model.spec.mask_id)
    full.commit(np.arange(len(encoded.ids)), encoded.ids)
    for start in range(0, len(patterns), batch_size):
        hidden = [encoded.positions(pattern) for pattern in patterns[start : start + batch_size]]
        states = [masked(full, [*positions, *target, *ending]) for positions in hidden]
        yield from observe_batch(model, states, hidden, target, encoded, lowest)


def masked(full: Canvas, positions: Sequence[int]) -> Canvas:
    canvas = full.copy()
    canvas.ids[canvas.prompt_length + np.asarray(positions)] = canvas.mask_id
    canvas.masked[np.asarray(positions)] = True
    return canvas


def observe_batch(
    model: Model,
    canvases: Sequence[Canvas],
    hidden: Sequence[np.ndarray],
    target: np.ndarray,
    encoded: Encoded,
    lowest: int,
) -> Iterator[Observation]:
    forward = Forward(model, canvases, keep_from=lowest)
    wanted = [(row, np.concatenate((positions, target))) for row, positions in enumerate(hidden)]
    tables = forward.score(wanted, model.choosable, torch.float32)
    if not all(np.isfinite(table).all() for table in tables):
        raise UserError(f"{model.name} gives non-finite logits on {encoded.trace.id}: try another --dtype")
    split = [(table[:, : len(h)], table[:, len(h) :]) for table, h in zip(tables, hidden, strict=True)]
    slots = np.concatenate([forward.slots(row, target) for row in range(len(canvases))])
    token = np.concatenate([answer[0] for _, answer in split]).astype(np.int64)
    confidence = np.concatenate([answer[1] for _, answer in split])
    suffix = suffixes(forward, slots, token, confidence, lowest)
    for row, (upstream, answer) in enumerate(split):
        part = slice(row * len(target), (row + 1) * len(target))
        yield Observation(upstream[2], encoded.ids[target], token[part], answer[1], tuple(suffix[part]))


def suffixes(
    forward: Forward, slots: np.ndarray, token: np.ndarray, confidence: np.ndarray, lowest: int
) -> list[np.ndarray]:
    """Per slot: probabilities of its token from layer L down to the last layer of the agreeing suffix."""
    n, layers = len(slots), np.arange(forward.layers - 1, lowest - 1, -1)
    agrees, p = np.zeros((n, len(layers)), dtype=bool), np.zeros((n, len(layers)))
    depth = max(1, SCORED_ROWS // n)
    tokens = torch.from_numpy(token).to(forward.net.device)
    with torch.inference_mode():
        for start in range(0, len(layers), depth):  # as many layers per head product as SCORED_ROWS allows
            chosen = layers[start : start + depth]
            logits = forward.net.readout(torch.cat([forward.states(int(layer), slots) for layer in chosen]))
            argmax, probability = trajectory(logits, tokens.repeat(len(chosen)))
            shape, part = (len(chosen), n), slice(start, start + len(chosen))
            agrees[:, part] = (argmax.view(shape) == tokens).T.cpu().numpy()
            p[:, part] = probability.double().view(shape).T.cpu().numpy()
    length = np.cumprod(agrees, axis=1).sum(axis=1)
    return [np.concatenate(([confidence[i]], np.minimum(p[i, : length[i]], 1.0))) for i in range(n)]
