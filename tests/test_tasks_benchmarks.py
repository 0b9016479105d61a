"""GSM8K, MATH-500, HumanEval, MBPP: data checked on load, prompts fixed, gold right and wrong wrong."""

from __future__ import annotations

import gzip
import json
import logging
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest

from eval_helpers import benchmark_data, needs_data
from unmask import sandbox, symbolic, tasks
from unmask.cli import main
from unmask.errors import UserError
from unmask.tasks.data import Benchmark, Source, checksum
from unmask.tasks.gsm8k import GSM8K
from unmask.tasks.humaneval import program

COUNTS = {"gsm8k": 1319, "math500": 500, "humaneval": 164, "mbpp": 500}


def load(name):
    task = tasks.get(name)
    task.data = benchmark_data()
    return task, list(task.examples())


def verdicts(task, pairs):
    """Scores of (example, response) pairs; sandboxed ones two at a time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda pair: task.score(*pair), pairs))


# --- gold and wrong ---------------------------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize("name", ["gsm8k", "math500", "humaneval", pytest.param("mbpp", marks=pytest.mark.slow)])
def test_gold_answers_score_100_percent(name):
    task, examples = load(name)
    assert len(examples) == len({example.id for example in examples}) == COUNTS[name]
    scores = verdicts(task, [(example, example.response) for example in examples])
    assert [(e.id, s.why) for e, s in zip(examples, scores, strict=True) if not s.correct] == []


@needs_data
def test_gold_answers_of_math500_are_equal_by_symbols_too():
    """Not only because they are spelled alike."""
    _, examples = load("math500")
    assert [e.id for e in examples[::7] if symbolic.compare(e.answer, e.answer) is not True] == []


@needs_data
@pytest.mark.parametrize("name", ["gsm8k", "math500"])
def test_another_examples_answer_scores_0_percent(name):
    task, examples = load(name)

    def value(example):
        return example.answer.removeprefix("x=").replace(" ", "")

    pairs = [
        (example, next(o.response for o in examples[i + 1 :] + examples if value(o) != value(example)))
        for i, example in enumerate(examples)
    ]
    assert [e.id for (e, _), s in zip(pairs, verdicts(task, pairs), strict=True) if s.correct] == []


@needs_data
@pytest.mark.parametrize("name", ["humaneval", pytest.param("mbpp", marks=pytest.mark.slow)])
def test_code_that_returns_nothing_scores_0_percent(name):
    task, examples = load(name)
    examples = examples[:: 2 if name == "humaneval" else 5]
    names = [example.meta.get("names") or [example.meta["entry_point"]] for example in examples]
    pairs = [
        (example, "\n".join(f"def {each}(*args, **kwargs):\n    return None" for each in known))
        for example, known in zip(examples, names, strict=True)
    ]
    assert [e.id for (e, _), s in zip(pairs, verdicts(task, pairs), strict=True) if s.correct] == []


@needs_data
@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("text", ["", "   ", "I do not know.", "#### ", "\\boxed{", "```python\n```"])
def test_malformed_answers_are_wrong_and_say_why(name, text):
    task, examples = load(name)
    score = task.score(examples[0], text)
    assert not score.correct and score.why


@needs_data
def test_one_broken_test_is_enough_to_fail_mbpp():
    task, examples = load("mbpp")
    example = examples[0]
    tests = [*example.meta["tests"][:2], example.meta["tests"][2].replace("==", "!=")]
    assert not task.score(replace(example, meta={**example.meta, "tests": tests}), example.response).correct


@needs_data
@pytest.mark.parametrize("code", ["x = 1", "def f(:"])
def test_code_of_mbpp_that_is_not_its_own_is_refused(tmp_path, code):
    """Its names are what the tests may call: with other code every answer would be wrong."""
    lines = (benchmark_data() / "mbpp.jsonl").read_text(encoding="utf-8").splitlines()
    changed = write(tmp_path / "mbpp.jsonl", [json.dumps({**json.loads(line), "code": code}) for line in lines])
    with pytest.raises(UserError, match="differs from mbpp test as published"):
        list(tasks.get("mbpp").__class__(changed).examples())


@needs_data
def test_mbpp_is_tasks_11_to_510_and_setup_runs_after_the_solution():
    task, examples = load("mbpp")
    assert [e.id for e in examples] == [f"mbpp/{i}" for i in range(11, 511)]
    tree = next(e for e in examples if e.id == "mbpp/367")
    assert tree.meta["setup"].startswith("root = Node(1)") and task.score(tree, tree.response).correct


# --- HumanEval's two forms of answer ----------------------------------------------------------------------------

PROMPT = 'from typing import List\n\n\ndef total(xs: List[int]) -> int:\n    """ Sum. """\n'


@pytest.mark.parametrize(
    "answer",
    [
        "def total(xs: List[int]) -> int:\n    return sum(xs)",  # the import is the prompt's
        "    return sum(xs)",  # a bare body continues the prompt
        "import math\n\ndef helper(xs):\n    return math.fsum(xs)\n\ndef total(xs):\n    return int(helper(xs))",
        "# Mine.\nfrom __future__ import annotations\n\ndef total(xs: Later) -> Later:\n    return sum(xs)",
        '"""Mine."""\nfrom __future__ import (\n    annotations,\n)\n\ndef total(xs: X):\n    return sum(xs)',
    ],
)
def test_a_whole_function_and_a_bare_body_are_both_accepted(answer):
    code = program(answer, PROMPT, "total")
    assert sandbox.judge(code, "assert total([1, 2]) == 3", names=["total"]).passed


def test_an_import_from_the_future_in_the_middle_stays_a_mistake():
    code = program("x = 1\nfrom __future__ import annotations\ndef total(xs):\n    return sum(xs)", PROMPT, "total")
    assert "SyntaxError" in sandbox.judge(code, "assert total([1, 2]) == 3", names=["total"]).reason


def test_a_stub_is_not_an_answer():
    code = program("def total(xs):\n    pass", PROMPT, "total")
    assert not sandbox.judge(code, "assert total([1, 2]) == 3", names=["total"]).passed


# --- prompts ----------------------------------------------------------------------------------------------------


def test_prompts_are_versioned_text_and_ask_for_what_is_scored():
    wanted = {"gsm8k": "#### <answer>", "math500": r"\boxed{}", "humaneval": "no Markdown fences", "mbpp": "{tests}"}
    for name, words in wanted.items():
        task = tasks.get(name)
        assert words in task.template
        assert task.version == 1, "another prompt is another version, and another file"


@needs_data
def test_the_filled_prompts():
    gsm8k = load("gsm8k")[1][0].prompt
    assert gsm8k.startswith("Solve") and "Janet" in gsm8k and "{" not in gsm8k
    humaneval = load("humaneval")[1][0].prompt
    assert "def has_close_elements" in humaneval and humaneval.endswith('"""')
    mbpp = load("mbpp")[1][0].prompt
    assert mbpp.count("assert ") == 3 and mbpp.rstrip().endswith("Python code only.") and "\r" not in mbpp


# --- data that is not what it should be -------------------------------------------------------------------------

ROWS = [{"question": f"How many is {i}?", "answer": f"It is {i}.\n#### {i}"} for i in range(3)]


@pytest.fixture
def small(monkeypatch):
    """GSM8K with three rows."""
    benchmark = GSM8K.benchmark
    rows = [benchmark.adapt(row) for row in ROWS]
    source = Source("gsm8k_test", 3, checksum(rows, benchmark.identity), ("openai/gsm8k", "main", "test"))
    monkeypatch.setattr(GSM8K, "benchmark", Benchmark("gsm8k", {"test": source}, benchmark.adapt, benchmark.identity))
    monkeypatch.delenv("UNMASK_DATA", raising=False)


def write(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(path):
    return list(GSM8K(path).examples())


def test_a_file_a_folder_and_a_compressed_file_are_read(small, tmp_path, monkeypatch):
    lines = [json.dumps(row) for row in ROWS]
    file = write(tmp_path / "gsm8k_test.jsonl", lines)
    (tmp_path / "zipped").mkdir()
    with gzip.open(tmp_path / "zipped" / "gsm8k_test.jsonl.gz", "wt") as out:
        out.write("\r\n".join(lines))
    found = read(file)
    assert [e.answer for e in found] == ["0", "1", "2"] and found[0].id == "gsm8k/test/0"
    assert found == read(tmp_path) == read(tmp_path / "zipped")
    monkeypatch.setenv("UNMASK_DATA", str(tmp_path))
    assert found == read(None)


def test_other_published_forms_of_the_same_set_are_the_same(small, tmp_path):
    rows = [{"id": f"x/{i}", "question": r["question"] + " ", "solution": r["answer"].replace("\n", "\r\n"),
             "answer": str(i)} for i, r in enumerate(ROWS)]  # fmt: skip
    assert len(read(write(tmp_path / "a.jsonl", [json.dumps(row) for row in rows]))) == 3


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([json.dumps(ROWS[0]), "{oops", json.dumps(ROWS[2])], "line 2 is not JSON"),
        ([json.dumps(ROWS[0]), "[1]", json.dumps(ROWS[2])], "line 2 is not a JSON object"),
        ([json.dumps(ROWS[0]), '{"question": "x"}'], "line 2 has no field 'answer'"),
        ([json.dumps(ROWS[0]), '{"question": "x", "answer": "3"}'], "line 2 is not a row of it"),
        ([json.dumps(ROWS[0]), '{"question": 5, "answer": 7}'], "line 2 is not a row of it"),
        (
            [json.dumps(ROWS[0]), "[" * 200_000],
            "line 2 is n",
        ),  # nested too deep, or no JSON, as the parser's limit is
        ([*map(json.dumps, ROWS[:2]), '{"question": %s, "answer": "#### 2"}' % ("[" * 1500 + "]" * 1500)], "nested"),
        ([*map(json.dumps, ROWS[:2]), '{"question": "\\ud800", "answer": "#### 2"}'], "differs from gsm8k test"),
        ([json.dumps(ROWS[0])], "has 1 rows of gsm8k test; the benchmark has 3"),
        ([json.dumps(row) for row in (*ROWS, *ROWS)], "has 6 rows"),
        ([json.dumps(row) for row in ROWS[::-1]], "differs from gsm8k test as published"),
        ([json.dumps({**row, "answer": row["answer"] + "1"}) for row in ROWS], "differs from gsm8k test"),
        ([], "has 0 rows"),
    ],
)
def test_wrong_data_is_one_sentence(small, tmp_path, capsys, lines, said):
    file = write(tmp_path / "data.jsonl", lines)
    assert main(["eval", "--task", "gsm8k", "--data", str(file), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert said in error and str(file) in error and len(error.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_binary_data_is_one_sentence(small, tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not UTF-8"):
        read(tmp_path / "x.jsonl")
    (tmp_path / "x.gz").write_bytes(b"not gzip")
    with pytest.raises(UserError, match="cannot be read"):
        read(tmp_path / "x.gz")


def test_missing_data_says_which_path_and_how_to_get_it(small, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"nothere.* does not exist: name a JSONL file, or a folder"):
        read(tmp_path / "nothere.jsonl")
    with pytest.raises(UserError, match=r"holds no gsm8k_test\.jsonl: give the file with --data FILE"):
        read(tmp_path)
    monkeypatch.setenv("UNMASK_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"UNMASK_DATA=.* holds no gsm8k_test\.jsonl"):
        read(None)


def test_without_the_extra_the_hub_is_explained(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"data of gsm8k is not here: .*pip install 'unmask\[eval\]'"):
        read(None)


def test_the_hubs_form_is_read(small, monkeypatch):
    asked = []

    def load_dataset(*arguments, **more):
        asked.append((arguments, more))
        return ROWS

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    assert [e.answer for e in read(None)] == ["0", "1", "2"]
    assert asked == [(("openai/gsm8k", "main"), {"split": "test"})]


def test_without_math_verify_math500_refuses_before_it_decodes(monkeypatch, capsys):
    monkeypatch.setattr(symbolic, "find_spec", lambda name: None)
    assert main(["eval", "--task", "math500", "--model", "tiny"]) == 2
    assert "pip install 'unmask[eval]'" in capsys.readouterr().err


@needs_data
def test_the_training_split_of_gsm8k_is_complete():
    task, _ = load("gsm8k")
    assert sum(1 for _ in task.examples("train")) == 7473


@needs_data
def test_mbpp_splits_are_its_authors():
    task, _ = load("mbpp")
    sizes = Counter({split: len(list(task.examples(split))) for split in ("prompt", "validation", "train")})
    assert sizes == {"prompt": 10, "validation": 90, "train": 374}


def test_a_hub_out_of_reach_is_one_sentence(monkeypatch, capsys, tmp_path):
    """The hub's library tells of every retry; the user hears what came of them, and what to do instead."""
    logger, told = logging.getLogger("huggingface_hub"), []
    level = logger.level

    def load_dataset(*arguments, **more):
        told.append(logger.isEnabledFor(logging.WARNING))  # "Retrying in 8s [Retry 4/5]."
        raise ConnectionError("Couldn't reach it")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.delenv("UNMASK_DATA", raising=False)
    assert main(["eval", "--task", "gsm8k", "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert "Couldn't reach it" in error and "--data FILE" in error and len(error.strip().splitlines()) == 1
    assert told == [False] and logger.level == level and not (tmp_path / "run").exists()
