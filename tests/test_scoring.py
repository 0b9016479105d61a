"""Extraction and comparison, each rule with right, wrong and malformed answers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unmask import symbolic
from unmask.scoring import extract_boxed, extract_code, extract_hash_answer, numbers_equal, parse_number


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("12 + 6 = 18\n#### 18", "18"),
        ("####18", "18"),
        ("#### $18", "$18"),
        ("#### 1,800", "1,800"),
        ("#### 18.00 dollars", "18.00"),
        ("#### -3", "-3"),
        ("#### 5\nNo, wait.\n#### 6", "6"),
        ("#### 18.", "18"),
        ("the answer is 18", None),
        ("####", None),
        ("#### eighteen", None),
        ("#### 5\n#### eighteen", None),  # the last one counts, and it is malformed
        ("### 18", None),
        *(
            (f"#### {text}", None)
            for text in ("5/6", "1,80", "1e3", "1.2.3", "3:30", "7 - 2 = 5", "12-5", "1,800,00")
        ),
        ("#### 18%", "18"),
        ("#### 18\n- 5 of them are red", "18"),
        ("", None),
    ],
)
def test_the_number_after_the_last_hashes(text, found):
    assert extract_hash_answer(text) == found


RIGHT_18 = [
    "**18**", "`18`", r"\$18", "€18", "£18", r"\boxed{18}", r"$\boxed{18}$", "$18$", r"\(18\)", "*18* apples", "18**",
    "**18.00** dollars", "18 apples", "18 dollars", "18%", r"18\%", "$18.00.", "18 miles per hour", "$18/hour",
    "18cm", "18 cm^2", "18 m²", r"18\text{ cm}", "18°", r"18^\circ", "18 apples, because 9 + 9 = 18", "18 (9 + 9)",
    "18 dozen", "18. 9 + 9 is 18.", "18 - that is all", "\n18\n20", "18 m", "_18_", "$18 a day",
]  # fmt: skip
NOT_18 = [
    "18k", "18K", "18 million", "18 thousand dollars", "18½", "18 ½", "18 1/2", "18²", "18 or 20", "18 to 20",
    "18 – 20", "18–20", "18 x 2", "18x", "18e2", "18 and 20", "18, 20", "18 dollars and 50 cents", "18 and a half",
    "18 hours 30 minutes", r"18\frac{1}{2}", r"18 \times 2", "18_8", "18π", "18 = 9 + 9", "**18**5", "18/x", "18 000",
    "18 * x", "18 ± 1", "18^2", "18 (2)", "18√2", "18 apples or 20", "18:30", "18 /2",
]  # fmt: skip


@pytest.mark.parametrize("text", RIGHT_18)
def test_however_it_is_typeset_a_number_with_a_unit_is_that_number(text):
    assert numbers_equal(extract_hash_answer(f"9 + 9 = 18\n#### {text}") or "", "18")


@pytest.mark.parametrize("text", NOT_18)
def test_a_number_counts_whole_or_not_at_all(text):
    assert not numbers_equal(extract_hash_answer(f"#### {text}") or "", "18")


@pytest.mark.parametrize("text", ["5x3", "5(3)", "5 * x", "5 (3)", "5y"])
def test_a_factor_is_not_the_product(text):
    assert extract_hash_answer(f"#### {text}") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("−3", "-3"), ("-$3", "-3"), ("1{,}800", "1800"), (r"1\,800", "1800"), (r"1,\!800", "1800"), ("1 800", "1800"),
     ("12 345 678", "12345678"), ("1\u202f800 apples", "1800"), ("**$1,800**", "1800"), ("€1,800.50", "1800.5")],
)  # fmt: skip
def test_signs_and_thousands_are_read_however_they_are_set(text, value):
    assert numbers_equal(extract_hash_answer(f"#### {text}") or "", value)


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("18", "18.0", True),
        ("18", "$18", True),
        ("1,800", "1800", True),
        ("0.50", ".5", True),
        ("-3", "-3.00", True),
        ("18", "18.01", False),
        ("18", "-18", False),
        ("100000000000000000001", "100000000000000000000", False),  # floats would not tell them apart
        ("0.1", "0.10000000000000001", False),
        ("18", "1,8", False),
        ("18", "18 apples", False),
        ("18", "1e1", False),
        ("", "", False),
    ],
)
def test_numbers_are_compared_exactly(a, b, equal):
    assert numbers_equal(a, b) is equal


@pytest.mark.parametrize("text", ["", " ", "--3", "1,80", "1..2", "NaN", "inf", "٣.٣.٣", "$"])
def test_what_is_no_number(text):
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"so \boxed{42}.", "42"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1} and then \boxed{2}", "2"),
        (r"\fbox{7}", "7"),
        (r"\boxed 7", "7"),
        (r"\boxed { x + \{1\} }", r"x + \{1\}"),
        (r"\boxed{\left\{ 1, 2 \right\}}", r"\left\{ 1, 2 \right\}"),
        (r"\boxed 3.5", "3.5"),  # without braces: one number or one fraction, whole
        (r"\boxed 1,000.", "1,000"),
        (r"$\boxed -3$", "-3"),
        (r"\boxed\frac12", r"\frac12"),
        (r"\boxed\dfrac{\sqrt{2}}{2}.", r"\dfrac{\sqrt{2}}{2}"),
        (r"\boxed\tfrac 3{4}\)", r"\tfrac 3{4}"),
        (r"\boxed (1,2)", None),
        (r"\boxed 7/2", None),
        (r"\boxed 2x", None),
        (r"\boxed\frac1", None),
        (r"\boxed\frac{1}{2", None),
        (r"\boxed{42", None),  # cut off by the canvas
        (r"\boxed{}", None),
        (r"\boxed", None),
        ("42", None),
        ("", None),
    ],
)
def test_the_last_box_with_balanced_braces(text, found):
    assert extract_boxed(text) == found


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def f():\n    pass", "def f():\n    pass"),
        ("```python\ndef f():\n    pass\n```", "def f():\n    pass"),
        ("Here it is:\n```py\nx = 1\n```\nIt works.", "x = 1"),
        ("```\nx = 1\n```\n```\ny = 2\n```", "x = 1"),
        ("```Python3\r\nx = 1\r\n```", "x = 1"),
        ("```python\nx = 1", "x = 1"),  # never closed
        ("    return x\n", "    return x"),  # a body keeps its indentation
        ("", ""),
        ("```bash\npip install x\n```\n```python\nx = 1\n```", "x = 1"),  # the first block of Python
        ("```pycon\n>>> x\n```", "```pycon\n>>> x\n```"),
    ],
)
def test_fences_are_formatting(text, code):
    assert extract_code(text) == code


F = "def f(x):\n    return x + 1"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"{F}\n```\nThis adds one.", F),  # an end without a beginning
        ("    return x + 1\n```\nThis adds one.", "    return x + 1"),
        (f"{F}\n```\n\nFor example:\n```python\nprint(f(2))\n```", F),
        ("x = = 1\n```\nThis adds one.", "x = = 1"),
        (f"Here it is:\n```\n{F}", F),  # a beginning without an end
        (f"Answer\n```\n{F}", F),
        ("Sure, here\n```\ndef f(x):\n    return (x", "def f(x):\n    return (x"),
        ("1. So:\n   ```python\n   def f(x):\n       return x + 1\n   ```\n2. Done.", F),
        ("- ```python\n  def f(x):\n      return x + 1\n  ```", F),
        (f"~~~python\n{F}\n~~~\n", F),
        (f'```python title="f.py"\n{F}\n```', F),
        (f"```{{.python}}\n{F}\n```", F),
        (f"```\npip install x\n```\n```python\n{F}\n```", F),
        (f"```\n$ pip install x\n```\nthen\n```\n{F}\n```", F),
        (f"```python\nimport math\n```\nand\n```python\n{F}\n```", f"import math\n\n{F}"),
        (f"```python\n{F}\n```\nUse it:\n```python\nassert f(1) == 3\n```", F),
        (f"```python\nimport math as\n```\nand\n```python\n{F}\n```", F),
        (f"```python\ndef g():\n    pass\n```\n```python\n{F}\n```", f"def g():\n    pass\n\n{F}"),
        (f"With `f` (~1 s): ```python\n{F}\n```", F),
        (f"```x``` is code.\n```python\n{F}\n```", F),
        (f"```python\n{F}```", F),  # closed behind the last line
        (f"Answer: ```python\n{F}\n``` That is all.", F),
        (f"```python\n{F}\n```python\nf(1)\n```", F),
    ],
)
def test_the_program_is_found_however_it_is_fenced(text, code):
    assert extract_code(text, ["f"]) == code


EQUAL = [
    (r"\frac{1}{2}", "0.5"),
    (r"\frac12", r"\dfrac{1}{2}"),
    ("2x+1", "1 + 2x"),
    (r"(3, \frac{\pi}{2})", r"\left( 3, \frac{\pi}{2} \right)"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    ("5", "x=5"),
    (r"\text{Evelyn}", r"\text{Evelyn}"),
    (r"10\%", r"10\%"),
    (r"90^\circ", "90"),
    ("[1, 2)", "[1,2)"),
    (r"\{1, 2\}", r"\{2, 1\}"),
    ("1000", "1,\\!000"),
    ("2516_8", "2516_{8}"),
    ("52_8", r"52_{\text{eight}}"),
    ("52_8", "(52)_8"),
    ("1358", "1358_{10}"),
    ("5", "$5$"),
    ("5", "5$"),
    (r"\$5", "5"),
    ("1, 2", "$1$ and $2$"),
    ("5", r"\frac{10}{2} = 5"),
]
UNEQUAL = [
    ("5", "6"),
    (r"\frac{1}{2}", r"\frac{1}{3}"),
    ("(1, 2)", "(2, 1)"),
    ("[1, 2)", "(1, 2)"),
    ("x + 1", "x - 1"),
    (r"\text{Evelyn}", r"\text{Carla}"),
    ("5", ""),
    ("5", r"\frac{5"),
    ("5", "}{}{"),
    ("5", "five"),
    ("2516_8", "2516_{10}"),
    ("2516_8", "2516"),
    ("2516_8", "1358"),
    ("2516", "2516_8"),
    ("5", "6$ $5"),
    ("65", "6$ $5"),
    ("5", "$6$ and $5$"),
    ("5", "4=5"),
    ("5", "5=4"),
]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equivalent_answers(gold, answer):
    assert symbolic.math_equal(gold, answer) == (True, "")


@pytest.mark.parametrize(("gold", "answer"), UNEQUAL)
def test_different_or_malformed_answers(gold, answer):
    assert not symbolic.math_equal(gold, answer)[0]


def test_a_comparison_that_never_ends_is_stopped():
    symbolic.math_equal("1", "2")  # the worker is up
    start = time.monotonic()
    equal, why = symbolic.math_equal("5", "10^{10^{10}}", seconds=0.5)
    assert not equal and why
    assert time.monotonic() - start < 5
    assert symbolic.math_equal("5", "5.0")[0], "the next question meets a new worker"


def test_a_worker_that_is_killed_is_replaced():
    assert symbolic.math_equal(r"\frac{1}{2}", "0.5")[0]
    process = symbolic._worker._process
    assert process is not None
    process.kill()
    process.wait()
    assert symbolic.math_equal(r"\frac{1}{2}", "0.5")[0]


def test_a_killed_evaluation_leaves_no_comparison_behind():
    code = (
        "from unmask import symbolic\nsymbolic.math_equal('1', '2')\n"
        "print(symbolic._worker._process.pid, flush=True)\n"
        "symbolic.math_equal('5', '10^{10^{10}}', seconds=1)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    worker = int(process.stdout.readline())
    time.sleep(0.2)
    process.kill()
    process.communicate()
    end = time.monotonic() + 20
    while alive(worker) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive(worker)


def alive(pid):
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_an_endless_answer_is_no_answer():
    equal, why = symbolic.math_equal("5", "1+" * 5000 + "1")
    assert not equal and "characters" in why
