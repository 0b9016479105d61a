"""The functions task: what the code does, run for real, against what the reference says."""

from __future__ import annotations

import itertools
import re
from random import Random

import pytest

from unmask.tasks.functions import FAMILIES, Functions, _length, extract_code, generate
from unmask.tasks.functions.names import parameters, variables
from unmask.tasks.functions.program import Program
from unmask.tasks.pieces import PROMPT_LIMIT, RESPONSE_LIMIT
from unmask.tasks.splits import SPLITS, bucket, rng_for

TASK = Functions()


@pytest.fixture(scope="module")
def sample():
    rng = rng_for("test_functions")
    return [generate(rng) for _ in range(1500)]


def test_gold_code_satisfies_every_assertion(sample):
    for example in sample:
        shown = example.prompt.split("\n")[1:]
        exec("\n".join([example.response, *shown, *example.meta["tests"]]), {})


def test_assertions_held_out_are_enough_and_different(sample):
    for example in sample:
        shown, held_out = example.prompt.split("\n")[1:], example.meta["tests"]
        assert len(shown) == 2 and len(set(held_out)) >= 5
        assert not set(shown) & set(held_out)
        assert all(a.startswith(f"assert {_name(example.response)}(") for a in (*shown, *held_out))


def test_assertions_tell_programs_apart(sample):
    """A constant function passes hardly ever: almost every example has two different results."""
    constant = sum(len({a.split(" == ", 1)[1] for a in e.meta["tests"]}) == 1 for e in sample)
    assert constant < 0.03 * len(sample)


def _name(code: str) -> str:
    match = re.match(r"def (\w+)\(", code)
    assert match
    return match[1]


def _expansions(template: str, program: Program) -> list[str]:
    """`template` with each of its options in turn (not their product: the options are independent)."""
    names = sorted(set(re.findall(r"<(\w+)>", template)))
    most = max((len(program.options[n]) for n in names), default=1)
    texts = []
    for i in range(most):
        text = template
        for name in names:
            text = text.replace(f"<{name}>", program.options[name][i % len(program.options[name])])
        texts.append(text)
    return texts


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_every_way_of_writing_a_program_agrees_with_its_reference(family):
    rng = Random(family.__name__)
    for _ in range(12):
        program = family(rng)
        params = parameters(rng, program)
        calls = [program.draw(rng, size) for size in (1, 2, 3, 4, 5, 6, 8)]
        for body in itertools.chain.from_iterable(_expansions(b, program) for b in program.bodies):
            code = body.format_map(variables(rng, program, params)).replace("\n", "\n    ")
            scope: dict = {}
            exec(f"def f({', '.join(params.values())}):\n    {code}", scope)
            for arguments in calls:
                copies = [list(a) if isinstance(a, list) else a for a in arguments]
                assert scope["f"](*copies) == program.run(*arguments), (program.signature, code, arguments)
                assert copies == list(arguments), "a gold program changes its arguments"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_every_family_has_five_requests_and_two_ways_of_writing(family):
    rng = Random(0)
    programs = [family(rng) for _ in range(150)]
    assert all(len(set(p.requests)) >= 5 and len(set(p.bodies)) >= 2 for p in programs)
    assert len({p.signature for p in programs}) > 15
    for program in programs[:20]:
        for request in program.requests:
            for text in _expansions(request, program):
                assert "{" not in text.format_map(parameters(rng, program))


def test_there_are_many_families():
    assert len(FAMILIES) >= 25


def test_lengths_fit_the_embedded_model(sample):
    assert max(_length(e.prompt) for e in sample) <= PROMPT_LIMIT
    assert max(_length(e.response) for e in sample) <= RESPONSE_LIMIT


def test_code_is_indented_by_four_spaces(sample):
    for example in sample:
        for line in example.response.split("\n"):
            assert (len(line) - len(line.lstrip(" "))) % 4 == 0 and line == line.rstrip()


def test_same_seed_same_examples_whatever_the_limit():
    long = list(TASK.examples("test", limit=20, seed=4))
    assert list(TASK.examples("test", limit=7, seed=4)) == long[:7]
    assert [e.prompt for e in TASK.examples("validation", limit=7, seed=4)] != [e.prompt for e in long[:7]]


def test_splits_share_neither_text_nor_signature():
    seen = {}
    for split, count in zip(SPLITS, (20000, 600, 600), strict=True):
        examples = list(TASK.examples(split, limit=count, seed=1))
        assert all(bucket(e.prompt) == bucket(e.meta["signature"]) == split for e in examples)
        seen[split] = {e.prompt for e in examples}, {e.meta["signature"] for e in examples}
    for one, other in itertools.permutations(SPLITS, 2):
        assert not seen[one][0] & seen[other][0] and not seen[one][1] & seen[other][1]


def test_scoring_runs_the_code(sample):
    example = sample[0]
    name = _name(example.response)
    assert TASK.score(example, example.response).correct
    assert TASK.score(example, f"Here it is:\n```python\n{example.response}\n```\nDone.").correct
    for text, why in (
        ("", "no code"),
        ("```python\n```", "no code"),
        (f"def {name}(*args):\n    return object()", "AssertionError"),
        (f"def {name}(:", "SyntaxError"),
        ("x = 1", "NameError"),
        (f"def {name}(*args):\n    import sys\n    sys.exit()", "SystemExit"),
        (f"def {name}(*args):\n    import os\n    os._exit(0)", "exited before the end"),
    ):
        score = TASK.score(example, text)
        assert not score.correct and why in score.why, (text, score)


def test_extracting_code():
    assert extract_code("def f():\n    return 1\n") == "def f():\n    return 1"
    assert extract_code("So:\n```py\ndef f():\n    return 1\n```") == "def f():\n    return 1"
    assert extract_code("```\na = 1\n") == "a = 1"
