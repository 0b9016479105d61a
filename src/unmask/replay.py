"""Reading a recorded decode: why each position was committed or waits, and what another decoder would do.

Facts and words only; story.py prints them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask.errors import UserError
from unmask.trace import Step, Trace
from unmask.wording import number, plural

if TYPE_CHECKING:
    from unmask.decoders.base import Decoder
    from unmask.models import Model

COLUMNS = ("c", "H", "K", "r", "S", "E", "score")
OUT_OF_SCOPE = "not in scope"  # a block decoder did not look at this position
# What a decoder holds its score against, where the score has a name.
SCORES = {"eb-sampler": ("d", "gamma"), "dapd": ("degree x c", "tau"), "lopa": ("branch", "")}


@dataclass(frozen=True)
class Seat:
    """One position in one step: the token proposed for it, what became of it, and the numbers behind that."""

    position: int
    token: int
    piece: str
    verdict: str  # a route if committed, a reason if not
    committed: bool
    values: Mapping[str, float]  # c, H, and those of K, r, S, E, score that were computed
    why: str  # in words

    def to_json(self) -> dict[str, Any]:
        values = {name: value if math.isfinite(value) else str(value) for name, value in self.values.items()}
        return {
            "position": self.position, "token": self.token, "piece": self.piece, "verdict": self.verdict,
            "committed": self.committed, **values, "why": self.why,
        }  # fmt: skip


def seats(trace: Trace, step: Step, indices: np.ndarray | None = None) -> Iterator[Seat]:
    """The step's positions (or the entries `indices`) with their reasons in words."""
    params = {"decoder": trace.header["decoder"], **trace.header.get("params", {})}
    for i in range(len(step.positions)) if indices is None else indices:
        columns = {"c": step.confidence, "H": step.entropy, **step.columns}
        # str first: the shortest decimal of a float32, not its float64 expansion.
        values = {name: float(str(column[i])) for name, column in columns.items() if not math.isnan(column[i])}
        verdict, committed = str(step.verdict[i]), bool(step.committed[i])
        token = int(step.token[i])
        why = reason(verdict, values, step.threshold, params)
        yield Seat(int(step.positions[i]), token, trace.piece(token), verdict, committed, values, why)


def reason(verdict: str, values: Mapping[str, float], threshold: float | None, params: Mapping[str, Any]) -> str:
    """One verdict in words, with the numbers that decided it."""
    told = WORDS.get(verdict)
    return told(values, threshold, params) if told else ""


def setting(params: Mapping[str, Any], name: str) -> float:
    """A parameter as a number; NaN where it is not one (unset, or of another decoder)."""
    value = params.get(name)
    return value if isinstance(value, int | float) else math.nan


def _confident(values, threshold, params) -> str:
    for name in ("theta_h", "threshold"):
        if values["c"] >= setting(params, name):
            return f"c {number(values['c'])} >= {name} {number(setting(params, name))}"
    return f"c {number(values['c'])}"  # the factor rule has no single threshold


def _unsure(values, threshold, params) -> str:
    for name in ("theta_c", "threshold"):
        if values["c"] < setting(params, name):
            return f"c {number(values['c'])} < {name} {number(setting(params, name))}"
    return f"c {number(values['c'])}"


def _stable(values, threshold, params) -> str:
    return _stability(values, ">=", params)


def _unstable(values, threshold, params) -> str:
    return _stability(values, "<", params) if "S" in values else "too uncertain to be read at other layers"


def _stability(values, sign, params) -> str:
    if "S" not in values:
        return ""
    told = f"S {number(values['S'])} {sign} theta_s {number(setting(params, 'theta_s'))}"
    return f"{told} (K {number(values.get('K', math.nan))}, r {number(values.get('r', math.nan))})"


def _upstream(values, threshold, params) -> str:
    if "E" not in values or threshold is None:
        return "too much entropy upstream"
    return f"E {number(values['E'])} > beta {number(threshold)}"


def _rank(values, threshold, params) -> str:
    name, limit = SCORES.get(params["decoder"], ("score", ""))
    if "score" not in values:
        return "others ranked higher"
    if limit and threshold is not None:
        return f"{name} {number(values['score'])} > {limit} {number(threshold)}"
    return f"{name} {number(values['score'])}, others ranked higher"


def _budget(values, threshold, params) -> str:
    if "score" not in values or threshold is None:
        return ""
    within = values["score"] <= threshold
    return f"d {number(values['score'])} {'<=' if within else '>'} gamma {number(threshold)}"


def _direct(values, threshold, params) -> str:
    limit = "staged_confidence" if params.get("variant") == "staged" else "direct"  # DAPD's two ways to be certain
    return f"c {number(values['c'])} >= {limit} {number(setting(params, limit))}"


def _scored(words: str):
    def told(values, threshold, params) -> str:
        return f"{words}, score {number(values['score'])}" if "score" in values else words

    return told


WORDS = {
    "confidence": _confident,
    "stability": _stable,
    "fallback": lambda values, *_: f"nothing qualified; the best allowed, c {number(values['c'])}",
    "schedule": _scored("among the best of this step's quota"),
    "chance": lambda *_: "drawn by the schedule",
    "budget": _budget,
    "direct": _direct,
    "independent": _scored("hardly attends to the others committed"),
    "branch": _scored("its future looked most certain"),
    "order": lambda *_: "its turn in reading order",
    "unsure": _unsure,
    "unstable": _unstable,
    "upstream": _upstream,
    "rank": _rank,
    "conflict": lambda *_: "depends on a position committed in this step",
    "turn": lambda *_: "an earlier position comes first",
}


@dataclass(frozen=True)
class Difference:
    """One position on which two decoders disagree. None: that side did not look at it."""

    position: int
    ours: Seat | None  # the recorded decode's
    theirs: Seat | None


@dataclass(frozen=True)
class Comparison:
    """Two decoders at the same states, up to the first step at which they choose differently."""

    ours: str
    theirs: str
    params: Mapping[str, Any]  # the other decoder's
    same_model: bool
    agreed: int  # steps before the first difference
    differences: tuple[Difference, ...]  # empty: every step was the same

    @property
    def step(self) -> int | None:
        """The first step that differs, counted from 1."""
        return self.agreed + 1 if self.differences else None

    def to_json(self) -> dict[str, Any]:
        sides = [
            {
                "position": d.position,
                "recorded": d.ours.to_json() if d.ours else None,
                "other": d.theirs.to_json() if d.theirs else None,
            }
            for d in self.differences
        ]
        return {
            "decoder": self.theirs, "params": self.params, "same_model": self.same_model,
            "agreed_steps": self.agreed, "first_difference": self.step, "differences": sides,
        }  # fmt: skip


def compare(trace: Trace, model: Model, decoder: Decoder, name: str | None = None) -> Comparison:
    """Let `decoder` decode from the recorded start for as long as it chooses what the trace chose.

    As long as every choice is the same, so is the canvas: the other decoder stands at the recorded state,
    with the memory (schedule, kept logits, random stream) that its own decode would have brought it there."""
    import torch

    from unmask.canvas import Canvas
    from unmask.loop import Loop, Row, plain
    from unmask.models import parse_dtype

    header = trace.header
    check_model(trace, model)
    other = decoder.resolve(model.spec, trace.canvas_length)
    fixed = {int(position): int(token) for position, token in header.get("fixed", {}).items()}
    canvas = Canvas(header["prompt_ids"], trace.canvas_length, model.spec.mask_id, fixed)
    rng = torch.Generator(device=model.net.device).manual_seed(int(header.get("seed", 0)))
    row = Row(canvas, other, Trace({**header, "decoder": other.name, "params": plain(other.params())}), rng)
    dropped = bool(header.get("drop_tail"))  # what the forward did not see then, it must not see now
    precision = parse_dtype(header.get("score_dtype")) or torch.float32
    loop = Loop(model, score_dtype=precision, early_stop=dropped, drop_tail=dropped)
    differences: tuple[Difference, ...] = ()
    agreed = 0
    for recorded in trace.steps:
        loop.step([row])
        if row.error:
            raise row.error
        differences = tuple(differing(trace, recorded, row.trace, row.trace.steps[-1], model))
        if differences:
            break
        agreed += 1
    ours, theirs = header.get("label") or header["decoder"], name or decoder.label or other.name
    if ours == theirs:
        ours, theirs = f"{ours} (recorded)", f"{theirs} (asked)"
    return Comparison(
        ours, theirs, row.trace.header["params"], header.get("model") == model.name, agreed,
        differences,
    )  # fmt: skip


def check_model(trace: Trace, model: Model) -> None:
    """A trace is a file: what it asks of this model may be another model's, or nobody's."""
    header, limit = trace.header, model.choosable.limit
    mask_id, ids = header["mask_id"], header["prompt_ids"]
    if mask_id != model.spec.mask_id or max(ids, default=0) >= model.spec.rows:
        raise UserError(
            f"the trace was made with {header.get('model', 'another model')} (mask id {mask_id}), which "
            f"{model.name} (mask id {model.spec.mask_id}) cannot continue: give that model with --model"
        )
    odd = [token for token in header.get("fixed", {}).values() if token >= limit or token == mask_id]
    if odd:
        raise UserError(f"the trace gives token {odd[0]}, which {model.name} cannot: give its own model with --model")
    if len(ids) + trace.canvas_length > model.spec.context:
        raise UserError(
            f"the trace has {plural(len(ids), 'token')} of prompt and a canvas of {trace.canvas_length}, but "
            f"{model.name} takes {model.spec.context} in all: give the model that made it with --model"
        )


def differing(trace: Trace, ours: Step, other: Trace, theirs: Step, model: Model) -> Iterator[Difference]:
    """Positions that only one side commits, or that the two sides fill with different tokens."""
    left = {position: token for position, token, _ in ours.commits()}
    right = {position: token for position, token, _ in theirs.commits()}
    tokens = {int(token) for token in theirs.token} | set(right.values())
    known = trace.header.get("pieces", {})
    other.header["pieces"] = {**{str(token): model.tokenizer.piece(token) for token in tokens}, **known}
    for position in sorted(left.keys() | right.keys()):
        if left.get(position) != right.get(position):
            yield Difference(position, seat_at(trace, ours, position), seat_at(other, theirs, position))


def seat_at(trace: Trace, step: Step, position: int) -> Seat | None:
    where = np.flatnonzero(step.positions == position)
    return next(seats(trace, step, where[:1])) if where.size else None
