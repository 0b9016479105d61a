"""A decode as a moving picture: every token once, at its step, and nothing but text from the trace."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import unmask
from helpers import decode, hash_model
from unmask.animation import animate
from unmask.cli import main
from unmask.trace import Trace

SVG = "{http://www.w3.org/2000/svg}"


def drawn(picture: str) -> list[tuple[int, str]]:
    """(frame, text) of every stretch of a token."""
    found = []
    for group in ElementTree.fromstring(picture).iter(f"{SVG}g"):
        frame = re.search(r"\bs(\d+)\b", group.get("class", ""))
        if group.get("class", "").startswith("r-"):
            found += [(int(frame[1]) if frame else 0, word.text or "") for word in group.findall(f"{SVG}text")]
    return found


@pytest.fixture(scope="module")
def trace() -> Trace:
    return decode(hash_model(), "5 6 7", "rpd", canvas_length=32).trace


def renamed(trace: Trace, **pieces: str) -> Trace:
    return Trace({**trace.header, "pieces": {**trace.header["pieces"], **pieces}}, trace.steps, trace.end)


def test_every_position_appears_at_its_own_step(trace: Trace) -> None:
    plain = renamed(trace, **dict.fromkeys(trace.header["pieces"], "w"))
    expected = sorted(frame + 1 for frame in trace.commit_steps())
    assert sorted(frame for frame, _ in drawn(animate([plain]))) == expected
    masks = re.findall(r'class="mask h(\d+)"', animate([plain]))
    assert sorted(map(int, masks)) == expected  # each cell vanishes as its token appears


def test_two_decodes_go_in_step(trace: Trace) -> None:
    other = decode(hash_model(), "5 6 7", "left-to-right", canvas_length=32).trace
    root = ElementTree.fromstring(animate([trace, other]))
    counters = [text.text for text in root.iter(f"{SVG}text") if "last" in text.get("class", "")]
    assert counters == [f"{trace.steps[-1].nfe} forwards", "32 forwards"]
    assert root.get("aria-label", "").count("forwards") == 2


def test_given_tokens_stand_there_from_the_start_and_open_masks_stay() -> None:
    out = decode(hash_model(), "5 6 7", "rpd", canvas=["5 6", 6])
    given = [text for frame, text in drawn(animate([out.trace])) if frame == 0]
    assert "".join(given).strip() == "".join(out.trace.piece(t) for t in out.trace.header["fixed"].values()).strip()
    cut_short = Trace(out.trace.header, out.trace.steps[:1], out.trace.end)
    left = out.trace.canvas_length - len(given) - int(out.trace.steps[0].committed.sum())
    assert animate([cut_short]).count('class="mask open"') == left


def test_hostile_pieces_and_routes_are_only_text(trace: Trace) -> None:
    hostile = dict.fromkeys(trace.header["pieces"], "<script>&\"'\x00")
    picture = animate([renamed(trace, **hostile)])
    root = ElementTree.fromstring(picture)  # well-formed whatever the pieces hold
    assert {element.tag for element in root.iter()} == {
        f"{SVG}{tag}" for tag in ("svg", "style", "rect", "g", "text")
    }
    assert "".join(text for _, text in drawn(picture)).startswith("<script>&\"'")


def test_unknown_routes_share_one_hue(trace: Trace) -> None:
    steps = [trace.steps[0].from_json(step.to_json()) for step in trace.steps]
    for step in steps:
        step.verdict[step.committed] = 'mine"><script>'
    picture = animate([Trace(trace.header, steps, trace.end)])
    assert "r-other" in picture and "--other:" in picture and "<script>" not in picture


def test_the_command_writes_one_file(trace: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded, picture = tmp_path / "t.jsonl", tmp_path / "t.svg"
    trace.save(recorded)
    assert main(["replay", str(recorded), "--svg", str(picture), "--beside", str(recorded)]) == 0
    assert picture.read_text() == animate([trace, trace])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.jsonl", "t.svg"]
    assert main(["replay", str(recorded), "--beside", str(recorded)]) == 2
    assert main(["replay", str(recorded), "--svg", str(tmp_path / "no" / "t.svg")]) == 2
    errors = capsys.readouterr().err
    assert "--svg" in errors and "does not exist" in errors and "Traceback" not in errors


def test_nothing_to_show_is_said() -> None:
    empty = decode(hash_model(), "5 6 7", "rpd", canvas=["5"]).trace
    with pytest.raises(unmask.UserError, match="nothing to show"):
        animate([empty])
