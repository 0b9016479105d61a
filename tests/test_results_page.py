"""The results page: its verdicts follow from the runs, its sentences from the verdicts."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import claims
import results
from claims import CONTRADICTED, FEW, HOLDS, NOT_SHOWN, Claim, Runs


def samples(right: list[bool], nfe: float, seconds: float = 1.0) -> dict[int, dict[str, Any]]:
    return {
        i: {"correct": ok, "nfe": nfe + i % 3, "seconds": seconds, "tokens": 10} for i, ok in enumerate(right)
    }  # fmt: skip


PAPER = {"a": {"accuracy": 50.0, "nfe": 100.0}, "b": {"accuracy": 60.0, "nfe": 50.0}}
MIXED, BETTER = [True, False] * 20, [True] * 40


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        (MIXED, BETTER, HOLDS),
        (BETTER, MIXED, CONTRADICTED),
        (MIXED, MIXED, NOT_SHOWN),
        ([True] * 36 + [False] * 4, BETTER, NOT_SHOWN),  # the bootstrap alone would say yes; McNemar: p = 0.125
        (MIXED[:6], BETTER[:6], FEW),
        ([], BETTER, FEW),
    ],
)
def test_a_difference_needs_more_than_chance(a: list[bool], b: list[bool], verdict: str) -> None:
    claim = Runs({"a": samples(a, 9), "b": samples(b, 9)}, PAPER).accuracy("Table 1", "b is better", "a", "b")
    assert claim.verdict == verdict and claim.theirs == "+10.0 points"


@pytest.mark.parametrize(("cost", "verdict"), [(5, HOLDS), (20, CONTRADICTED), (10, NOT_SHOWN)])
def test_a_cost_lies_on_the_papers_side_of_one_or_not(cost: float, verdict: str) -> None:
    runs = Runs({"a": samples(MIXED, 10), "b": samples(MIXED, cost)}, PAPER)
    claim = runs.cost("Table 1", "b is cheaper", "a", "b")
    assert claim.verdict == verdict and claim.theirs == "0.50 ×"
    assert runs.cost("Figure 5c", "b is dearer", "a", "b", 1.4).verdict == {
        HOLDS: CONTRADICTED, CONTRADICTED: HOLDS, NOT_SHOWN: NOT_SHOWN,
    }[verdict]  # fmt: skip


def test_only_common_examples_are_compared() -> None:
    runs = Runs({"a": samples([False] * 8 + [True] * 32, 9), "b": samples([True] * 8, 9)}, PAPER)
    assert (
        runs.accuracy("Table 1", "", "a", "b").ours.startswith("+100.0 points") and len(runs.pair("a", "b")[0]) == 8
    )


def test_every_main_and_ablation_statement_has_the_papers_value() -> None:
    names = [*results.MAIN.split(","), *results.ABLATION.split(",")]
    runs = Runs({name: samples(MIXED, 10) for name in names}, claims.kin("tiny", "wordproblems"))
    found = [
        *claims.main(runs, "wordproblems"),
        *claims.lookahead(runs),
        *claims.ablation(runs),
        *claims.runtime(runs),
    ]
    printed = {claim.says: claim.theirs for claim in found}
    assert printed["without blocks, confidence collapses"] == "-21.8 points"
    assert printed["wordproblems: RPD needs fewer forwards than the default"] == "0.28 ×"
    assert printed["cumulative entropy (CE) undoes the collapse"] == "+24.3 points"
    assert printed["LoPA takes longer than Fast-dLLM"] == "1.45 ×"
    assert {claim.section for claim in found} == {"Table 1", "Table 2", "Figure 5c"}


def test_the_sentences_follow_from_the_verdicts() -> None:
    found = [
        Claim("Table 1", "one", "", "", HOLDS), Claim("Table 1", "two", "", "", CONTRADICTED),
        Claim("Table 2", "three", "", "", NOT_SHOWN), Claim("Table 2", "four", "", "", HOLDS),
    ]  # fmt: skip
    assert claims.summary(found) == (
        "Of 4 statements, 2 hold for this model, 1 are contradicted, 1 are not shown at this n. Contradicted: two."
    )
    assert (
        claims.of_section(found, "Table 1") == "**Agreement with the paper.** Holds (1): one. Contradicted (1): two."
    )
    assert claims.of_section(found, "Table 2") == (
        "**Agreement with the paper.** Holds (1): four. Not shown (1): three."
    )
    assert claims.of_section(found, "Figure 1") == ""
    assert claims.table(found).count("\n") == 5 and "**contradicted**" in claims.table(found)


def test_settings_of_the_shipped_model_stand_beside_the_papers() -> None:
    table = results.hyperparameters()
    assert "| θs | 3.5 (LLaDA), 2.5 (Dream) | 3.5 |" in table and "| ℓ0 |" in table


def test_pictures_are_small_and_stale_ones_go(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    page = results.Page(tmp_path / "runs", tmp_path / "docs")
    page.drawn.mkdir()
    image.effect_noise((200, 200), 80).convert("RGB").save(page.drawn / "one.png")
    page.figures.mkdir(parents=True)
    (page.figures / "old.png").touch()
    page.show("one", "A picture")
    page.write()
    assert [path.name for path in page.figures.iterdir()] == ["one.png"]
    assert image.open(page.figures / "one.png").mode == "P"
    assert "![A picture](results/one.png)" in (tmp_path / "docs" / "results.md").read_text()
    with pytest.raises(SystemExit, match="no figure two"):
        page.show("two", "")


def test_every_link_of_the_docs_leads_somewhere() -> None:
    """Pages, figures and files that the README, the docs and the model card name."""
    root = Path(__file__).parent.parent
    pages = [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").glob("*.md")]
    pages.append(root / "src" / "unmask" / "tiny" / "MODEL_CARD.md")
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"
