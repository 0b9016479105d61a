"""Word problems against their definition: a parser that knows nothing of the generator re-computes every trace."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import islice
from random import Random

import pytest

from unmask import tasks
from unmask.errors import UserError
from unmask.scoring import extract_hash_answer, numbers_equal
from unmask.tasks.pieces import PROMPT_LIMIT, RESPONSE_LIMIT, pieces
from unmask.tasks.splits import SPLITS, bucket, rng_for
from unmask.tasks.wordproblems import WordProblems, facts, generate, lexicon, steps
from unmask.tasks.wordproblems.families import pair
from unmask.tasks.wordproblems.families_world import FAMILIES
from unmask.tasks.wordproblems.story import FACTS, STEPS, DeadEnd, Story

TASK = WordProblems()
EQUATION = re.compile(r"(\$?)(\d+) ([-+x/]) (\$?)(\d+) = (\$?)(\d+)")
NAMES = {*lexicon.SHE, *lexicon.HE}
# Numbers that a question may give as a word, or that half, a third, twice ... stand for.
SPOKEN = {2, 3, 4, 5}


@pytest.fixture(scope="module")
def sample():
    rng = rng_for("test_wordproblems")
    return [generate(rng) for _ in range(4000)]


def _value(a: int, op: str, b: int) -> int:
    if op == "/":
        assert a % b == 0
        return a // b
    return {"+": a + b, "-": a - b, "x": a * b}[op]


def test_every_trace_computes_its_answer_from_the_question(sample):
    for example in sample:
        known = SPOKEN | {int(n) for n in re.findall(r"\d+", example.prompt)}
        *lines, last = example.response.split("\n")
        equations = EQUATION.findall("\n".join(lines))
        assert len(equations) == example.meta["steps"], example
        for _, a, op, _, b, _, c in equations:
            assert _value(int(a), op, int(b)) == int(c), example
            assert {int(a), int(b)} <= known, f"a number from nowhere: {example}"
            known.add(int(c))
        assert last == f"#### {example.answer}" and int(equations[-1][-1]) == int(example.answer)


def test_numbers_stay_in_range(sample):
    for example in sample:
        given = [int(n) for n in re.findall(r"\d+", example.prompt)]
        assert all(2 <= n <= 999 for n in given), example.prompt
        assert all(2 <= int(c) <= 9999 for *_, c in EQUATION.findall(example.response)), example.response
        assert 2 <= int(example.answer) <= 9999


def test_money_is_marked_consistently(sample):
    for example in sample:
        for x, _, op, y, _, z, _ in EQUATION.findall(example.response):
            if op in "+-":
                assert x == y == z
            elif op == "x":
                assert bool(x) + bool(y) == bool(z)
            else:
                assert bool(z) == (bool(x) and not y)


def test_one_computation_per_sentence_and_no_hole_left(sample):
    for example in sample:
        for line in example.response.split("\n"):
            assert len(EQUATION.findall(line)) <= 1
        assert not set("{}<>") & set(example.prompt + example.response)
        assert "  " not in example.prompt + example.response


def test_nobody_is_compared_with_oneself(sample):
    questions = [e.prompt.rsplit(". ", 1)[-1] for e in sample] + [s for e in sample for s in e.prompt.split(". ")]
    for sentence in questions:
        if re.search(r"\b(more|fewer|as many|ahead|difference|Compared|together)\b", sentence):
            mentioned = [w for w in re.findall(r"[A-Z][a-z]+", sentence) if w in NAMES]
            if " of " not in sentence and len(mentioned) == 2 and "to" not in sentence.split():
                assert mentioned[0] != mentioned[1] or "brings" in sentence or "gives" in sentence, sentence


def test_lengths_fit_the_embedded_model(sample):
    assert max(len(pieces(e.prompt)) for e in sample) <= PROMPT_LIMIT
    assert max(len(pieces(e.response)) for e in sample) <= RESPONSE_LIMIT


def test_steps_follow_their_distribution(sample):
    for count, percent in zip(range(1, 6), (10, 25, 30, 22, 13), strict=True):
        share = 100 * sum(e.meta["steps"] == count for e in sample) / len(sample)
        assert abs(share - percent) < 3


def test_every_kind_of_sentence_has_five_wordings():
    tables = {**FACTS, **STEPS, "openings": facts.OPENINGS, "closings": facts.CLOSINGS, "others": facts.BELONGINGS}
    tables |= {"distractions": facts.DISTRACTIONS, "first": steps.OPENINGS, "last": steps.CLOSINGS}
    for kind, wordings in tables.items():
        assert len(set(wordings)) == len(wordings) >= 5, kind
    for kind, wordings in STEPS.items():
        assert all(w.count("{eq}") == 1 for w in wordings), kind


@pytest.mark.parametrize(("family", "count"), [(f, n) for f, counts in FAMILIES.items() for n in counts])
def test_every_family_fills_every_number_of_steps(family, count):
    rng, told = Random(count), 0
    for _ in range(400):
        story = Story(rng)
        try:
            family(story, count)
        except DeadEnd:
            continue
        told += 1
        assert len(story.steps) == count
        used = {i for step in story.steps for i in (step.left.step, step.right.step)}
        assert used >= set(range(count - 1)), "every computation but the last is needed"
        if story.names_only:
            kinds = [kind for _, _, kind, _ in story.facts] + [story.asked[0]]
            said = [w for k in kinds for w in FACTS[k]] + [w for s in story.steps for w in STEPS[s.kind]]
            assert not any(re.search(r"\{(X|x|his|His|him|own)\}", w) for w in said), "a pronoun among several people"
        story.word()
    assert told > 20


def test_orders_that_are_free_do_vary():
    """The same problem is told and solved in more than one order, and an equation both ways round."""
    rng = Random(3)
    while True:
        story = Story(rng)
        try:
            pair(story, 4)
            break
        except DeadEnd:
            continue
    traces = {tuple(c for *_, c in EQUATION.findall(story.word().trace)) for _ in range(200)}
    told = {tuple(re.findall(r"\d+", story.word().question)) for _ in range(200)}
    assert len(traces) > 2 and len(told) > 2


def test_same_seed_same_examples_whatever_the_limit():
    long = list(TASK.examples("test", limit=30, seed=4))
    assert list(TASK.examples("test", limit=10, seed=4)) == long[:10]
    assert list(islice(TASK.examples("test", seed=4), 10)) == long[:10]
    assert [e.prompt for e in TASK.examples("test", limit=10, seed=5)] != [e.prompt for e in long[:10]]
    assert len({e.id for e in long}) == 30


def test_examples_do_not_depend_on_the_hash_seed():
    code = (
        "from unmask import tasks\n"
        "print([[e.prompt for e in tasks.get(n).examples('test', 5)] for n in ('wordproblems', 'functions')])"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_splits_share_neither_text_nor_signature():
    seen = {}
    for split, count in zip(SPLITS, (20000, 1500, 1500), strict=True):
        examples = list(TASK.examples(split, limit=count, seed=1))
        assert all(bucket(e.prompt) == bucket(e.meta["signature"]) == split for e in examples)
        seen[split] = {e.prompt for e in examples}, {e.meta["signature"] for e in examples}
    for one in SPLITS:
        for other in SPLITS:
            if one != other:
                assert not seen[one][0] & seen[other][0] and not seen[one][1] & seen[other][1]


def test_signature_ignores_wording_and_the_order_of_commuting_operands():
    one, other = Story(Random(1)), Story(Random(2))
    for story, order in ((one, (12, 35)), (other, (35, 12))):
        a, b = (story.given(n) for n in order)
        story.compute("total", a, "+", b)
    assert one.signature == other.signature == "(12+35)"


def test_unknown_split_and_task_are_user_errors():
    with pytest.raises(UserError, match="did you mean test"):
        next(TASK.examples("tset"))
    with pytest.raises(UserError, match="wordproblems"):
        tasks.get("wordproblem")


def test_gold_responses_score_and_wrong_ones_say_why(sample):
    for example in sample[:200]:
        assert TASK.score(example, example.response).correct
    example = sample[0]
    wrong = TASK.score(example, f"#### {int(example.answer) + 1}")
    assert not wrong.correct and "expected" in wrong.why
    assert "no '#### number'" in TASK.score(example, f"The answer is {example.answer}.").why


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so 5\n#### 18", "18"),
        ("#### $18", "$18"),
        ("####18.", "18"),
        ("####   1,800 dollars", "1,800"),
        ("#### -3", "-3"),
        ("#### 18.50", "18.50"),
        ("#### 4\nwait\n#### 5", "5"),
        ("#### 4\n#### none", None),
        ("the answer is 18", None),
        ("####", None),
        ("### 18", None),
        ("", None),
    ],
)
def test_extracting_the_answer(text, answer):
    assert extract_hash_answer(text) == answer


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("18", "18.0", True),
        ("$18", "18", True),
        ("1,800", "1800", True),
        ("-3", "-3.00", True),
        ("$1,800.00", "1800", True),
        ("18", "19", False),
        ("18", "-18", False),
        ("1,80", "180", False),
        ("18 apples", "18", False),
        ("", "", False),
        ("nan", "nan", False),
    ],
)
def test_comparing_numbers(a, b, equal):
    assert numbers_equal(a, b) is equal
