"""Effects against the default, beside the paper's: numbers from folders written by hand."""

from __future__ import annotations

import json

import pytest

from test_report import make, report
from unmask.report import paper
from unmask.report.effects import agreement, effects, spearman
from unmask.report.runs import load

LABELS = ("default", "fast-dllm", "rpd", "rpd-block", "confidence")  # NFE 10, 20, ...; seconds 0.1, 0.2, ...


def test_differences_and_ratios(tmp_path, capsys):
    rows = json.loads(report(capsys, make(tmp_path / "run", LABELS), "--table", "effects", "-f", "json"))["rows"]
    by_label = {row["label"]: row for row in rows}
    assert by_label["default"]["difference"] is None and by_label["default"]["forwards"] == 1
    # Every third example of 60 is wrong with default, every fourth with fast-dllm.
    assert by_label["fast-dllm"]["difference"] == pytest.approx(20 / 60 - 15 / 60)
    assert [by_label[name]["forwards"] for name in LABELS] == pytest.approx([1, 2, 3, 4, 5])
    assert [by_label[name]["runtime"] for name in LABELS] == pytest.approx([0.5, 1, 1.5, 2, 2.5])
    assert "forwards (paper)" not in by_label["rpd"]


def test_the_papers_own_cell_or_its_kin(tmp_path, capsys):
    folder = make(tmp_path / "run", LABELS)
    row = {
        r["label"]: r
        for r in json.loads(report(capsys, folder, "--table", "effects", "--paper", "-f", "json"))["rows"]
    }
    # LLaDA on GSM8K stands in for word problems: 78.85 - 76.50 and 71.76 / 256; Table 2 has the full canvas.
    assert row["rpd"]["difference (paper)"] == pytest.approx(2.35)
    assert row["rpd"]["forwards (paper)"] == pytest.approx(71.76 / 256)
    assert row["confidence"]["difference (paper)"] == pytest.approx(54.59 - 76.50)
    assert row["rpd"]["runtime (paper)"] == 1.03
    dream = paper.kin("Dream-org/Dream-v0-Instruct-7B", "gsm8k")
    assert dream["rpd"] == {"accuracy": 81.80, "nfe": 82.03, "tps": 24.56}
    assert paper.kin("Dream-org/Dream-v0-Instruct-7B", "wordproblems") == {}


def test_agreement_is_computed_from_the_numbers(tmp_path):
    """Here accuracy rises with every decoder: the full canvas is better than the default, unlike in the paper.

    20 of 60 are wrong with the default and 9 with the full canvas."""
    found = effects(load([make(tmp_path / "run", LABELS)]))
    said = agreement(found, "wordproblems")
    assert "confidence (+18.3)" in said and "against the paper's sign: confidence" in said
    assert "Too few" in agreement(found, "functions")


def test_without_a_default_nothing_is_compared(tmp_path):
    found = effects(load([make(tmp_path / "run", ("fast-dllm", "rpd"))]))
    assert [e.paired for e in found] == [None, None] and [e.runtime for e in found] == [1.0, 2.0]
    assert [e.forwards for e in found] == [None, None]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1, 2, 3], [10, 20, 30], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 2, 2, 4], [1, 3, 2, 4], 0.948683),
        ([1, 1], [1, 2], 0),
    ],
)
def test_rank_correlation(a, b, expected):
    """The third: ranks 1, 2.5, 2.5, 4 against 1, 3, 2, 4; Pearson of these by hand is 4.5 / sqrt(4.5 * 5)."""
    assert spearman(a, b) == pytest.approx(expected)
