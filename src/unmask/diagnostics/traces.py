"""Gold arithmetic traces for the masking diagnostic, and the filter they have to pass.

    gold = load_traces("wordproblems", limit=200)            # a task's gold responses, or
    gold = load_traces(Path("gsm8k_aug.jsonl"), limit=2000)  # records with question, trace or equations, answer
    gold.traces[0].text, .upstream, .target                  # both are character indices into the text

The target is the right-hand side of the final equation (paper, "Data construction"). Every digit before it may be
masked, step labels aside: the upstream digits. In prose that includes a number said again ("4 + 8 = 12, so 12 are
left"), which would otherwise give the masked one away. A file's equations end with the target, as in the paper; the
gold response of a task goes on (a closing sentence, `#### 12`): that ending is kept, so that the model sees a text of
the kind it knows, with all of its digits masked in every state. A trace is kept if

    integer    its answer is an integer
    final      the right-hand side of its final equation is that answer
    verified   every equation holds (within one percent: 10 / 3 = 3.33)
    digits     it has at least `min_digits` upstream digits
    leaked     the answer stands neither in the question nor anywhere before the target: earlier equations, the
               left-hand side of the final one, and prose, "literally" (as a substring; `leak="number"`: as a
               whole number). Thousands commas do not matter.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from unmask import tasks
from unmask.diagnostics.arithmetic import digits, equations, number, without_labels
from unmask.errors import UserError, unknown
from unmask.tasks.data import read_jsonl
from unmask.tasks.splits import rng_for

SEED = 325  # the paper's, for examples and for masks
FILE_DIGITS, TASK_DIGITS = 48, 12  # upstream digits needed: the paper's in a file, what short traces have in a task
LEAKS = ("substring", "number")
TRIES = 200  # generated examples looked at for one that passes
FRUITLESS = 500  # ... after which a task that gave none is given up

REASONS = {
    "equations": "no equation with digits",
    "integer": "the answer is not an integer",
    "final": "the final equation does not end in the answer",
    "verified": "an equation does not hold",
    "digits": "too few upstream digits",
    "leaked": "the answer stands before the target",
}


@dataclass(frozen=True)
class GoldTrace:
    id: str
    question: str
    text: str  # the gold reasoning
    upstream: tuple[int, ...]  # characters that may be masked: digits before the target
    target: tuple[int, ...]  # the target's digits
    answer: str
    ending: tuple[int, ...] = ()  # digits behind the target: masked in every state, never scored


@dataclass
class Gold:
    """What passed, and how many were dropped for which reason (the first that applied)."""

    traces: list[GoldTrace]
    source: str
    read: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        sha = sha256()
        for trace in self.traces:
            sha.update(repr((trace.id, trace.question, trace.text, trace.upstream, trace.target)).encode())
        return sha.hexdigest()

    def account(self) -> str:
        """One sentence on what was kept."""
        lost = ", ".join(f"{count} {REASONS[reason]}" for reason, count in self.dropped.items() if count)
        return f"{len(self.traces)} of {self.read} traces of {self.source} used" + (
            f" (left out: {lost})" if lost else ""
        )


def load_traces(
    source: str | Path,
    *,
    limit: int | None = None,
    min_digits: int | None = None,
    leak: str = "substring",
    split: str = "test",
    seed: int = SEED,
    data: Path | None = None,
    skip: int = 0,
) -> Gold:
    """Traces of a task (by name) or of a JSONL file, filtered. More survivors than `limit`: a seeded sample of a
    file or a finite task, the first ones of an endless task. `skip` leaves out a task's first examples."""
    if leak not in LEAKS:
        raise unknown("leak rule", leak, LEAKS)
    if limit is not None and limit < 1:
        raise UserError(f"--limit must be at least 1, not {limit}")
    if min_digits is not None and min_digits < 1:
        raise UserError(f"--min-digits must be at least 1, not {min_digits}: there has to be a digit to mask")
    if isinstance(source, Path):
        return sample(collect(from_file(source), str(source), min_digits or FILE_DIGITS, leak), limit, seed)
    task = tasks.get(source)
    if data is not None:
        if not hasattr(task, "data"):
            raise UserError(f"task {source} makes its own examples: leave out --data")
        task.data = data
    examples = itertools.islice(task.examples(split, None, seed), skip, None)
    pairs = ((e.id, e.prompt, without_marks(e.response), e.answer) for e in examples)
    if not getattr(task, "endless", False):
        return sample(collect(pairs, f"{source} {split}", min_digits or TASK_DIGITS, leak), limit, seed)
    limit = limit or 200
    return collect(pairs, f"{source} {split}, seed {seed}", min_digits or TASK_DIGITS, leak, limit, TRIES * limit)


def from_file(path: Path) -> Iterator[tuple[str, str, str, str]]:
    """(id, question, trace, answer). As in GSM8K-Aug: `equations`, or a `trace` of <<...>>; or a `solution`."""
    if not path.is_file():
        raise UserError(f"{path} does not exist: name a JSONL file with question, trace and answer, or a task")
    for line, record in read_jsonl(path):
        try:
            answer, question = str(record["answer"]), str(record["question"])
            yield str(record.get("id", line)), question, reasoning(record), answer
        except KeyError as error:
            raise UserError(
                f"{path}, line {line} has no field {error}: a trace needs question, answer and trace (or equations)"
            ) from None


def reasoning(record: Mapping[str, Any]) -> str:
    """Bare equations as numbered steps, one per line; prose as it is. (Which layout the paper gave its equations is
    not stated; that its labels are never masked says that it had some.)"""
    lines = record.get("equations")
    if "trace" in record or (lines is not None and "solution" not in record):
        lines = lines if lines is not None else re.findall(r"<<(.*?)>>", str(record["trace"]))
        if lines:
            return "\n".join(f"Step {n}: {equation}" for n, equation in enumerate(lines, start=1))
        return str(record["trace"])
    return without_marks(str(record["solution"] if "solution" in record else record["trace"]))


def without_marks(solution: str) -> str:
    """GSM8K's calculator marks repeat the equation that they follow."""
    return re.sub(r"<<.*?>>", "", solution)


def collect(
    pairs: Iterable[tuple[str, str, str, str]],
    source: str,
    min_digits: int,
    leak: str,
    wanted: int | None = None,
    tries: int | None = None,
) -> Gold:
    gold = Gold([], source, dropped=dict.fromkeys(REASONS, 0))
    for identity, question, text, answer in pairs:
        gold.read += 1
        found = examine(identity, question, text, answer, min_digits, leak)
        if isinstance(found, GoldTrace):
            gold.traces.append(found)
        else:
            gold.dropped[found] += 1
        fruitless = wanted is not None and not gold.traces and gold.read == FRUITLESS
        if len(gold.traces) == wanted or gold.read == tries or fruitless:
            break
    if not gold.traces:
        raise UserError(nothing_left(gold, min_digits))
    return gold


def nothing_left(gold: Gold, min_digits: int) -> str:
    if not gold.read:
        return f"{gold.source} holds no traces"
    if gold.dropped["equations"] == gold.read:
        return (
            f"none of the {gold.read} traces of {gold.source} has digits in an equation: the diagnostic masks "
            "digits of traces such as '12 + 3 = 15'"
        )
    lost = "; ".join(f"{REASONS[reason]}: {count}" for reason, count in gold.dropped.items() if count)
    less = f"; --min-digits below {min_digits} admits shorter traces" if gold.dropped["digits"] else ""
    return f"no trace of {gold.source} passes the filter ({lost}){less}"


def examine(identity: str, question: str, text: str, answer: str, min_digits: int, leak: str) -> GoldTrace | str:
    """The trace, or the first reason against it."""
    found = equations(text)
    if not found or not any(digits(text, *e.left) for e in found):
        return "equations"
    value, last = number(answer), found[-1]
    if value is None or value.denominator != 1:
        return "integer"
    if number(text[slice(*last.right)]) != value:
        return "final"
    if not all(equation.holds for equation in found):
        return "verified"
    start, stop = last.right
    upstream = tuple(digits(without_labels(text), 0, start))
    if len(upstream) < min_digits:
        return "digits"
    written = str(abs(value.numerator))  # "$1,800" and "1800.0" leak as 1800 does
    if leaks(written, question, leak) or leaks(written, text[:start], leak):
        return "leaked"
    target, ending = digits(text, start, stop), digits(text, stop)
    return GoldTrace(identity, question, text, upstream, tuple(target), answer, tuple(ending))


def leaks(answer: str, text: str, rule: str) -> bool:
    """Are the digits of the answer literally in the text? Thousands commas are ignored."""
    needle = answer.replace(",", "")
    hay = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    if rule == "substring":
        return needle in hay
    return re.search(rf"(?<![\d.]){re.escape(needle)}(?!\d|\.\d)", hay) is not None


def sample(gold: Gold, limit: int | None, seed: int) -> Gold:
    """A deterministic sample of the survivors, in source order."""
    if limit is not None and len(gold.traces) > limit:
        chosen = rng_for("traces", seed).sample(range(len(gold.traces)), limit)
        gold.traces = [gold.traces[index] for index in sorted(chosen)]
    return gold
