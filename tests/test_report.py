"""Reports from run folders: right numbers in every format, and the paper's beside them, labelled."""

from __future__ import annotations

import csv
import io
import json

import pytest

import checkpoints
from eval_helpers import small_tasks  # noqa: F401 (a fixture)
from unmask.cli import main
from unmask.evaluate.folder import write_json
from unmask.report import paper
from unmask.report.layouts import build
from unmask.report.runs import load

RATES = {"default": 3, "fast-dllm": 4, "rpd": 2, "rpd-block": 5, "confidence": 7}  # every n-th example is wrong


def make(folder, labels=tuple(RATES), n=60, model="tiny", task="wordproblems", data="abc", **params):
    """A run folder written by hand, so that every number is known."""
    folder.mkdir(parents=True)
    decoders = [
        {"label": label, "name": label.split(":")[0], "params": {"threshold": params.get(label, 0.9)}}
        for label in labels
    ]
    config = {
        "format": "unmask.eval", "version": 1, "decoders": decoders,
        "request": {"model": model, "split": "test", "batch_size": 1},
        "task": {"name": task, "version": 1, "metric": "accuracy", "n": n, "sha256": data},
        "model": {"dtype": "float32"}, "hardware": {"device": "Abacus"},
    }  # fmt: skip
    write_json(folder / "config.json", config)
    with (folder / "samples.jsonl").open("w") as out:
        for step, label in enumerate(labels):
            for index in range(n):
                sample = {
                    "decoder": label, "index": index, "correct": index % RATES.get(label, 6) != 0, "error": None,
                    "nfe": 10 * (step + 1), "branches": 0, "tokens": 20, "non_eos": 21, "canvas": 32,
                    "seconds": 0.1 * (step + 1), "finish_reason": "stop",
                    "phases": {"backbone": 0.08 * (step + 1), "scoring": 0.02 * (step + 1)},
                }  # fmt: skip
                out.write(json.dumps(sample) + "\n")
    return folder


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "run")


def report(capsys, *arguments):
    assert main(["report", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_summary_compares_on_the_same_examples(folder, capsys):
    rows = {row["label"]: row for row in json.loads(report(capsys, folder, "-f", "json"))["rows"]}
    assert rows["fast-dllm"]["accuracy"] == 0.75 and rows["fast-dllm"]["nfe"] == 20
    assert rows["fast-dllm"]["tps"] == pytest.approx(100)
    assert rows["fast-dllm"]["reference"] == "default" and "difference" not in rows["default"]
    assert rows["fast-dllm"]["difference"] == pytest.approx(5 / 60)
    assert (rows["fast-dllm"]["only_reference"], rows["fast-dllm"]["only_this"]) == (10, 15)
    against = json.loads(report(capsys, folder, "-f", "json", "--against", "rpd"))["rows"]
    assert {row["reference"] for row in against} == {"rpd"}


@pytest.mark.parametrize(
    ("family", "task", "tau", "told"),
    [
        ("dream", "humaneval", 0.01, True),
        ("dream", "gsm8k", 0.01, False),  # published
        ("llada", "humaneval", 0.01, False),
        ("dream", "humaneval", 0.03, False),  # the user's own
    ],
)
def test_unpublished_thresholds_are_marked(tmp_path, capsys, family, task, tau, told):
    folder = make(tmp_path / "run", ("default", "dapd"), task=task)
    config = json.loads((folder / "config.json").read_text())
    config["model"]["family"] = family
    config["decoders"][1]["params"] = {"task": None, "tau_min": 0.005, "tau_max": tau}
    write_json(folder / "config.json", config)
    for form in ("table", "md"):
        assert ("provisional" in report(capsys, folder, "-f", form)) == told


def test_every_format_prints_the_same_numbers(folder, capsys):
    text = report(capsys, folder)
    assert "75.00" in text and "[62.77, 84.22]" in text and "+8.33" in text and "80/0/20/0" in text
    markdown = report(capsys, folder, "-f", "md")
    assert markdown.count("\n| ") == 7 and "| 75.00 |" in markdown
    latex = report(capsys, folder, "-f", "tex")
    assert r"\begin{tabular}{lllrrrrrrrrrr}" in latex and "75.00" in latex and r"$\Delta$ \%" in latex
    rows = list(csv.DictReader(io.StringIO(report(capsys, folder, "-f", "csv"))))
    assert float(rows[1]["accuracy"]) == 0.75 and rows[1]["label"] == "fast-dllm"
    for output in (text, markdown, latex):
        assert "Abacus" in output and "before the first end token" in output


def test_the_main_table_has_the_papers_layout(folder):
    table = build("main", load([folder]))
    assert table.columns == ["model", "benchmark", "metric", "Default", "Fast-dLLM", "RPD-block", "RPD", "confidence"]
    accuracy, nfe, tps = table.rows
    assert [str(cell) for cell in accuracy[2:6]] == ["Acc. ↑", "66.67", "75.00", "80.00"]
    assert [cell.best for cell in accuracy[3:]] == [False, False, False, False, True]
    assert [cell.best for cell in nfe[3:]] == [True, False, False, False, False], "fewer is better"
    assert tps[3].best


def test_the_papers_values_stand_beside_ours_and_say_so(tmp_path):
    folder = make(tmp_path / "a", model="GSAI-ML/LLaDA-8B-Instruct", task="gsm8k")
    table = build("main", load([folder]), with_paper=True)
    ours, theirs = table.rows[:2]
    assert (str(ours[2]), str(theirs[2])) == ("Acc. ↑", "Acc. ↑ (paper)")
    by_name = dict(zip(table.columns, map(str, theirs), strict=True))
    assert by_name["Default"] == "76.50" and by_name["RPD"] == "78.85" and by_name["confidence"] == ""
    assert len(table.rows) == 3 + 24 and any("as printed" in note for note in table.notes)
    summary = build("summary", load([folder]), with_paper=True)
    assert sum("(paper)" in str(row[2]) for row in summary.rows) == 56
    assert all(r["source"] == "paper" for r in summary.records if "(paper)" in r["label"])


def test_the_ablation_has_the_papers_layout(tmp_path):
    folder = make(tmp_path / "a", labels=("confidence", "fast-dllm", "confidence+pp", "rpd"))
    table = build("ablation", load([folder]))
    assert [str(row[0]) for row in table.rows] == ["Confidence", "+ block32", "+ PP", "Full RPD"]
    both = build("ablation", load([folder]), with_paper=True)
    assert len(both.columns) == 1 + 3 * 5
    assert [str(row[0]) for row in both.rows][:2] == ["Confidence", "Confidence (paper)"]


def test_the_papers_tables_are_whole():
    main_table, ablation = paper.main_values(), paper.ablation_values()
    assert len(main_table) == 24 and all(len(row) == 7 for row in main_table.values())
    assert len(ablation) == 6 * 4 * 3
    for (variant, model, task, metric), value in ablation.items():  # the rows that both tables print
        name = {"confidence+block": "fast-dllm", "rpd": "rpd", "rpd-block": "rpd-block"}.get(variant)
        if name:
            assert main_table[model, task, metric][name] == value


def test_several_folders_make_one_table(tmp_path):
    one = make(tmp_path / "a", labels=("default", "rpd"))
    two = make(tmp_path / "b", labels=("fast-dllm",))
    other = make(tmp_path / "c", labels=("rpd",), data="other examples")
    records = build("summary", load([one, two, other])).records
    assert records[2]["reference"] == "default" and "difference" in records[2]
    assert "difference" not in records[3], "other examples cannot be paired"


def test_an_unfinished_run_says_so(folder):
    lines = (folder / "samples.jsonl").read_text().splitlines(keepends=True)
    (folder / "samples.jsonl").write_text("".join(lines[:70]) + '{"torn')
    table = build("summary", load([folder]))
    assert [str(row[2]) for row in table.rows] == ["default", "fast-dllm (unfinished)"]
    assert table.records[1]["paired_n"] == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{tmp}/nowhere"], "is not a run folder"),
        (["{run}", "-f", "pdf"], "unknown format 'pdf'"),
        (["{run}", "--table", "mian"], "did you mean main?"),
        (["{run}", "--against", "lopa"], "no decoder 'lopa' in these runs"),
        (["{run}", "{run}", "--table", "main"], "both hold default on wordproblems"),
        (["{tmp}/empty"], "no finished example"),
        (["{tmp}/other"], "no decoder of the ablation"),
    ],
)
def test_a_wrong_request_is_one_sentence(tmp_path, capsys, arguments, said):
    run = make(tmp_path / "run")
    make(tmp_path / "empty", n=0)
    make(tmp_path / "other", labels=("left-to-right",))
    more = ["--table", "ablation"] if "ablation" in said else []
    assert main(["report", *[a.format(tmp=tmp_path, run=run) for a in arguments], *more]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1


def test_figures_are_drawn_and_label_what_varies(tmp_path, capsys):
    labels = ("fast-dllm:threshold=0.6", "fast-dllm:threshold=0.9", "rpd")
    folder = make(tmp_path / "run", labels=labels, **{labels[0]: 0.6})
    report(capsys, folder, "--figures", tmp_path / "figures")
    files = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert files == ["tradeoff-tiny-wordproblems.png", "tradeoff-tiny-wordproblems.svg"]
    assert (tmp_path / "figures" / files[0]).read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_figures_are_explained(folder, tmp_path, capsys, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["report", str(folder), "--figures", str(tmp_path / "figures")]) == 2
    assert "pip install 'unmask[plot]'" in capsys.readouterr().err


# --- sweeps -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_tasks")
def test_a_sweep_is_one_folder_with_a_figure_and_one_number_per_decoder(tmp_path, capsys):
    model = checkpoints.write_checkpoint(tmp_path / "model", "llada", layers=2, dim=16, mlp=16)
    arguments = [
        "sweep",
        "--model",
        str(model),
        "--task",
        "parity",
        "--decoder",
        "fast-dllm",
        "--canvas-length",
        "32",
    ]
    arguments += ["--vary", "threshold=0.5,0.9", "--vary", "block_length=16,32", "--vary", "eb-sampler.gamma=0.1,1"]
    arguments += ["--also", "rpd", "--out", str(tmp_path / "run"), "--device", "cpu", "--json"]
    assert main(arguments) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert [(s["decoder"], s["settings"], s["varied"]) for s in verdict["scores"]] == [
        ("fast-dllm", 4, ["block_length", "threshold"]), ("eb-sampler", 2, ["gamma"]), ("rpd", 1, []),
    ]  # fmt: skip
    assert len(verdict["rows"]) == 7 and "accuracy under parallelism" in verdict["definition"]
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"config.json", "samples.jsonl", "summary.json", "sweep.json"} <= names
    assert sum(name.endswith(".png") for name in names) == 1
    assert main(arguments) == 0, "again: everything is on disk already"


@pytest.mark.parametrize("vary", ["threshold", "threshold=", "=0.5", "threshold=0.5,0.5"])
def test_a_sweep_that_varies_nothing_is_refused(vary, capsys):
    assert main(["sweep", "--decoder", "fast-dllm", "--vary", vary]) == 2
    assert "--vary" in capsys.readouterr().err
