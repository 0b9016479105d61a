"""From a canvas that fills in any order to text that is never retracted.

What may be shown is the committed prefix: tokens before the first mask never change. Three things may still
be half there at its end and are held back: a character whose bytes are split over tokens, the beginning of a
stop sequence, and nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from unmask.models.tokenizer import Tokenizer

HALF_CHARACTER = "�"  # what the tokenizer gives for bytes that are not yet a character


@dataclass(frozen=True)
class Answer:
    text: str
    tokens: int
    finish_reason: str


@dataclass(frozen=True)
class Cut:
    """Where an answer ends: an end token, `max_tokens`, or a stop sequence, whichever comes first."""

    tokenizer: Tokenizer
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    def settled(self, prefix: Sequence[int]) -> bool:
        """Is the answer final, whatever is still masked? One token past `max_tokens` is awaited: only then is it
        known whether the answer was cut or had just ended."""
        if len(self.tokenizer.cut(prefix)) < len(prefix):
            return True
        if self.max_tokens is not None and len(prefix) > self.max_tokens:
            return True
        return bool(self.stop) and first_stop(self.tokenizer.decode(prefix), self.stop) is not None

    def visible(self, prefix: Sequence[int]) -> str:
        """Text that can be sent now, however the rest of the canvas comes out."""
        tokens = self.limit(self.tokenizer.cut(prefix))
        text = self.tokenizer.decode(tokens).rstrip(HALF_CHARACTER)
        end = first_stop(text, self.stop)
        return text[: len(text) - overlap(text, self.stop)] if end is None else text[:end]

    def final(self, tokens: Sequence[int], reason: str) -> Answer:
        """The finished answer; `tokens` end before the first end token, or with the canvas."""
        kept = self.limit(tokens)
        if len(kept) < len(tokens):
            reason = "length"
        text = self.tokenizer.decode(kept)
        end = first_stop(text, self.stop)
        if end is None:
            return Answer(text, len(kept), reason)
        # As many tokens as it took for the stop sequence to appear: more tokens never make it disappear.
        counts = range(len(kept) + 1)
        used = bisect_left(
            counts, True, key=lambda n: first_stop(self.tokenizer.decode(kept[:n]), self.stop) is not None
        )
        return Answer(text[:end], used, "stop")

    def limit(self, tokens: Sequence[int]) -> Sequence[int]:
        return tokens if self.max_tokens is None else tokens[: self.max_tokens]


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the stop sequence that is complete first begins: the answer is the same however late one looks."""
    found = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    return min(found)[1] if found else None


def overlap(text: str, stops: Sequence[str]) -> int:
    """Length of the longest end of `text` that begins a stop sequence."""
    longest = 0
    for stop in stops:
        for n in range(min(len(stop) - 1, len(text)), longest, -1):
            if text.endswith(stop[:n]):
                longest = n
                break
    return longest


class Stream:
    """What one row's reader has been given so far."""

    def __init__(self, cut: Cut) -> None:
        self.cut, self.sent, self.prefix = cut, "", 0

    def more(self, prefix: Sequence[int]) -> str:
        if len(prefix) == self.prefix:
            return ""
        self.prefix = len(prefix)
        return self.advance(self.cut.visible(prefix))

    def rest(self, answer: Answer) -> str:
        return self.advance(answer.text)

    def advance(self, text: str) -> str:
        """The new part. A tokenizer whose text changes backwards (none known) waits rather than retracts."""
        if not text.startswith(self.sent):
            return ""
        delta, self.sent = text[len(self.sent) :], text
        return delta
