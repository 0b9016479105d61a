"""Commitment order, ordering constraints and what stability admits: against loops over the definition, and on views
whose provisional text is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from helpers import CANVAS, decode, hash_model, view
from unmask.decoders.base import Decoder
from unmask.diagnostics import admitted, order
from unmask.diagnostics.constraints import AnswerLast, MostConfident, OperandsFirst, provisional
from unmask.diagnostics.decodes import facts
from unmask.errors import UserError
from unmask.trace import Trace

END = 0  # the end token of the made-up texts below


def spell(text: str) -> tuple[list[int], Any]:
    """One token per character; ∎ is the end token."""
    tokens = [END if character == "∎" else ord(character) for character in text]
    return tokens, lambda token: "" if token == END else chr(token)


def run(cls: type[MostConfident], text: str, confidence: list[float]) -> str:
    """The order in which a decoder commits the characters of a text it always expects, as one string."""
    tokens, piece = spell(text)
    decoder: Decoder = cls(piece=piece)
    memory: dict[str, Any] = {}
    open_, said = list(range(len(tokens))), []
    while open_:
        seen = view(
            [confidence[i] for i in open_], length=len(tokens), remaining=len(open_), memory=memory,
            positions=np.array(open_), token=np.array([tokens[i] for i in open_]), stop_ids=frozenset({END}),
        )  # fmt: skip
        commit = decoder.select(seen)
        (i,) = np.flatnonzero(commit.take)  # type: ignore[union-attr]
        said.append(text[open_.pop(i)])
    return "".join(said)


TEXT = "2+3=5\n#### 5∎∎"
RISING = [i / 100 for i in range(len(TEXT))]  # the end is the most confident


def test_most_confident_goes_where_confidence_leads() -> None:
    assert run(MostConfident, TEXT, RISING) == TEXT[::-1]
    assert run(MostConfident, TEXT, RISING[::-1]) == TEXT


def test_the_answer_region_goes_last() -> None:
    found = run(AnswerLast, TEXT, RISING)
    assert found == "∎∎####\n5=3+2" + "5 "  # the region is " 5", and within it confidence decides


def test_results_wait_for_their_operands() -> None:
    assert run(OperandsFirst, TEXT, RISING) == "∎∎####\n=3+25" + "5 "
    two = "1+2=3\n4+5=9\n#### 9"
    assert run(OperandsFirst, two, [i / 100 for i in range(len(two))]) == "####\n=5+49\n=2+13" + "9 "


def test_without_a_mark_the_last_number_is_the_answer() -> None:
    tokens, piece = spell("So 12 and 345 it is.∎∎")
    text = provisional(tokens, frozenset({END}), piece)
    assert text.text == "So 12 and 345 it is."
    assert sorted(text.answer()) == [10, 11, 12]
    assert provisional([END], frozenset({END}), piece).answer() == set()
    tokens, piece = spell("no number")
    assert provisional(tokens, frozenset({END}), piece).answer() == set()


def test_results_and_their_operands_are_found_on_their_line() -> None:
    text = "In 12 h 3 x $21 = $63.\n5 + 1 = 6 = 6"
    tokens, piece = spell(text)
    found = list(provisional(tokens, frozenset({END}), piece).results())
    spelled = [("".join(text[i] for i in sorted(a)), "".join(text[i] for i in sorted(b))) for a, b in found]
    assert spelled == [("$63", "In 12 h 3 x $21 "), ("6", "5 + 1 "), ("6", " 6 ")]


def test_a_token_of_several_characters_is_one_position() -> None:
    found = provisional([1, 2, 3], frozenset({9}), {1: "2 +", 2: " 3 =", 3: " 5"}.__getitem__)
    assert found.owner.tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert list(found.results()) == [({2}, {0, 1})]


@pytest.mark.parametrize("cls", [MostConfident, AnswerLast, OperandsFirst])
def test_constraints_decode_any_model_one_token_at_a_time(cls: type[MostConfident]) -> None:
    """Texts of digits, equals signs and line ends at random: never stuck, one commit per forward, mask-free."""
    signs = "0123=+\n# 45678"
    model = hash_model(seed=3)
    out = decode(model, "1 2 3", cls(piece=lambda token: signs[token % len(signs)]), canvas_length=CANVAS)
    assert out.nfe == CANVAS and model.spec.mask_id not in out.canvas
    assert all(step.committed.sum() == 1 for step in out.trace.steps)


# --- order ------------------------------------------------------------------------------------------------------


def line(label: str, index: int, steps: list[int], *, correct: bool = True, end: int | None = None) -> dict[str, Any]:
    count = max(steps) + 1
    return {
        "decoder": label, "index": index, "correct": correct, "error": None, "order": steps, "steps": count,
        "nfe": count, "end": len(steps) if end is None else end, "routes": {}, "admitted": [],
    }  # fmt: skip


def test_heat_map_columns_are_shares_of_samples() -> None:
    rng = np.random.default_rng(0)
    lines = [line("d", i, rng.integers(0, 13, 30).tolist()) for i in range(50)]
    found = order.analyse(lines).decoders["d"]
    np.testing.assert_allclose(found.heat.sum(axis=0), 100)
    for position in (0, 17, 29):
        for number in range(order.BINS):
            low, high = number / order.BINS, (number + 1) / order.BINS
            inside = sum(low < (x["order"][position] + 1) / x["steps"] <= high + 1e-12 for x in lines)
            assert found.heat[number, position] == pytest.approx(100 * inside / 50)


def test_rank_correlation_is_spearmans() -> None:
    assert order.rank_correlation(np.arange(9), np.arange(9)) == pytest.approx(1)
    assert order.rank_correlation(np.arange(9), -np.arange(9)) == pytest.approx(-1)
    assert math.isnan(order.rank_correlation(np.arange(3), np.zeros(3)))
    # By hand: ranks of [3, 1, 1, 2] are [4, 1.5, 1.5, 3].
    assert order.ranks(np.array([3, 1, 1, 2])).tolist() == [4, 1.5, 1.5, 3]
    expected = np.corrcoef([1, 2, 3, 4], [4, 1.5, 1.5, 3])[0, 1]
    assert order.rank_correlation(np.arange(4), np.array([3, 1, 1, 2])) == pytest.approx(expected)


def profile(first: float, middle: float, last: float, n: int = 12) -> order.Profile:
    rng = np.random.default_rng(1)
    shape = np.concatenate([np.full(10, first), np.full(80, middle), np.full(10, last)])
    return order.Profile((shape + rng.normal(0, 0.02, (n, 100))).clip(0, 1), np.zeros((n, 100)))


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((0.8, 0.3, 0.9), "U-shaped"),
        ((0.3, 0.3, 0.9), "high at the end only"),
        ((0.9, 0.3, 0.3), "high at the beginning only"),
        ((0.3, 0.3, 0.3), "no peak at either end"),
    ],
)
def test_the_profile_is_named_for_what_it_is(ends: tuple[float, float, float], said: str) -> None:
    assert said in profile(*ends).verdict()


def test_no_shape_is_read_off_a_few_examples() -> None:
    assert profile(0.95, 0.2, 0.99, n=3).verdict().startswith("Too few examples to judge")


def test_constraints_are_paired_on_common_examples() -> None:
    lines = [line("most-confident", i, [0, 1], correct=i < 10) for i in range(40)]
    lines += [line("answer-last", i, [0, 1], correct=i < 25) for i in range(30)]
    table = order.constraint_table(order.analyse(lines))
    assert table is not None
    first, second = table.records
    assert first["n"] == second["n"] == 30 and first["accuracy"] == pytest.approx(10 / 30)
    assert second["delta"] == pytest.approx(0.5) and second["delta_low"] > 0 and second["p"] < 0.001
    assert order.constraint_table(order.analyse([line("rpd", 0, [0])])) is None


def test_a_failed_decode_counts_as_wrong_and_has_no_order() -> None:
    failed = {"decoder": "rpd", "index": 1, "correct": False, "error": "non-finite", "order": []}
    found = order.analyse([line("rpd", 0, [0, 1]), failed]).decoders["rpd"]
    assert found.n == 1 and found.verdicts == {0: True, 1: False}


# --- what stability admits --------------------------------------------------------------------------------------

PARAMS = {"rpd": {"theta_s": 3.5, "w": 15.0, "k_max": 6, "theta_c": 0.6, "theta_h": 0.9, "lazy": False}}


def test_the_ceilings_are_the_papers() -> None:
    assert admitted.ceiling(PARAMS["rpd"]) == pytest.approx(1 / 6)
    assert admitted.ceiling({**PARAMS["rpd"], "theta_s": 2.5, "w": 20.0}) == pytest.approx(0.175)
    assert admitted.ceiling({**PARAMS["rpd"], "w": 0.0}) is None
    assert admitted.ceiling({**PARAMS["rpd"], "theta_c": 0.9}) is None


def test_shares_and_percentiles() -> None:
    lines = []
    for index in range(10):
        made = line("rpd", index, [0, 1])
        made["routes"] = {"confidence": 8, "stability": 1, "fallback": 1}
        made["admitted"] = [[0.6 + index / 100, 4 + index % 3, index / 100]]
        lines.append(made)
    lines.append(line("fast-dllm", 0, [0, 1]))
    found = admitted.analyse(lines, {**PARAMS, "fast-dllm": {"threshold": 0.9}})
    assert set(found) == {"rpd"}
    item = found["rpd"]
    assert item.n == 10 and item.commits == 100 and item.share("stability") == 0.1 and item.exact
    assert item.percentiles()["c"] == pytest.approx(np.percentile([0.6 + i / 100 for i in range(10)], [10, 50, 90]))
    record = admitted.table(found, "t").records[0]
    assert record["r_max"] == pytest.approx(0.09) and record["K_p50"] == 5
    lazy = admitted.analyse(lines, {"rpd": {**PARAMS["rpd"], "lazy": True}})
    assert "lower bounds" in admitted.table(lazy, "t").notes[-1]


@pytest.mark.parametrize("seed", range(3))
def test_admitted_tokens_of_real_decodes_respect_the_rule(seed: int) -> None:
    """c, K, r on file are those of tokens that the rule admits, and no r passes the ceiling."""
    model = hash_model(seed=seed, layers_agree=0.95)
    options = {"theta_s": 1.0, "w": 4.0, "theta_c": 0.3, "theta_h": 0.9, "first_layer": 2, "lazy": False}
    out = decode(model, "1 2 3", "rpd", canvas_length=CANVAS, **options)
    held = facts(out.trace, text=False)
    assert len(held["admitted"]) == held["routes"].get("stability", 0)
    limit = admitted.ceiling(out.trace.header["params"])
    assert limit is not None
    for c, K, r in held["admitted"]:
        assert 0.3 <= c < 0.9 and min(K, 6) - 4.0 * r >= 1.0 - 1e-5 and r <= limit + 1e-6
    assert held["order"] == out.trace.commit_steps().tolist()


def test_traces_on_file_are_read_alike(tmp_path: Any) -> None:
    model = hash_model(seed=1)
    files = []
    for name in ("fast-dllm", "left-to-right"):
        out = decode(model, "1 2 3", name, canvas_length=CANVAS)
        out.trace.save(tmp_path / f"{name}.jsonl")
        files.append(tmp_path / f"{name}.jsonl")
    result = order.analyse(order.from_traces(Trace.load(file) for file in files))
    assert set(result.decoders) == {"fast-dllm", "left-to-right"} and list(result.samples) == [0]
    assert result.decoders["left-to-right"].whole == [pytest.approx(1.0)]
    assert order.order_table(result, "t").records[0]["accuracy"] is None


def test_constraints_need_a_numeric_answer() -> None:
    from unmask.diagnostics.decodes import Request, prepare
    from unmask.evaluate.specs import DecoderSpec

    with pytest.raises(UserError, match="functions does not have: use another --task"):
        prepare(Request("tiny", "functions", (DecoderSpec("rpd", "rpd"),), limit=1))
    with pytest.raises(UserError, match="did you mean answer-last"):
        Request("tiny", "wordproblems", (), ("answer-lst",))
    with pytest.raises(UserError, match="cannot be called initial"):
        Request("tiny", "wordproblems", (DecoderSpec("initial", "rpd"),))
