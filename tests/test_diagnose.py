"""`unmask diagnose` and its figures, end to end on the embedded model: folders that survive a kill, refuse another
configuration and are shared by the commands that read the same work."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from unmask.cli import main
from unmask.diagnostics import survey as surveying
from unmask.diagnostics.decodes import DECODES
from unmask.diagnostics.survey import STATES, Request, survey
from unmask.evaluate.folder import SAMPLES, read_samples
from unmask.report import diagnosed

STATES_ARGS = ["--limit", "2", "--masks", "16,32", "--patterns", "2"]
ORDER_ARGS = [
    "--limit",
    "2",
    "--canvas-length",
    "32",
    "--decoders",
    "fast-dllm,rpd:theta_s=1.5",
    "-o",
    "rpd.theta_c=0.3",
]


def run(*args: str) -> int:
    return main(["diagnose", *args])


def untimed(folder: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "seconds"} for line in read_samples(folder, STATES)]


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diagnose") / "states"
    survey(Request("tiny", "wordproblems", 2, levels=(16, 32), patterns=2), folder)
    return folder


@pytest.fixture(scope="module")
def decodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diagnose") / "order"
    assert run("order", *ORDER_ARGS, "--out", str(folder)) == 0
    return folder


def test_layers_end_to_end(states: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("layers", *STATES_ARGS, "--out", str(states), "--paper") == 0
    printed = capsys.readouterr()
    assert "Token error rate under persistence K: tiny on wordproblems test, seed 325, 2 questions" in printed.out
    assert "Among tokens with confidence in [0.6, 0.9)" in printed.out and "paper: as printed" in printed.out
    assert "2 of " in printed.err
    for name in ("layers.json", "curves.csv", "heatmap.csv", "separation.csv", "layers-tiny.png", "layers-tiny.svg"):
        assert (states / name).stat().st_size > 0
    assert run("layers", *STATES_ARGS, "--out", str(states), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"curves", "heatmap", "separation"}


def test_upstream_reads_the_same_folder_and_says_what_is_missing(
    states: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (states / SAMPLES).read_bytes()
    assert run("upstream", *STATES_ARGS, "--out", str(states)) == 2
    assert "too few questions on which tiny is both right and wrong" in capsys.readouterr().err
    assert (states / SAMPLES).read_bytes() == before


def test_entropies_of_a_certain_model_still_rank() -> None:
    """Of the embedded model, a tenth of all states has E below two millionths of a nat."""
    tiny = [2.4e-7, 2.5e-7, 3.1e-9, 0.0]
    kept = [surveying.significant(E) for E in tiny]
    assert sorted(range(4), key=kept.__getitem__) == sorted(range(4), key=tiny.__getitem__)
    assert len(set(kept)) == 4 and surveying.significant(12.3456789) == 12.3457


def test_another_configuration_is_refused(states: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (states / SAMPLES).read_bytes()
    for args, said in (
        (["--limit", "1", *STATES_ARGS[2:]], "limit"),
        ([*STATES_ARGS, "--seed", "1"], "seed"),
        ([*STATES_ARGS[:2], "--masks", "8", *STATES_ARGS[4:]], "levels"),
    ):
        assert run("layers", *args, "--out", str(states)) == 2
        said_so = capsys.readouterr().err
        assert "another configuration" in said_so and said in said_so
    assert main(["eval", "--limit", "1", "--out", str(states)]) == 2
    assert "another kind of run (unmask.states, not unmask.eval)" in capsys.readouterr().err
    assert (states / SAMPLES).read_bytes() == before


CHILD = """
import os, signal, sys, torch
torch.set_num_threads(1)
from pathlib import Path
from unmask.diagnostics.survey import Request, survey
from unmask.evaluate.progress import Silent
class Killer(Silent):
    def update(self, label, samples):
        os.kill(os.getpid(), signal.SIGKILL)
survey(Request("tiny", "wordproblems", 2, levels=(16, 32), patterns=2), Path(sys.argv[1]), Killer())
"""


@pytest.mark.slow
def test_a_killed_survey_goes_on_and_ends_the_same(states: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    died = subprocess.run([sys.executable, "-c", CHILD, str(folder)], capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL
    assert len(list(read_samples(folder, STATES))) == 1
    with (folder / SAMPLES).open("a") as file:
        file.write('{"index": 1, "id": "torn')  # and died in the middle of a line
    survey(Request("tiny", "wordproblems", 2, levels=(16, 32), patterns=2), folder)
    assert untimed(folder) == untimed(states)


def test_a_finished_folder_needs_no_model(states: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "work", lambda *_: pytest.fail("nothing was left to do"))
    survey(Request("tiny", "wordproblems", 2, levels=(16, 32), patterns=2), states)


@pytest.mark.slow
def test_order_and_admitted_end_to_end(decodes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(read_samples(decodes, DECODES))
    labels = ["initial", "fast-dllm", "rpd:theta_s=1.5", "most-confident", "answer-last", "operands-first"]
    assert [line["decoder"] for line in lines] == [label for label in labels for _ in range(2)]
    for line in lines:
        if line["decoder"] == "initial":
            assert len(line["c"]) == len(line["ends"]) == 32
        else:
            assert sorted(set(line["order"])) == list(range(line["steps"])) and sum(line["routes"].values()) == 32
            if line["decoder"] in labels[3:]:
                assert line["nfe"] == 32
    assert run("order", *ORDER_ARGS, "--out", str(decodes), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"order", "constraints"} and len(document["constraints"]["rows"]) == 3
    assert run("admitted", *ORDER_ARGS, "--out", str(decodes)) == 0
    assert "What the stability test admits: tiny on wordproblems test, canvas 32" in capsys.readouterr().out
    assert list(read_samples(decodes, DECODES)) == lines  # nothing was decoded again


@pytest.mark.slow
def test_report_draws_every_figure_from_files(
    states: Path, decodes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    split = {"fast-dllm": {"backbone": 1.0, "scoring": 0.1}, "rpd": {"backbone": 0.9, "projection": 0.1}}
    (tmp_path / "profile.json").write_text(json.dumps(split))
    figures = tmp_path / "figures"
    folders = [str(decodes), str(states)]
    code = main(["report", *folders, "--figures", str(figures), "--profile", str(tmp_path / "profile.json")])
    assert code == 0
    names = {path.name for path in figures.iterdir()}
    for stem in ("profile-tiny", "commit-order-tiny", "trajectories-tiny", "boxes-rpd-theta-s-1.5-tiny",
                 "boxes-most-confident-tiny", "constraints-tiny", "runtime-profile", "upstream-tiny",
                 "layers-tiny"):  # fmt: skip
        assert {f"{stem}.png", f"{stem}.svg"} <= names, stem
    assert "Ordering constraints" in capsys.readouterr().out
    assert diagnosed.diagnostics(states) == ("upstream", "layers")
    again = tmp_path / "again"
    diagnosed.FIGURES["layers"](states, again)
    diagnosed.FIGURES["layers"](states, tmp_path / "twice")
    for path in again.iterdir():  # equal files give equal pictures
        assert path.read_bytes() == (tmp_path / "twice" / path.name).read_bytes()


def test_a_profile_without_the_reference_is_named(decodes: Path, tmp_path: Path, capsys) -> None:
    for text, said in (
        ('{"rpd": {"backbone": 1}}', "no time of fast-dllm"),
        ("[1]", "is not a runtime split"),
        ("{", "JSON"),
    ):
        (tmp_path / "p.json").write_text(text)
        args = ["report", str(decodes), "--figures", str(tmp_path / "f"), "--profile", str(tmp_path / "p.json")]
        assert main(args) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["upstream", "--masks", "4,x"], "--masks '4,x' is not a list of numbers"),
        (["upstream", "--masks", "48"], "--masks takes different whole numbers from 1 to 47"),
        (["upstream", "--patterns", "0"], "--patterns must be at least 1"),
        (["upstream", "--min-digits", "0"], "--min-digits must be at least 1"),
        (["upstream", "--format", "tabel"], "did you mean table"),
        (["upstream", "--task", "wordproblem"], "did you mean wordproblems"),
        (["upstream", "--traces", "nowhere.jsonl"], "nowhere.jsonl does not exist"),
        (["upstream", "--traces", "a", "--task", "gsm8k"], "--task and --traces both"),
        (["upstream", "--leak", "subtring"], "did you mean substring"),
        (["layers", "--task", "functions", "--limit", "1"], "has digits in an equation"),
        (["order", "--task", "functions", "--limit", "1"], "ordering constraints hold back a numeric answer"),
        (["order", "--decoders", "none", "--constraints", "none"], "nothing to decode"),
        (["order", "--decoders", "rdp"], "did you mean rpd"),
        (["order", "--trace", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["admitted", "--limit", "0"], "--limit must be at least 1"),
        (["admitted", "--decoders", "default,fast-dllm"], "no decoder tests stability (default, fast-dllm)"),
        (["layers", "--first-layer", "99"], "--first-layer 99 is not a layer of tiny, which has 16"),
        (["layers", "--first-layer", "16"], "use --first-layer 14 or lower"),
    ],
)
def test_mistakes_are_sentences(args: list[str], said: str, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*args) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []  # nothing half-written


def test_a_shallow_model_is_named(tmp_path: Path, capsys) -> None:
    import checkpoints

    folder = checkpoints.write_checkpoint(tmp_path / "model", "llada", layers=4)
    assert run("layers", "--model", str(folder), "--limit", "1", "--out", str(tmp_path / "out")) == 2
    said = capsys.readouterr().err
    assert "has 4 layers" in said and "use --first-layer 2 or lower" in said and not (tmp_path / "out").exists()


def test_upstream_asks_for_no_layers(tmp_path: Path, capsys) -> None:
    import checkpoints

    folder = checkpoints.write_checkpoint(tmp_path / "model", "llada", layers=4)
    out = tmp_path / "out"
    assert run("upstream", "--model", str(folder), *STATES_ARGS, "--out", str(out)) == 2
    said = capsys.readouterr().err
    assert "too few questions" in said and "--first-layer" not in said
    assert diagnosed.answerable(out) == ["upstream"]


def test_the_figure_sees_the_layers_that_the_table_sees(states: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unmask.report import style

    captions: list[str] = []
    monkeypatch.setattr(style, "caption", lambda drawing, title, note="": captions.append(note))
    assert run("layers", *STATES_ARGS, "--out", str(states), "--first-layer", "12") == 0
    assert "last 5 of 16 layers" in captions[-1]


def test_figures_of_two_folders_do_not_overwrite_each_other(states: Path, tmp_path: Path) -> None:
    shutil.copytree(states, tmp_path / "other")
    written = diagnosed.draw([states, tmp_path / "other"], tmp_path / "figures")
    assert len(set(written)) == len(written) == len(list((tmp_path / "figures").iterdir()))
    assert {path.stem for path in written} >= {f"layers-tiny-{states.name}", "layers-tiny-other"}
