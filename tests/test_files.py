"""Files that are written: links stay links, pipes stay pipes, and what cannot be written is said in one sentence."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from helpers import decode, hash_model
from unmask import Trace, UserError, animation
from unmask.files import check_writable, write_whole


@pytest.fixture(scope="module")
def trace() -> Trace:
    return decode(hash_model(), "5 6", "left-to-right", canvas_length=4).trace


def as_text(trace: Trace) -> str:
    return "\n".join(trace.lines()) + "\n"


@pytest.mark.parametrize("drawn", [False, True])
def test_a_pipe_is_written_to(trace: Trace, tmp_path: Path, drawn: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    check_writable(pipe)
    animation.save([trace], pipe) if drawn else trace.save(pipe)
    assert pipe.is_fifo()
    reader.join(timeout=10)
    assert got == [animation.animate([trace]) if drawn else as_text(trace)]


@pytest.mark.parametrize("drawn", [False, True])
def test_a_link_keeps_pointing_at_its_file(trace: Trace, tmp_path: Path, drawn: bool) -> None:
    (tmp_path / "runs").mkdir()
    link, real = tmp_path / "link", tmp_path / "runs" / "real"
    real.write_text("old")
    link.symlink_to(Path("runs", "real"))
    check_writable(link)
    animation.save([trace], link) if drawn else trace.save(link)
    assert link.is_symlink() and real.read_text() == (animation.animate([trace]) if drawn else as_text(trace))
    real.unlink()
    write_whole(link, "new")  # where the link points to nothing yet
    assert link.is_symlink() and real.read_text() == "new"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["link", "real", "runs"]


def test_devices_are_not_replaced(trace: Trace) -> None:
    check_writable(Path(os.devnull))
    if os.geteuid():  # as root a failure would cost the machine its /dev/null
        trace.save(os.devnull)
    assert Path(os.devnull).is_char_device()


def test_a_name_of_the_greatest_length(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)
    check_writable(path)
    write_whole(path, "text")
    assert path.read_text() == "text" and len(list(tmp_path.iterdir())) == 1


def test_what_cannot_be_a_file(tmp_path: Path) -> None:
    circle, lost = tmp_path / "circle", tmp_path / "lost"
    circle.symlink_to(circle)
    lost.symlink_to(tmp_path / "gone" / "file")
    for path, words in (
        (tmp_path / ("a" * 5000), "too long"),
        (tmp_path / ("a" * 5000) / "t", "too long|does not exist"),
        (tmp_path / "a\0b", "cannot be written"),
        (circle, "cannot be written"),
        (lost, "gone, which .*lost leads to, does not exist"),
        (tmp_path, "is a folder"),
    ):
        with pytest.raises(UserError, match=words) as told:
            check_writable(path)
        assert len(str(told.value)) < 400 and "\n" not in str(told.value)
