"""Decodes that collapse, noticed from the trace alone: what happened in one sentence, and what to do about it.

A masked diffusion model fills its canvas in any order, and some orders hurt: an end of text that stands before the
text it should follow leaves that text whatever room there is, and an answer that stands before its reasoning was
guessed. Order alone does not tell good from bad: the far end of the canvas is filled early in every good decode, and
masked boilerplate hides no decision. So a rule asks how much *entropy* was still masked before the end, or before the
answer, when it was committed: the paper's E (Eq. 6), for any decoder. docs/guardrails.md has the definitions, and how
often each is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unmask.canvas import answer
from unmask.trace import Trace
from unmask.wording import plural

# What the rules hold their measurements against; chosen on validation decodes (docs/guardrails.md).
UPSTREAM = 20.0  # nats of entropy in what stays masked before a token; RPD's own budget is 4
MASKED_TEXT = 0.5  # share of the text that is still masked when its end is committed
BLOCK = 32  # masked tokens: who goes block by block may know where a short text ends before its words
# ... or nearly all of it, at so many nats per token, and so many at least: what a canvas filled from its end leaves.
UNKNOWN, PER_TOKEN, LEAST = 0.9, 2.0, 5.0
MASKED_REASONING = 0.2  # ... of the reasoning, when the answer is complete
SHORTEST_REASONING = 8  # tokens; an answer without reasoning cannot come before it

# Where an answer begins; the last one in a text counts.
MARKER = re.compile(r"####|\\(?:boxed|fbox)\s*\{|\banswer(?:\s+is\b|\s*:)", re.IGNORECASE)


@dataclass(frozen=True)
class Warning:
    """Something a decode did that its answer may not survive. `code` is stable: scripts may match it."""

    code: str
    sentence: str
    fix: str

    def __str__(self) -> str:
        return f"{self.sentence}: {self.fix}"

    def to_json(self) -> dict[str, str]:
        return asdict(self)


# code -> what it says in a table of counts.
KINDS = {
    "premature-end": "the end of text was committed before the text it should follow",
    "premature-answer": "the answer was committed before its reasoning",
    "truncated": "the canvas filled up before the text ended",
    "empty": "there is no answer before the end of text",
    "greedy-entropy-order": "entropy order at temperature 0",
}
# What to do. None of them costs the user anything but another run.
ANOTHER_ORDER = "use --decoder rpd, which holds back what depends on masked text"
FIXES = {
    "premature-end": ANOTHER_ORDER,
    "premature-answer": ANOTHER_ORDER,
    "truncated": "give it more room with --canvas-length",
    "empty": f"{ANOTHER_ORDER}; with --decoder dream-default, set -o temperature=0.1 -o top_p=0.9",
    "greedy-entropy-order": "set -o temperature=0.1 -o top_p=0.9, or use --decoder rpd",
}


def check(trace: Trace) -> list[Warning]:
    """Every warning a finished decode deserves, each kind at most once."""
    header = trace.header
    return [*before(header["decoder"], header.get("params", {})), *after(Decode(trace))]


def before(decoder: str, params: Mapping[str, Any]) -> list[Warning]:
    """What is known before the first step: Dream's sampler in entropy order without its temperature."""
    if decoder == "dream-default" and params.get("alg") == "entropy" and params.get("temperature") == 0:
        return [warning("greedy-entropy-order", "the end-of-text tail has the lowest entropy and is filled first")]
    return []


def after(decode: Decode) -> Iterator[Warning]:
    """What the finished canvas and the order of its commits show."""
    if decode.unfinished:  # stopped from outside, with masks in the text: nothing can be said of it
        return
    if decode.full:
        yield warning("truncated", f"all {decode.length} positions, and no end of text")
    elif not any(character.isalnum() for character in decode.text):
        yield warning("empty", f"{plural(decode.length, 'token')} before it")
    elif decode.ends_at is not None and (end := premature_end(decode, decode.ends_at)) is not None:
        yield warning("premature-end", end)
    if (answer := premature_answer(decode)) is not None:
        yield warning("premature-answer", answer)


def warning(code: str, detail: str) -> Warning:
    return Warning(code, f"{KINDS[code]} ({detail})", FIXES[code])


class Decode:
    """A finished trace by canvas position: what stands there and when it was committed."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        ids = trace.canvas()
        fixed = {int(position): token for position, token in trace.header.get("fixed", {}).items()}
        kept = answer(ids, fixed, frozenset(trace.header.get("stop_ids", ())))
        self.ends_at = kept.end  # the first end token
        self.length = len(ids) if self.ends_at is None else self.ends_at  # of the answer
        # A given last token is where an infilled text is meant to stop.
        self.full = self.ends_at is None and len(ids) - 1 not in fixed
        self.unfinished = bool((ids[: self.length] == trace.header["mask_id"]).any())
        self.step = trace.commit_steps()  # -1 where given
        spoken = set(kept.positions)  # end tokens before given text say nothing, and end nothing
        self.pieces = [trace.piece(int(ids[i])) if i in spoken else "" for i in range(self.length)]
        self.ends = np.cumsum([len(piece) for piece in self.pieces], dtype=np.int64)  # of each piece in the text
        self.text = "".join(self.pieces)

    def masked(self, step: int, stop: int) -> int:
        """Positions before `stop` that were still masked after this step."""
        return int((self.step[:stop] > step).sum())

    def upstream(self, step: int, stop: int) -> float:
        """Entropy of what stayed masked before `stop` at this step, in nats (E of the paper, for any decoder)."""
        seen = self.trace.steps[step]
        return float(seen.entropy[~seen.committed & (seen.positions < stop)].sum(dtype=np.float64))


def premature_end(decode: Decode, end: int) -> str | None:
    """The token that ends the text stood while most of the text was masked, and open. Only the first end token
    counts: those behind it are the canvas' certain tail, into which the text may still grow."""
    late = Early.of_step(decode, int(decode.step[end]), end)
    if late is None:
        return None
    cut_short = late.masked >= BLOCK and late.weighs(MASKED_TEXT)
    return f"when {late}" if cut_short or late.is_guess() else None


def premature_answer(decode: Decode) -> str | None:
    """The whole answer stood while its reasoning was masked, and open."""
    reasoning, answer = regions(decode)
    if reasoning < SHORTEST_REASONING or not answer.size:
        return None
    late = Early.of_step(decode, int(decode.step[answer].max()), reasoning)
    if late is None or not late.weighs(MASKED_REASONING):
        return None
    said = "".join(decode.pieces[answer[0] : answer[-1] + 1])
    return f"{said!r} when {late}"


@dataclass(frozen=True)
class Early:
    """What a token was committed ahead of."""

    masked: int
    of: int  # positions before it
    upstream: float  # nats in the masked ones

    @classmethod
    def of_step(cls, decode: Decode, step: int, stop: int) -> Early | None:
        """Before position `stop`, after this step; None where the token was given, not committed."""
        return cls(decode.masked(step, stop), stop, decode.upstream(step, stop)) if step >= 0 else None

    def weighs(self, share: float) -> bool:
        return self.masked >= share * self.of and self.upstream > UPSTREAM

    def is_guess(self) -> bool:
        """Next to nothing was known of what comes before, however short it is."""
        return self.masked >= UNKNOWN * self.of and self.upstream > max(LEAST, PER_TOKEN * self.of)

    def __str__(self) -> str:
        return (
            f"{self.masked} of the {self.of} tokens before it were masked, with {self.upstream:.0f} nats of entropy"
        )


def regions(decode: Decode) -> tuple[int, np.ndarray]:
    """How many positions of reasoning there are, and the positions of the answer behind them."""
    markers = list(MARKER.finditer(decode.text))
    if not markers:
        return 0, np.empty(0, dtype=np.int64)
    start, stop = markers[-1].span()
    line_end = decode.text.find("\n", stop)
    begins = decode.ends - [len(piece) for piece in decode.pieces]
    inside = (begins >= stop) & (begins < (line_end if line_end >= 0 else len(decode.text)))
    spoken = [any(character.isalnum() for character in piece) for piece in decode.pieces]
    return int((decode.ends <= start).sum()), np.flatnonzero(inside & spoken)
