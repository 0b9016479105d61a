"""The `unmask` model type inside lm-evaluation-harness, by lm-eval's own command, without network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import checkpoints
import unmask
from unmask import harness

pytest.importorskip("lm_eval")

TASK = """
task: local_sums
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs:
  until: ["\\n\\n"]
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1
"""
QUESTIONS = ["What is 1 + 1?", "What is 2 + 2? Think twice before you answer.", "Hm?"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return checkpoints.write_checkpoint(tmp_path_factory.mktemp("lm") / "small", "llada", layers=2, dim=16, mlp=16)


def expected(model, prompts, **more):
    return [unmask.generate(model, p, decoder="rpd", beta=2.0, canvas_length=32, **more).text for p in prompts]


@pytest.mark.slow
def test_the_command_line_end_to_end(small, tmp_path):
    """`lm_eval --model unmask`: scores, samples and the resolved decoder are in lm-eval's own files."""
    answers = [text.split("\n\n")[0] for text in expected(unmask.load(small, device="cpu"), QUESTIONS)]
    golden = [answers[0], "not this", answers[2]]
    rows = [{"question": q, "answer": a} for q, a in zip(QUESTIONS, golden, strict=True)]
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)) + "\n")
    (tmp_path / "local.yaml").write_text(TASK.format(data=data))
    command = Path(sys.executable).with_name("lm_eval")
    arguments = ["--model", "unmask", "--model_args", f"pretrained={small},decoder=rpd,beta=2,canvas_length=32"]
    arguments += ["--tasks", "local_sums", "--include_path", str(tmp_path), "--apply_chat_template", "--log_samples"]
    arguments += ["--batch_size", "2", "--device", "cpu", "--output_path", str(tmp_path / "out")]
    cache = {
        "OMP_NUM_THREADS": "1",
        "HF_HOME": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
    }
    done = subprocess.run(
        [str(command), *arguments], capture_output=True, text=True, timeout=300, env={**os.environ, **cache}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (results,) = [json.loads(p.read_text()) for p in (tmp_path / "out").rglob("results_*.json")]
    assert results["results"]["local_sums"]["exact_match,none"] == pytest.approx(2 / 3)
    assert results["config"]["unmask_params"]["beta"] == 2
    (samples,) = (tmp_path / "out").rglob("samples_*.jsonl")
    found = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [sample["resps"][0][0] for sample in sorted(found, key=lambda s: s["doc_id"])] == answers


@pytest.fixture(scope="module")
def lm(small):
    harness.register()
    from lm_eval.api.registry import get_model

    return get_model("unmask").create_from_arg_string(
        f"pretrained={small},decoder=rpd,beta=2,canvas_length=32", {"batch_size": 4, "device": "cpu"}
    )


def request(text, **arguments):
    from lm_eval.api.instance import Instance

    return Instance(request_type="generate_until", doc={}, arguments=(text, arguments), idx=0)


def test_the_built_in_models_stay_known():
    harness.register()
    from lm_eval.api.registry import model_registry

    assert "unmask" in model_registry and "hf" in model_registry


def test_answers_are_those_of_generate_in_the_order_asked(lm):
    answers = lm.generate_until([request(q) for q in QUESTIONS], disable_tqdm=True)
    assert answers == expected(lm.model, QUESTIONS, raw=True)


def test_stop_strings_cut(lm):
    (whole,) = expected(lm.model, QUESTIONS[:1], raw=True)
    stop = whole[len(whole) // 2]
    assert lm.generate_until([request(QUESTIONS[0], until=[stop])], disable_tqdm=True) == [whole.split(stop)[0]]
    assert lm.generate_until([request(QUESTIONS[0], until=stop)], disable_tqdm=True) == [whole.split(stop)[0]]


def test_a_request_that_cannot_be_decoded_is_an_empty_answer(lm, capsys):
    answers = lm.generate_until([request("word " * 9000), request(QUESTIONS[0])], disable_tqdm=True)
    assert answers[0] == "" and answers[1] == expected(lm.model, QUESTIONS[:1], raw=True)[0]


def test_likelihoods_are_refused_with_a_reason(lm):
    with pytest.raises(NotImplementedError, match="generate_until"):
        lm.loglikelihood([])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"decoder": "rdp"}, "did you mean rpd"),
        ({"decoder": "rpd", "betta": 1}, "did you mean beta"),
        ({"batch_size": "auto"}, "as a number"),
    ],
)
def test_wrong_arguments_are_one_sentence(small, arguments, said):
    from unmask.lm_eval import UnmaskLM

    with pytest.raises(unmask.UserError, match=said):
        UnmaskLM(pretrained=str(small), device="cpu", **arguments)


def test_registering_costs_nothing_elsewhere():
    """torch calls the entry point in every process; outside lm-eval's it imports nothing."""
    code = (
        "import torch, sys; from unmask import harness; harness.register(); "
        "assert 'lm_eval' not in sys.modules and 'unmask.lm_eval' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
