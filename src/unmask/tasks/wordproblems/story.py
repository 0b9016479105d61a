"""A word problem before it has words: facts told, computations with their dependencies, a question; then its wording.

A family (see `families`) drives a `Story`: it draws numbers, tells facts and computes. What it draws fixes the
problem's signature. `word` then chooses paraphrases and every order that the problem leaves free, so that one
signature has very many texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from . import facts, facts_money, facts_world, lexicon, steps, steps_world

T = TypeVar("T")
FACTS: dict[str, tuple[str, ...]] = {
    **facts.INVENTORY,
    **facts.PEOPLE,
    **facts_money.MONEY,
    **facts_world.THINGS,
}
STEPS: dict[str, tuple[str, ...]] = {**steps.PEOPLE, **steps_world.MONEY, **steps_world.THINGS}

LARGEST_GIVEN = 999
LARGEST = 9999
LARGEST_DIVIDEND = 999
SMALLEST = 2  # no zero and no "1 apples" anywhere

# How often the free choices are taken.
OPENING, CLOSING, DISTRACTION = 0.25, 0.25, 0.22
TRACE_OPENING, TRACE_CLOSING = 0.3, 0.4
PRONOUN, SWAP, INTERLEAVE = 0.6, 0.35, 0.35


class DeadEnd(Exception):
    """The numbers drawn so far allow no continuation; draw the problem anew."""


class Value(NamedTuple):
    """A number in the story: where it came from (a step, or -1 if given) and how it was made."""

    number: int
    money: bool = False
    step: int = -1
    made: str = ""

    @property
    def text(self) -> str:
        return f"${self.number}" if self.money else str(self.number)


class Step(NamedTuple):
    kind: str
    left: Value
    op: str
    right: Value
    result: Value
    slots: dict[str, Any]


class Wording(NamedTuple):
    question: str
    trace: str


def pick(rng: Random, options: Sequence[T]) -> T:
    """A uniform choice; several times faster than `Random.choice`."""
    return options[int(rng.random() * len(options))]


class Story:
    """The content of one problem. Families call `given`, `tell`, `compute` and `ask`."""

    __slots__ = ("_topic", "asked", "facts", "names_only", "people", "rng", "section", "slots", "steps")

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.people: list[tuple[dict[str, str], dict[str, str]]] = []
        self.slots: dict[str, Any] = {}
        self.facts: list[tuple[int, int, str, dict[str, Any]]] = []  # section, track, kind, slots
        self.steps: list[Step] = []
        self.asked: tuple[str, dict[str, str]] = ("", {})
        self.section = 0
        self.names_only = False  # several people act: pronouns would be ambiguous
        self._topic = "numbers"

    # ---- content -------------------------------------------------------------------------------------------

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.rng.random() * len(options))]

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def between(self, low: int, high: int) -> int:
        if high < low:
            raise DeadEnd
        return low + int(self.rng.random() * (high - low + 1))

    def size(self, low: int = SMALLEST, high: int = LARGEST_GIVEN) -> int:
        """A number of one, two or three digits (about 30, 45 and 25 %) within the bounds."""
        chance = self.rng.random()
        a, b = (2, 20) if chance < 0.3 else (10, 99) if chance < 0.75 else (100, 999)
        b = min(b, high)
        return self.between(max(a, low) if a < b else low, b)

    def factors(self) -> tuple[int, int]:
        """Two factors, in either order, whose product can be found at a glance or nearly so."""
        chance = self.rng.random()
        if chance < 0.55:
            pair = self.between(10, 99), self.between(2, 9)
        elif chance < 0.72:
            pair = self.between(100, 400), self.between(2, 9)
        elif chance < 0.92:
            pair = self.between(3, 12), self.between(2, 9)
        else:
            pair = self.between(10, 25), self.between(10, 15)
        return pair if self.chance(0.5) else (pair[1], pair[0])

    def divisor(self, value: Value, low: int = 2, high: int = 12) -> Value:
        """A number from `low` to `high` that divides `value` without rest."""
        total = value.number
        fit = [k for k in range(low, high + 1) if total % k == 0 and total // k >= SMALLEST]
        if not fit or total > LARGEST_DIVIDEND:
            raise DeadEnd
        return self.given(self.pick(fit))

    def given(self, number: int, money: bool = False) -> Value:
        if not SMALLEST <= number <= LARGEST_GIVEN:
            raise DeadEnd
        return Value(number, money, -1, str(number))

    def cast(self, count: int = 1) -> None:
        """Choose the people: `{A}` first, then `{B}` and `{C}`."""
        self.people = self.rng.sample(lexicon.PEOPLE, count)
        self.names_only = count > 1
        for letter, person in zip("ABC", self.people, strict=False):
            self.slots[letter] = person[0]["A"]

    def things(self, **chosen: Any) -> None:
        """Fix words for the whole story, e.g. `items` or `place`; `topic`, or else the items, is what it is about."""
        self.slots.update(chosen)
        self._topic = chosen.get("topic") or chosen.get("items") or self._topic

    def tell(self, kind: str, track: int = 0, **slots: Any) -> None:
        """Add a fact. Tracks of one section are independent of each other and may come in any order."""
        self.facts.append((self.section, track, kind, _texts(slots)))

    def compute(self, kind: str, left: Value, op: str, right: Value, **slots: Any) -> Value:
        """Add a computation to the trace; its result may be used by later ones."""
        number, money = _apply(left, op, right)
        made = f"({left.made}{op}{right.made})"
        if op in "+x" and right.made < left.made:
            made = f"({right.made}{op}{left.made})"
        result = Value(number, money, len(self.steps), made)
        self.steps.append(Step(kind, left, op, right, result, _texts(slots)))
        return result

    def ask(self, kind: str, **slots: str) -> None:
        self.asked = (kind, slots)

    @property
    def answer(self) -> Value:
        return self.steps[-1].result

    @property
    def signature(self) -> str:
        """The computation with its numbers: independent of words, of names and of the order of independent steps."""
        return self.answer.made

    # ---- wording -------------------------------------------------------------------------------------------

    def word(self) -> Wording:
        return Wording(self._question(), self._trace())

    def _say(self, options: Sequence[str], used: set[str], slots: dict[str, Any], named: bool) -> str:
        """One paraphrase, not the same twice in a text, with the person by name or pronoun."""
        at = int(self.rng.random() * len(options))
        for shift in range(len(options)):
            template = options[(at + shift) % len(options)]
            if template not in used:
                break
        used.add(template)
        words = dict(self.slots)
        if self.people:
            pronoun = not (self.names_only or named) and self.rng.random() < PRONOUN
            words.update(self.people[0][pronoun])
        words.update(slots)
        return template.format_map(words)

    def _question(self) -> str:
        rng, used = self.rng, set[str]()
        sentences = [
            self._say(FACTS[kind], used, slots, first == 0) for first, (kind, slots) in enumerate(self._told())
        ]
        if rng.random() < DISTRACTION:
            self._distract(sentences, used)
        if rng.random() < OPENING:
            sentences.insert(0, self._say(facts.OPENINGS, used, {"topic": self._topic}, False))
        sentences.append(self._say(FACTS[self.asked[0]], used, self.asked[1], False))
        if rng.random() < CLOSING:
            sentences.append(pick(rng, facts.CLOSINGS))
        return " ".join(sentences)

    def _told(self) -> list[tuple[str, dict[str, Any]]]:
        """The facts in one of the orders that make sense: sections in order, their tracks shuffled or interleaved."""
        sections: dict[int, dict[int, list[tuple[str, dict[str, Any]]]]] = {}
        for section, track, kind, slots in self.facts:
            sections.setdefault(section, {}).setdefault(track, []).append((kind, slots))
        told = []
        for tracks in sections.values():
            queues = list(tracks.values())
            if len(queues) == 1:
                told += queues[0]
                continue
            self.rng.shuffle(queues)
            if self.names_only and self.rng.random() < INTERLEAVE:
                while queues:
                    queue = pick(self.rng, queues)
                    told.append(queue.pop(0))
                    queues = [q for q in queues if q]
            else:
                told += [fact for queue in queues for fact in queue]
        return told

    def _distract(self, sentences: list[str], used: set[str]) -> None:
        """Add a fact with a number that the answer does not need, where it cannot be mistaken for another."""
        rng = self.rng
        slots: dict[str, Any] = {"n": 6 + int(rng.random() * 60), "place": pick(rng, lexicon.PLACES)}
        if "items" in self.slots and self.people and rng.random() < 0.4:
            others = pick(rng, lexicon.ITEMS)[1]
            if others not in self.slots.values():
                sentences.append(self._say(facts.BELONGINGS, used, {**slots, "others": others}, True))
            return
        options = facts.DISTRACTIONS if self.people else facts.DISTRACTIONS[2:5]
        at_start = rng.random() < 0.5
        sentences.insert(0 if at_start else len(sentences), self._say(options, used, slots, True))

    def _trace(self) -> str:
        rng, used = self.rng, set[str]()
        lines = [pick(rng, steps.OPENINGS)] if rng.random() < TRACE_OPENING else []
        named = True
        for step in self._ordered():
            slots = {**step.slots, "a": step.left.text, "b": step.right.text, "c": step.result.text}
            slots["eq"] = self._equation(step)
            lines.append(self._say(STEPS[step.kind], used, slots, named))
            named = False
        answer = self.answer
        if rng.random() < TRACE_CLOSING:
            lines.append(pick(rng, steps.CLOSINGS).format(ans=answer.text))
        lines.append(f"#### {answer.number}")
        return "\n".join(lines)

    def _equation(self, step: Step) -> str:
        left, right = step.left.text, step.right.text
        if step.op in "+x" and self.rng.random() < SWAP:
            left, right = right, left
        return f"{left} {step.op} {right} = {step.result.text}"

    def _ordered(self) -> list[Step]:
        """The steps in a random order in which each comes after those it needs."""
        waiting, done, ordered = list(range(len(self.steps))), set[int]((-1,)), []
        while waiting:
            ready = [i for i in waiting if self.steps[i].left.step in done and self.steps[i].right.step in done]
            chosen = ready[0] if len(ready) == 1 else pick(self.rng, ready)
            waiting.remove(chosen)
            done.add(chosen)
            ordered.append(self.steps[chosen])
        return ordered


def _texts(slots: dict[str, Any]) -> dict[str, Any]:
    return {key: value.text if isinstance(value, Value) else value for key, value in slots.items()}


def _apply(left: Value, op: str, right: Value) -> tuple[int, bool]:
    """The result and whether it is money; a dead end if a reader would find the computation unreasonable."""
    a, b = left.number, right.number
    money = left.money
    if op == "+":
        number = a + b
    elif op == "-":
        number = a - b
    elif op == "x":
        number, money = a * b, left.money or right.money
        if min(a, b) > 15 or max(a, b) > LARGEST_GIVEN or (min(a, b) > 9 and max(a, b) > 25):
            raise DeadEnd
    else:
        number, rest = divmod(a, b)
        money = left.money and not right.money
        if rest or a > LARGEST_DIVIDEND:
            raise DeadEnd
    if not SMALLEST <= number <= LARGEST:
        raise DeadEnd
    return number, money
