"""The training code on a CPU: it learns, it resumes exactly, and what it writes is an ordinary checkpoint."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import unmask

sys.path.insert(0, str(Path(__file__).parent.parent / "training"))
data = pytest.importorskip("data")
train = pytest.importorskip("train")

SMALL = replace(train.SMOKE, steps=6, warmup=2, shard=32)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Shards made in this process: the stream's order is what matters, not its speed."""

    def stream(folder, seed, share, size, first, workers):
        maker, index = data.Maker(str(folder), seed, share), first
        while True:
            yield maker.shard(index, size)
            index += 1

    monkeypatch.setattr(train, "stream", stream)


def trainer(out: Path) -> train.Trainer:
    return train.Trainer(SMALL, out, torch.device("cpu"), compile_=False)


def test_resuming_equals_never_stopping(tmp_path):
    forever = time.monotonic() + 600
    whole = trainer(tmp_path / "whole")
    assert whole.run(forever, 1, 100)
    part = trainer(tmp_path / "parts")
    assert not part.run(forever, 1, 100, stop_at=4)
    part.save()
    again = trainer(tmp_path / "parts")
    assert again.step == 4 and again.run(forever, 1, 100)
    for a, b in zip(whole.net.parameters(), again.net.parameters(), strict=True):
        assert torch.equal(a, b)


def test_saved_weights_are_an_ordinary_checkpoint(tmp_path):
    run = trainer(tmp_path)
    run.run(time.monotonic() + 600, 1, 2)
    run.save()
    model = unmask.load(tmp_path)
    out = unmask.generate(model, "Mia has 12 apples. How many apples?", decoder="fast-dllm", canvas_length=32)
    assert len(out.canvas) == 32
    recipe = json.loads((tmp_path / "training.json").read_text())
    assert recipe["step"] == 6 and recipe["config"]["seed"] == SMALL.seed
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log] == [2, 4, 6]


def test_a_batch_has_one_length_and_loses_no_row(tmp_path):
    run = trainer(tmp_path)
    shard = data.Maker(str(tmp_path), 1, 0.5).shard(0, 32)
    seen = 0
    for tokens, prompt, _used in train.batches(shard, SMALL, 0):
        assert tokens.shape[1] in SMALL.lengths and len(tokens) == SMALL.batch == len(prompt)
        assert (tokens[:, -1] == run.spec.eos_id).all(), "every row ends in end-of-text"
        seen += len(tokens)
    assert seen == 32


def test_loss_counts_masked_response_tokens_only(tmp_path):
    """With everything masked (t = 1), the loss of an untrained, zero-headed model is ln V on the response alone."""
    run = trainer(tmp_path)
    tokens = torch.from_numpy(data.Maker(str(tmp_path), 1, 0.5).shard(0, 4).tokens.astype(np.int64))
    prompt = torch.full((4,), 20)
    t, noise = torch.ones(4), torch.rand(tokens.shape)
    with torch.no_grad():
        weighted, plain = train.loss_on(run.net, tokens, prompt, t, noise)
    assert float(weighted) == pytest.approx(np.log(run.spec.rows), rel=1e-4)
    assert float(plain) == pytest.approx(np.log(run.spec.rows), rel=1e-4)


def test_given_spans_have_no_preferred_direction():
    """Spans before, behind, around or inside a cut, equally often; rows without one keep everything maskable."""
    rng = torch.Generator().manual_seed(0)
    n, length = 4000, 64
    prompt, used = torch.full((n,), 10), torch.full((n,), 50)
    given = train.given_spans(prompt, used, length, 1.0, rng)[:, 10:50].float()
    first, last = given[:, 0].mean(), given[:, -1].mean()
    assert 0.4 < first < 0.6 and 0.3 < last < 0.6
    assert not train.given_spans(prompt, used, length, 0.0, rng).any()


def test_the_second_stage_starts_from_the_first_stages_weights(tmp_path):
    first = trainer(tmp_path / "base")
    first.run(time.monotonic() + 600, 1, 100, stop_at=1)
    first.save()
    config = replace(SMALL, infill=0.5)
    second = train.Trainer(config, tmp_path / "next", torch.device("cpu"), False, tmp_path / "base")
    for a, b in zip(first.net.parameters(), second.net.parameters(), strict=True):
        assert torch.equal(a.half().float(), b)
    second.run(time.monotonic() + 600, 1, 100, stop_at=1)
    assert second.step == 1


def test_learning_on_a_minute_of_cpu(tmp_path, monkeypatch, capsys):
    """`--smoke`, as the README of the training folder runs it."""
    arguments = ["train.py", "--smoke", "--out", str(tmp_path), "--accuracy", "2", "--workers", "1"]
    monkeypatch.setattr(sys, "argv", arguments)
    train.main()
    printed = capsys.readouterr().out
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith('{"step"') and "loss" in line]
    assert lines[-2]["ce"] < 0.8 * lines[0]["ce"], "the loss falls"
    assert "finished" in printed and '"wordproblems"' in printed
