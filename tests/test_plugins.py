"""A third party's decoder: a real package, installed with pip, found by its entry point and used by name."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import unmask
from helpers import CANVAS, commits, decode
from unmask import Trace, UserError, decoders

DOCS = Path(__file__).parent.parent / "docs" / "decoders.md"

PYPROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "unmask-toy"
version = "0.1"

[tool.setuptools]
py-modules = ["my_package", "toy_decoder"]

{documented}
every-other = "toy_decoder:EveryOther"
not-a-decoder = "toy_decoder:helper"
llada-default = "toy_decoder:EveryOther"
broken = "toy_decoder:Missing"
"""

MODULE = '''\
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unmask.decoders import Commit, Decoder


@dataclass(frozen=True)
class EveryOther(Decoder):
    """Commits every `stride`-th masked position."""

    name: ClassVar[str] = "every-other"
    summary: ClassVar[str] = "every other masked position"
    stride: int = 2

    def check(self):
        self.require(self.stride >= 1, "stride must be at least 1")

    def select(self, view):
        take = np.arange(len(view)) % self.stride == 0
        verdict = np.where(take, "stride", "skipped").astype(object)
        return Commit(take, verdict, columns={"rank": np.arange(len(view)) * 1.0})


def helper():
    pass
'''


def documented(language: str, mention: str) -> str:
    """The code block of docs/decoders.md that mentions this."""
    blocks = re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = (block for block in blocks if mention in block)
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package, installed with pip into a folder of its own that is on the path for these tests."""
    if not all(importlib.util.find_spec(name) for name in ("pip", "setuptools")):
        pytest.skip("needs pip and setuptools")
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    toml = documented("toml", "unmask.decoders")
    (source / "pyproject.toml").write_text(PYPROJECT.format(documented=toml))
    (source / "my_package.py").write_text(documented("python", "class Shy"))
    (source / "toy_decoder.py").write_text(MODULE)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
    ]
    subprocess.run([*pip, "--no-build-isolation", "--target", str(target), str(source)], check=True, timeout=120)
    assert list(target.glob("unmask_toy-*.dist-info/entry_points.txt"))
    sys.path.insert(0, str(target))
    importlib.invalidate_caches()
    yield target
    sys.path.remove(str(target))
    for name in ("toy_decoder", "my_package"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


def test_it_is_listed_after_the_built_in_ones(installed: Path) -> None:
    assert decoders.names()[-4:] == ["broken", "every-other", "not-a-decoder", "shy"]
    assert decoders.names().count("llada-default") == 1


def test_the_documented_example_decodes(installed: Path, model: unmask.Model) -> None:
    out = decode(model, "Hi", "shy", canvas_length=CANVAS)
    assert out.nfe == CANVAS and model.spec.mask_id not in out.canvas
    for step in out.trace.steps:
        assert step.entropy[step.committed] == [step.entropy.min()]


def test_it_decodes_by_name(installed: Path, model: unmask.Model, tmp_path: Path) -> None:
    out = decode(model, "Hi", "every-other", canvas_length=CANVAS, stride=4)
    assert [len(step) for step in commits(out)][:2] == [8, 6]
    assert sorted(commits(out)[0]) == list(range(0, CANVAS, 4))
    assert out.trace.header["decoder"] == "every-other" and out.trace.header["params"] == {"stride": 4}
    assert out.trace.route_counts() == {"stride": CANVAS}
    out.trace.save(tmp_path / "t")
    read = Trace.load(tmp_path / "t")  # routes, reasons and columns of its own included
    assert read == out.trace and read.steps[0].columns["rank"].tolist() == list(range(CANVAS))


def test_it_batches_like_the_others(installed: Path, model: unmask.Model) -> None:
    prompts = ["Hi", "the user and the assistant"]
    together = unmask.generate(model, prompts, "every-other", canvas_length=16)
    assert isinstance(together, list)
    for prompt, row in zip(prompts, together, strict=True):
        assert commits(row) == commits(decode(model, prompt, "every-other", canvas_length=16))


def test_its_options_are_checked_like_the_others(installed: Path) -> None:
    with pytest.raises(UserError, match="every-other: stride must be at least 1"):
        decoders.get("every-other", stride=0)
    with pytest.raises(UserError, match="every-other: stride does not take 'two'"):
        decoders.get("every-other", stride="two")
    with pytest.raises(UserError, match=r"unknown option of every-other 'strides'; did you mean stride\?"):
        decoders.get("every-other", strides=2)
    with pytest.raises(UserError, match=r"unknown decoder 'every-ohter'; did you mean every-other"):
        decoders.get("every-ohter")


def test_an_entry_point_that_is_no_decoder_is_named(installed: Path) -> None:
    with pytest.raises(UserError, match=r"not-a-decoder = toy_decoder:helper is not a subclass of"):
        decoders.get("not-a-decoder")


def test_one_that_cannot_be_imported_names_its_package(installed: Path) -> None:
    with pytest.raises(
        UserError, match=r"'broken' \(toy_decoder:Missing of unmask-toy\) .* AttributeError: .*Missing"
    ):
        decoders.get("broken")


def test_a_built_in_name_cannot_be_taken(installed: Path) -> None:
    assert type(decoders.get("llada-default")) is decoders.LladaDefault


def test_listing_names_imports_no_plugin(installed: Path) -> None:
    sys.modules.pop("toy_decoder", None)
    assert "every-other" in decoders.names() and "toy_decoder" not in sys.modules
