"""What a decoder is: a frozen set of hyper-parameters and a `select`. It never touches the model.

`select(view)` looks at one row of one step and answers with a Commit. Most decoders return it at once. A
decoder that needs more than token, confidence and entropy *yields a request* and receives the answer:

    readout  = yield view.lens(indices, rule)     # layer readout of a few positions
    maps     = yield view.attention(fraction)     # pairwise attention between the view's positions
    branches = yield view.explore(proposals)      # one batched forward over hypothetical canvases

The loop gathers the requests of all rows and serves them together, so that a batch pays for one head
product or one forward where a row-by-row call would pay for many.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unmask.errors import UserError, unknown
from unmask.lens import StabilityRule

if TYPE_CHECKING:  # torch is imported only when a model is
    import torch

    from unmask.canvas import Canvas
    from unmask.models.spec import ModelSpec

# Why a position was committed ...
ROUTES = (
    "confidence",  # at or above the confidence threshold
    "stability",  # moderately confident and stable across the final layers
    "fallback",  # nothing qualified: the best single position
    "schedule",  # among the best k of a fixed schedule
    "chance",  # drawn by the schedule (Dream's `origin`)
    "budget",  # within an entropy budget over the committed set (EB-Sampler)
    "direct",  # so certain that dependencies do not matter (DAPD)
    "independent",  # in the independent set of the attention graph (DAPD)
    "branch",  # the token that made the winning lookahead branch (LoPA)
    "order",  # its turn in reading order
)
# ... or why it waits.
REASONS = (
    "unsure",  # confidence too low to be considered
    "unstable",  # moderately confident, but fails the stability test
    "upstream",  # a candidate, or blocked before the test: too much entropy upstream (E > beta)
    "rank",  # others ranked higher under the schedule or budget
    "conflict",  # depends on a position committed in the same step
    "turn",  # an earlier position comes first
)


@dataclass(frozen=True)
class Lens:
    """Request: K, r, S of some of the view's positions. Answered with a Readout in the same order."""

    indices: np.ndarray
    rule: StabilityRule
    lazy: bool = True


@dataclass(frozen=True)
class Attention:
    """Request: attention averaged over heads and the last layers. Answered with an (n, n) array."""

    skip: float  # fraction of the layers, from the bottom, that is left out


@dataclass(frozen=True)
class Explore:
    """Request: what the model would say after each of these commitments. Answered with a list of views."""

    proposals: tuple[np.ndarray, ...]  # view indices to be filled with the view's own tokens


Request = Lens | Attention | Explore


@dataclass
class StepView:
    """What a decoder sees of one row at one step. All arrays run over `positions`, left to right."""

    positions: np.ndarray  # masked canvas positions in scope
    token: np.ndarray  # y
    confidence: np.ndarray  # c, float64
    entropy: np.ndarray  # H in nats, float64
    step: int  # forward calls this row has taken part in before this one
    length: int  # canvas length G
    remaining: int  # masks on the whole canvas
    memory: dict[str, Any] = field(default_factory=dict)  # the decoder's own notes on this row
    logits: torch.Tensor | None = None  # (n, V), only for decoders with wants_logits
    choosable: Any = None  # which ids may be sampled
    rng: torch.Generator | None = None
    stop_ids: frozenset[int] = frozenset()
    eos_id: int = -1
    source: Any = None  # the forward pass behind the view; the loop's business

    def __len__(self) -> int:
        return len(self.positions)

    def lens(self, indices: np.ndarray, rule: StabilityRule, lazy: bool = True) -> Lens:
        return Lens(np.asarray(indices), rule, lazy)

    def attention(self, skip: float) -> Attention:
        return Attention(skip)

    def explore(self, proposals: Sequence[np.ndarray]) -> Explore:
        return Explore(tuple(np.asarray(p) for p in proposals))


@dataclass
class Commit:
    """What to commit, and why. `verdict[i]` is a route for committed positions, a reason for waiting ones."""

    take: np.ndarray  # bool over the view's positions
    verdict: np.ndarray  # of str
    token: np.ndarray | None = None  # where it differs from the view's y (sampling)
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)  # K, r, S, E, score: for the trace
    threshold: float | None = None  # what E (or the score) was held against
    keep: StepView | None = None  # logits that stay valid after this commit (LoPA): no forward next step


Selection = Commit | Generator[Request, Any, Commit]


@dataclass(frozen=True)
class Decoder:
    """Base of all decoders. Subclasses are frozen dataclasses; their fields are the options users see."""

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    label: ClassVar[str] = ""  # the name `get` was asked for, where that is a preset's or "default"

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            accepted, value = accepted_types(f), getattr(self, f.name)
            fits = not accepted or (isinstance(value, accepted) and (type(value) is not bool or bool in accepted))
            self.require(fits, f"{f.name} does not take {value!r}")
        self.check()

    def check(self) -> None:
        """Raise UserError for values that make no sense. Called on construction."""

    def resolve(self, spec: ModelSpec, length: int) -> Decoder:
        """Fill in what depends on the model or the canvas. Called once per row, before the first step."""
        return self

    def scope(self, canvas: Canvas) -> np.ndarray:
        """The masked positions that may be committed now: only these are scored."""
        return canvas.open_positions()

    def select(self, view: StepView) -> Selection:
        raise NotImplementedError  # pragma: no cover

    @property
    def wants_logits(self) -> bool:
        return False

    def keep_from(self, layers: int) -> int:
        """The lowest residual state (0..L) the forward must keep for this decoder's requests."""
        return layers

    @property
    def guidance(self) -> float:
        return 0.0

    @property
    def canvases_per_forward(self) -> int:
        """How many canvases one forward may hold for a row: guidance runs a second one beside it."""
        return 2 if self.guidance > 0 else 1

    def patience(self, length: int) -> int:
        """Steps in a row that may commit nothing (Dream's first does) before the loop gives the row up."""
        return length + 8

    def params(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def fail(self, message: str) -> UserError:
        return UserError(f"{self.name}: {message}")

    def require(self, condition: bool, message: str) -> None:
        if not condition:
            raise self.fail(message)

    def require_choice(self, option: str, known: Sequence[str]) -> None:
        value = getattr(self, option)
        self.require(value in known, f"{option} must be one of {', '.join(known)}, not {value!r}")

    def require_block(self, block_length: int, length: int) -> None:
        self.require(
            length % block_length == 0,
            f"block_length {block_length} does not divide the canvas of {length}: "
            f"use one of {', '.join(str(d) for d in range(1, length + 1) if length % d == 0)}",
        )


@dataclass(frozen=True)
class BlockDecoder(Decoder):
    """Decodes block by block, left to right: only masked positions of the active block may be committed."""

    block_length: int | None = 32  # None: the whole canvas is one block

    def check(self) -> None:
        self.require(self.block_length is None or self.block_length >= 1, "block_length must be at least 1")

    def resolve(self, spec: ModelSpec, length: int) -> Decoder:
        if self.block_length is not None:
            self.require_block(self.block_length, length)
        return self

    def scope(self, canvas: Canvas) -> np.ndarray:
        return canvas.active_block(self.block_length or canvas.length)


def accepted_types(field: dataclasses.Field) -> tuple[type, ...]:
    """What an option's annotation admits; nothing for an annotation that is not made of plain types."""
    kinds = {"int": numbers.Integral, "float": numbers.Real, "bool": bool, "str": str, "None": type(None)}
    words = [word.strip() for word in getattr(field.type, "__name__", str(field.type)).split("|")]
    return tuple(kinds[word] for word in words) if all(word in kinds for word in words) else ()


def in_unit(value: float) -> bool:
    return 0.0 <= value <= 1.0


def tempered(value: float) -> bool:
    """A temperature that neither overflows logits nor drowns them: 0, or far beyond anything of use on both sides."""
    return value == 0 or 1e-6 <= value <= 100


TEMPERED = "must be 0 or between 1e-6 and 100"


def finite(value: float) -> bool:
    return math.isfinite(value)


def lowest_mapped(skip: float, layers: int) -> int:
    """The first (0-based) block whose attention is averaged: floor(skip x layers), immune to 0.7 * 90 = 62.99..."""
    return math.floor(skip * layers + 1e-9)


def verdicts(n: int, default: str) -> np.ndarray:
    return np.full(n, default, dtype=object)


def best(score: np.ndarray, among: np.ndarray | None = None) -> int:
    """Index of the highest score, the leftmost on ties."""
    if among is None:
        return int(np.argmax(score))
    return int(among[np.argmax(score[among])])


def ranked(score: np.ndarray) -> np.ndarray:
    """Indices from the highest score down; ties in reading order (a stable sort, unlike top-k)."""
    return np.argsort(-score, kind="stable")


def unknown_option(decoder: str, option: str, names: Collection[str]) -> UserError:
    if not names:
        return UserError(f"{decoder} takes no options, but {option!r} was given")
    return unknown(f"option of {decoder}", option, names)


def build(cls: type[Decoder], options: Mapping[str, Any], preset: Mapping[str, Any] | None = None) -> Decoder:
    """A decoder from option names and values; a misspelt option is an error, never ignored."""
    names = [f.name for f in dataclasses.fields(cls)]
    for option in options:
        if option not in names:
            raise unknown_option(cls.name, option, names)
    return cls(**{**(preset or {}), **options})
