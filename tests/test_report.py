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


def make(folder, labels=tuple(RATES), n=60, model="tiny", task="wordproblems", data="abc", settings=None, **params):
    """A run folder written by hand, so that every number is known."""
    folder.mkdir(parents=True)
    settings = settings or {}
    decoders = [
        {"label": label, "name": label.split(":")[0], "params": {"threshold": params.get(label, 0.9)}}
        for label in labels
    ]
    config = {
        "format": "unmask.eval", "version": 1, "decoders": decoders,
        "request": {"model": model, "split": "test", "batch_size": 1, "early_stop": settings.get("early_stop")},
        "task": {"name": task, "version": 1, "metric": "accuracy", "n": n, "sha256": data},
        "model": {"dtype": "float32"} | {k: v for k, v in settings.items() if k != "early_stop"},
        "hardware": {"device": "Abacus"},
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


def cut(folder, lines):
    kept = (folder / "samples.jsonl").read_text().splitlines(keepends=True)[:lines]
    (folder / "samples.jsonl").write_text("".join(kept))
    return folder


@pytest.mark.parametrize("name", ["main", "ablation", "effects"])
def test_an_unfinished_run_is_marked_and_wins_nothing(tmp_path, name):
    """Here the full canvas has all of its three examples wrong or right by luck: that is no result."""
    folder = cut(make(tmp_path / "run", labels=("default", "rpd", "confidence")), 124)
    table = build(name, load([folder]))
    marked = [cell for row in table.rows for cell in row if "†" in str(cell)]
    assert marked and not any(cell.best for cell in marked)
    assert any("† unfinished" in note for note in table.notes)
    if name != "effects":  # which has columns for both
        assert any("confidence n = 4† of 60 [" in note for note in table.notes)
        assert any("n = 60 [37.74, 62.26]" in note for note in table.notes)
    record = table.records[-1] if name != "ablation" else table.records[0]
    n, complete = record["n"], record["complete"]
    assert (n, complete) == (4, False) or (n["confidence"], complete["confidence"]) == (4, False)
    assert "accuracy_ci95" in record


def test_two_decoders_of_one_heading_keep_their_names(tmp_path, capsys):
    folder = make(tmp_path / "a", labels=("default", "llada-default", "dream-default", "rpd"))
    table = build("main", load([folder]))
    assert table.columns[3:] == ["RPD", "default", "llada-default", "dream-default"]
    assert {"default", "llada-default", "dream-default"} <= table.records[0].keys()


def test_differences_are_taken_to_the_models_own_decoder(tmp_path):
    labels = ("dream-default", "rpd", "llada-default")
    for family, own in (("llada", "llada-default"), ("dream", "dream-default"), (None, "dream-default")):
        folder = make(tmp_path / str(family), labels=labels, settings={"family": family})
        assert {record["reference"] for record in build("summary", load([folder])).records} == {own}
    both = make(tmp_path / "both", labels=(*labels, "default"), settings={"family": "dream"})
    assert build("summary", load([both])).records[0]["reference"] == "default"


def test_runs_of_other_settings_are_told_apart(tmp_path):
    one = make(tmp_path / "a", labels=("default", "rpd"), settings={"canvas_length": 64})
    two = make(tmp_path / "b", labels=("rpd",), settings={"canvas_length": 128, "early_stop": True})
    table = build("summary", load([one, two]))
    assert [str(row[2]) for row in table.rows] == [
        "default", "rpd [canvas_length 64, early_stop None]", "rpd [canvas_length 128, early_stop True]",
    ]  # fmt: skip
    assert table.records[2]["canvas_length"] == 128 and "difference" not in table.records[2]
    three = make(tmp_path / "c", labels=("fast-dllm",), settings={"canvas_length": 128})
    table = build("main", load([one, three]))
    assert not any(cell.best for row in table.rows for cell in row)
    assert any("mixes runs of unlike canvas_length" in note for note in table.notes)


def test_models_of_one_short_name_keep_columns_of_their_own(tmp_path, capsys):
    models = ("GSAI-ML/LLaDA-8B-Base", "GSAI-ML/LLaDA-1.5", "GSAI-ML/LLaDA-8B-Instruct")
    folders = [make(tmp_path / str(i), labels=("rpd",), model=model) for i, model in enumerate(models)]
    table = build("ablation", load(folders))
    assert len(set(table.columns)) == 1 + 3 * 3 and "LLaDA wordproblems NFE" in table.columns
    assert [(r["model"], r["nfe"]) for r in table.records] == [(model, 10.0) for model in models]


def test_csv_holds_everything(folder, capsys):
    (row,) = csv.DictReader(io.StringIO(report(capsys, make(folder / "x", labels=("rpd",)), "-f", "csv")))
    assert row["params.threshold"] == "0.9" and row["phases.backbone"].startswith("4.8")
    assert float(row["accuracy_ci95_low"]) < float(row["accuracy"]) < float(row["accuracy_ci95_high"])
    rows = csv.DictReader(io.StringIO(report(capsys, folder, "-f", "csv")))
    assert float(list(rows)[1]["difference_ci95_low"]) < 0
    main_table = list(csv.DictReader(io.StringIO(report(capsys, folder, "-f", "csv", "--table", "main"))))
    assert main_table[0]["n.RPD"] == "60" and float(main_table[0]["accuracy_ci95.RPD_low"]) < 0.5


@pytest.mark.parametrize("name", ["summary", "main", "ablation", "effects"])
def test_beside_the_paper_our_rpd_is_not_called_its_rpd(tmp_path, name):
    model = "GSAI-ML/LLaDA-8B-Instruct"
    ours = make(tmp_path / "a", labels=("default", "rpd"), model=model, task="gsm8k")
    assert any("affordable fallback" in note for note in build(name, load([ours]), with_paper=True).notes)
    both = make(tmp_path / "b", labels=("rpd", "rpd-paper"), model=model, task="gsm8k")
    table = build(name, load([both]), with_paper=True)
    if name == "main":
        assert table.records[0]["RPD"] == pytest.approx(100 * 5 / 6)
        assert table.records[0]["RPD (affordable)"] == 50
    if name == "ablation":
        titles = [str(row[0]) for row in table.rows][-3:]
        assert titles == ["Full RPD", "Full RPD (paper)", "Full RPD (affordable)"]
        assert [r["accuracy"] for r in table.records if r["variant"] == "rpd-paper"] == [pytest.approx(100 * 5 / 6)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{tmp}/nowhere"], "is not a run folder"),
        (["{run}", "-f", "pdf"], "unknown format 'pdf'"),
        (["{run}", "--table", "mian"], "did you mean main?"),
        (["{run}", "--against", "lopa"], "no decoder 'lopa' in these runs"),
        (["{run}", "{run}", "--table", "main"], "both hold default on wordproblems"),
        (["{run}", "{run}", "--table", "effects"], "both hold default on wordproblems"),
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
