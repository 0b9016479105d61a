"""Gold traces: the filter, rule by rule; which digits may be masked; and the masks, which no tokenizer may move."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unmask
from unmask.diagnostics.arithmetic import digits, equations, evaluate, number
from unmask.diagnostics.masking import LEVELS, patterns, scaled, scaling
from unmask.diagnostics.states import check_digits, encode, observe
from unmask.diagnostics.traces import GoldTrace, examine, leaks, load_traces
from unmask.errors import UserError

RECORD = {
    "id": "a",
    "question": "How many are left of 600?",
    "trace": "<<600*30/100=180>> <<600-180=420>>",
    "equations": ["600*30/100=180", "600-180=420"],
    "answer": "420",
}


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps({**RECORD, **record}) + "\n" for record in records), encoding="utf-8")
    return path


def trace(text: str = "Step 1: 12+30=42\nStep 2: 42*10=420", answer: str = "420") -> GoldTrace:
    found = examine("t", "How many?", text, answer, 1, "substring")
    assert isinstance(found, GoldTrace), found
    return found


# --- equations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("That is 12 x $21 = $252.", ["12 x $21 = $252"]),
        ("$450 + 7 = 457, so 457", ["$450 + 7 = 457"]),
        ("<<600*30/100=180>> <<1,200-180=1,020>>", ["600*30/100=180", "1,200-180=1,020"]),
        ("(2+3)*4=20", ["(2+3)*4=20"]),
        ("Step 1: 5+6=11\n2. 11*2=22", ["5+6=11", "11*2=22"]),
        ("36 - 31 = 5", ["36 - 31 = 5"]),
        ("x = 5 and 5 = 5", []),  # no operator, no arithmetic
        (".5*4=2", [".5*4=2"]),
        ("7-9=-2", ["7-9=-2"]),
    ],
)
def test_equations(text: str, expected: list[str]) -> None:
    found = equations(text)
    assert [e.text for e in found] == expected
    for e in found:
        assert text[slice(*e.left)] + text[e.left[1] : e.right[0]] + text[slice(*e.right)] == e.text
        assert e.holds


@pytest.mark.parametrize("text", ["12+3=16", "10/0=3", "8/3=3"])
def test_equations_that_do_not_hold(text: str) -> None:
    assert not equations(text)[0].holds


def test_rounded_quotients_hold_and_leading_zeros_are_read() -> None:
    assert equations("10/3=3.33")[0].holds
    assert evaluate("007+1") == 8
    assert evaluate("40%*50") == 20
    assert number("$1,800") == 1800 and number("18.0") == 18 and number("two") is None


# --- the filter -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"equations": ["nothing here"]}, "equations"),
        ({"answer": "2/5"}, "integer"),
        ({"answer": "42.5"}, "integer"),
        ({"answer": "421"}, "final"),
        ({"equations": ["600*30/100=190", "600-180=420"]}, "verified"),
        ({"question": "Is it 420?"}, "leaked"),
        ({"equations": ["400+20=420", "420*1=420"]}, "leaked"),  # an earlier equation, and the left-hand side
        ({"equations": ["0+420=420"]}, "leaked"),
        ({"question": "Is it 1,420 or 5?"}, "leaked"),  # literally, inside another number
        ({"question": "Is it 420?", "answer": "$420"}, "leaked"),  # however the answer is written
        ({"question": "Is it 420?", "answer": "420.0"}, "leaked"),
    ],
)
def test_each_rule_drops_its_traces(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    file = write(tmp_path / "traces.jsonl", {}, change)
    gold = load_traces(file, min_digits=1)
    assert [t.id for t in gold.traces] == ["a"]
    assert {k: v for k, v in gold.dropped.items() if v} == {reason: 1}
    assert gold.read == 2 and "1 of 2" in gold.account()


def test_a_whole_number_reading_of_leaks() -> None:
    assert leaks("420", "it is 1,420", "substring") and not leaks("420", "it is 1,420", "number")
    assert leaks("1420", "it is 1,420.", "number") and not leaks("5", "2.5 or 5.5", "number")
    assert not leaks("7", "no digits", "substring")


def test_too_few_digits(tmp_path: Path) -> None:
    file = write(tmp_path / "traces.jsonl", {})
    assert len(load_traces(file, min_digits=17).traces[0].upstream) == 17  # all but the target's three
    with pytest.raises(UserError, match=r"too few upstream digits: 1.*--min-digits below 18"):
        load_traces(file, min_digits=18)
    with pytest.raises(UserError, match="--min-digits below 48"):
        load_traces(file)  # the paper's rule is a file's default


def test_traces_without_digits_are_named(tmp_path: Path) -> None:
    file = write(tmp_path / "words.jsonl", {"equations": ["two and two is four"]})
    with pytest.raises(UserError, match=r"none of the 1 traces of .* has digits in an equation"):
        load_traces(file)
    with pytest.raises(UserError, match="has digits in an equation"):
        load_traces("functions", limit=1)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UserError, match="holds no traces"):
        load_traces(tmp_path / "empty.jsonl")


def test_files_that_are_no_traces(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        load_traces(tmp_path / "nowhere.jsonl")
    file = tmp_path / "bad.jsonl"
    file.write_text('{"question": "?"}\n')
    with pytest.raises(UserError, match=r"line 1 has no field 'answer'"):
        load_traces(file)


def test_labels_prose_and_the_target_are_never_upstream() -> None:
    text = "Step 1: 12+30=42, so 42 are left.\n2. 42*10=420 and 420 it is."
    found = trace(text)
    assert found.text == text and "".join(text[at] for at in found.ending) == "420"
    assert "".join(text[at] for at in found.upstream) == "123042" + "42" + "4210"  # said again: upstream too
    assert "".join(text[at] for at in found.target) == "420"
    assert all(text[at].isdigit() for at in found.upstream + found.target)
    assert max(found.upstream) < min(found.target)
    assert digits(text, 0, 7) == [5] and 5 not in found.upstream  # the 1 of "Step 1"


def test_bare_equations_become_numbered_steps(tmp_path: Path) -> None:
    gold = load_traces(write(tmp_path / "t.jsonl", {}), min_digits=1)
    assert gold.traces[0].text == "Step 1: 600*30/100=180\nStep 2: 600-180=420"
    no_list = {key: value for key, value in RECORD.items() if key != "equations"}
    (tmp_path / "u.jsonl").write_text(json.dumps(no_list))
    assert load_traces(tmp_path / "u.jsonl", min_digits=1).traces == gold.traces
    prose = {"id": "p", "question": "?", "answer": "5", "solution": "She has 2 + 3 = <<2+3=5>>5 left.\n#### 5"}
    (tmp_path / "v.jsonl").write_text(json.dumps(prose))
    assert load_traces(tmp_path / "v.jsonl", min_digits=1).traces[0].text == "She has 2 + 3 = 5 left.\n#### 5"


def test_samples_are_seeded_and_in_source_order(tmp_path: Path) -> None:
    file = write(tmp_path / "t.jsonl", *({"id": str(n)} for n in range(40)))
    chosen = [t.id for t in load_traces(file, limit=10, min_digits=1).traces]
    assert chosen == [t.id for t in load_traces(file, limit=10, min_digits=1).traces]
    assert chosen == sorted(chosen, key=int) and len(set(chosen)) == 10
    assert chosen != [t.id for t in load_traces(file, limit=10, min_digits=1, seed=1).traces]


def test_word_problems_give_traces_for_any_model() -> None:
    gold = load_traces("wordproblems", limit=30, split="validation")
    assert len(gold.traces) == 30
    for t in gold.traces:
        assert t.text.endswith(f"#### {t.answer}") and len(t.upstream) >= 12
        assert "".join(t.text[at] for at in t.ending).endswith(t.answer)
        assert t.answer not in t.question and t.answer not in t.text[: min(t.target)]
    longer = load_traces("wordproblems", limit=32, split="validation")
    assert longer.traces[:30] == gold.traces  # a longer run goes on where a shorter one ended


# --- masks ------------------------------------------------------------------------------------------------------


def test_levels_are_the_papers_at_48_digits_and_shares_of_shorter_traces() -> None:
    assert [scaled(m, 48) for m in LEVELS] == list(LEVELS) == [scaled(m, 90) for m in LEVELS]
    assert [scaled(m, 24) for m in LEVELS] == [2, 4, 8, 16]
    assert [scaled(m, 12) for m in LEVELS] == [1, 2, 4, 8]
    assert [scaled(m, 1) for m in LEVELS] == [1, 1, 1, 1]
    assert scaled(4, 18) == 2  # 1.5 rounds up
    assert "scaled" not in scaling([48, 60]) and "1 of 2 traces" in scaling([24, 60])
    assert "4: 1/12, 8: 1/6, 16: 1/3, 32: 2/3" in scaling([24])


@given(st.integers(1, 200), st.sampled_from(LEVELS))
def test_scaling_is_the_nearest_share(count: int, level: int) -> None:
    got, exact = scaled(level, count), level * min(count, 48) / 48
    assert 1 <= got <= count
    assert got == 1 or abs(got - exact) <= 0.5


def test_patterns_are_reproducible_independent_and_within_the_upstream_digits() -> None:
    t = trace()
    drawn = {m: patterns(t, m) for m in LEVELS}
    assert drawn == {m: patterns(t, m) for m in LEVELS}
    for m, found in drawn.items():
        assert len(found) == 16 and len(set(found)) > 1
        for pattern in found:
            assert len(pattern) == scaled(m, len(t.upstream)) == len(set(pattern))
            assert set(pattern) <= set(t.upstream) and list(pattern) == sorted(pattern)
    assert patterns(t, 8)[:4] == patterns(t, 8, 4)  # fewer patterns are the first ones
    assert patterns(t, 8, seed=1) != patterns(t, 8)
    # Golden: the masks of a published result must never move.
    assert patterns(t, 8, 2) == GOLDEN


GOLDEN = [(12, 26), (26, 28)]


# --- tokens -----------------------------------------------------------------------------------------------------


def test_every_digit_is_a_token_of_its_own(model: unmask.Model) -> None:
    tokens = check_digits(model.tokenizer, model.name)
    t = trace("Each gets 12 + 30 = 42, that is $42 x 10 = $420", "420")
    encoded = encode(model, t, raw=True)
    assert encoded.prompt_ids == model.tokenizer.encode("How many?\n")
    assert model.tokenizer.decode(encoded.ids) == t.text
    assert encoded.at.keys() == {at for at, character in enumerate(t.text) if character.isdigit()}
    for at, position in encoded.at.items():
        assert encoded.ids[position] == tokens[t.text[at]]
    runs = [model.tokenizer.encode(run) for run in ("Each gets ", " + ", " = ", ", that is $", " x ", " = $")]
    assert len(encoded.ids) == sum(map(len, runs)) + len(encoded.at)  # runs are encoded apart


def test_an_ending_is_kept_closed_and_always_hidden(model: unmask.Model) -> None:
    t = trace("12 + 30 = 42\nSo 42 x 10 = 420 it is.\n#### 420")
    encoded = encode(model, t)
    assert encoded.ids[-1] == model.spec.eos_id
    assert model.tokenizer.decode(encoded.ids[:-1]) == t.text
    seen = []
    original = model.net.states
    model.net.states = lambda ids, *rest: seen.append(ids.clone()) or original(ids, *rest)  # type: ignore
    try:
        list(observe(model, encoded, [t.upstream[:1]]))
    finally:
        del model.net.states
    row = seen[0][0, len(encoded.prompt_ids) :]
    hidden = encoded.positions([*t.upstream[:1], *t.target, *t.ending])
    assert (row == model.spec.mask_id).nonzero().flatten().tolist() == sorted(hidden.tolist())


def test_a_tokenizer_that_joins_digits_is_refused() -> None:
    from types import SimpleNamespace as Stub

    joins = Stub(
        encode=lambda text: [1, 2] if text == "7" else [ord(text)], decode=lambda ids: chr(ids[0]), unk_id=None
    )
    with pytest.raises(UserError, match=r"digit 7 as 2 tokens .* one token per digit"):
        check_digits(joins, "somebody/model")  # type: ignore[arg-type]
    same = Stub(encode=lambda text: [5], decode=lambda ids: "5", unk_id=None)
    with pytest.raises(UserError, match="digit 0 as 1 tokens"):
        check_digits(same, "somebody/model")  # type: ignore[arg-type]
