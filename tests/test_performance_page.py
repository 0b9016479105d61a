"""The speed benchmarks run at toy size, and the page is made of what they measured."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from test_profile import PEAKS, SMALL, recorded
from unmask.evaluate.environment import hardware, versions
from unmask.evaluate.specs import DecoderSpec
from unmask.models.graphs import GraphBackbone, eager_capture
from unmask.profile.measure import Setup, profile
from unmask.profile.shapes import random_model

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import device
import page
import parts as bench
import targets

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    model = random_model("small", replace(SMALL, layers=8), CPU, torch.float32)
    steps = [profile(model, DecoderSpec("rpd", "rpd"), [recorded("rpd")[1]], 2, Setup(5, 32, repeats=2), PEAKS)]
    found = {
        "parts": bench.parts(model, 5, 32, 4, 3, True),
        "statistics": bench.compare_statistics([(3, 50, torch.float32)], CPU, 2, True),
        "steps": {"profiles": steps, "peaks": {"flops": 1e12, "bandwidth": 1e11}},
        "batches": {"profiles": steps},
        "end_to_end": {"n": 2, "seconds": {"default": 4.0, "rpd": 1.0}, "forwards": {"default": 160.0, "rpd": 20.0},
                       "default_over_rpd": {"median": 4.0, "min": 3.5, "max": 4.5}},
        "kind": "cpu", "cpu_time": True, "hardware": hardware(CPU), "versions": versions(), "load_average": 9.0,
        "date": "2026-01-01",
    }  # fmt: skip
    return json.loads(json.dumps(found))


def test_parts_are_timed_side_by_side(measured: dict[str, Any]) -> None:
    times = measured["parts"]["ms"]
    lens = {"lens", "lens, two stages", "lens, lazy walk", "plain readout"}
    assert set(times) == {"backbone", "head", "scoring", *lens}
    assert all(t["min"] <= t["median"] <= t["max"] and t["repeats"] == 3 for t in times.values())


def test_the_plain_statistics_are_the_same_numbers() -> None:
    from unmask.statistics import Choosable, statistics

    z = torch.randn(5, 40)
    token, confidence, entropy = bench.plain_statistics(z)
    ours = statistics(z, Choosable(40, 40))
    assert torch.equal(token, ours.token)
    torch.testing.assert_close(confidence, ours.confidence)
    torch.testing.assert_close(entropy, ours.entropy)


def test_the_page(measured: dict[str, Any]) -> None:
    text = page.cpu_section(measured)
    assert "CPU time of the process" in text and "**The machine was shared with other work.**" in text
    assert "median 4.0, from 3.5 to 4.5" in text
    missing = page.device_section(None)
    assert "Not measured on this version" in missing and "python benchmarks/device.py --out device.json" in missing


def test_the_device_page_says_what_was_skipped(measured: dict[str, Any]) -> None:
    (step,) = measured["steps"]["profiles"]
    sections = {
        "peaks": measured["steps"]["peaks"], "eager parts": measured["parts"], "batches": [step],
        "steps": [{"eager": step, "compiled": step}], "two-stage lens": {"None": step, "2": step},
        "statistics": measured["statistics"], "memory": {"eager": 1},
    }  # fmt: skip
    result = {**measured, "shape": "llada-8b", "sections": sections, "skipped": {"compiled parts": "no time left"}}
    text = page.device_section(result)
    assert "llada-8b on a CUDA device" in text and "Not measured: compiled parts (no time left)." in text
    assert text.count("| rpd |") == 3
    assert "| whole RPD step, times faster than 44 ms | >= 3.8 |" in text
    assert "| peak memory beyond the weights, compiled | <= 1.5 | not measured |  |" in text


def test_targets_are_judged_by_their_bounds() -> None:
    below, above, stated = (targets.Target("", bound, len) for bound in ("<= 4", ">= 3.8", targets.STATED))
    assert [below.met(4.0), below.met(4.1), above.met(3.8), above.met(3.7), stated.met(1)] == [
        "yes", "NO", "yes", "NO", "",
    ]  # fmt: skip


def test_a_replayed_backbone_is_not_timed_with_the_scoring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of recorded forwards share their states: none of them may have to make them again."""
    model = random_model("small", replace(SMALL, layers=8), CPU, torch.float32)
    model.net = GraphBackbone(model.net, eager_capture)
    found = bench.parts(model, 5, 32, 4, 3, True)
    assert model.net.stamp == 1 + found["ms"]["backbone"]["repeats"] + 2  # the first, and one per round


def test_the_device_benchmark_measures_every_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At toy size and without a device: all that is left out is memory, and the batch of 16."""
    out = tmp_path / "device.json"
    monkeypatch.setattr(sys, "argv", ["device.py", "--dry-run", "--decoders", "rpd", "--out", str(out)])
    device.main()
    result = json.loads(out.read_text())
    assert not result["skipped"]
    missing = {row[0] for row in targets.rows(result["sections"]) if row[2] == "not measured"}
    assert all("memory" in name or "batch 16" in name for name in missing)
    assert "on a CUDA device" in page.device_section(result)
