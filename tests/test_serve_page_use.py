"""The page in a real browser: keyboard, screen readers, and what it does when things fail."""

from __future__ import annotations

# ruff: noqa: F811 (fixtures are imported, and named again where they are used)
from pathlib import Path

import pytest

from serving import Live, running, wait_until
from unmask.cli import main
from unmask.models import Model
from unmask.serve.service import Settings
from unmask.trace import Trace
from webpage import (  # noqa: F401 (fixtures)
    CANVAS,
    PROMPT,
    READY,
    Browser,
    alone,
    decode,
    drawn,
    fill,
    give,
    live,
    needs_browser,
    page,
    small,
    tab,
    text,
)

pytestmark = needs_browser

# --- working it ---------------------------------------------------------------------------------------------


def test_everything_can_be_done_with_the_keyboard(page: Browser) -> None:
    fill(page, "#canvas-length", str(CANVAS))
    page.js("$('#prompt').focus()")
    seen = []
    for _ in range(40):
        page.press("Tab")
        seen.append(
            page.js("document.activeElement.id || document.activeElement.className || document.activeElement.tagName")
        )
        if seen[-1] == "decode":
            break
    assert seen[-1] == "decode" and {"decoder-a", "decoder-b", "canvas-length", "seed"} <= set(seen)
    page.press("Enter")
    page.wait("$('#decode').textContent === 'Decode' && $$('.um-mark').length >= 60")
    page.js("$('#last').click(), $('.um-cell').focus()")
    for key, position in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", CANVAS - 1), ("Home", 0)):
        page.press(key)
        assert page.js("Number(document.activeElement.dataset.position)") == position
    page.press("ArrowDown")
    columns = page.js("Number(document.activeElement.dataset.position)")
    assert columns > 4 and f"position {columns}" in text(page, "#ledger")
    assert page.js("getComputedStyle(document.activeElement).outlineStyle") == "solid", "focus can be seen"
    page.press("Enter")
    assert page.js("$('#ledger').classList.contains('pinned')")
    assert page.js("document.activeElement.getAttribute('aria-selected')") == "true"
    page.press("Escape")
    assert page.js("$$('.panel .um-cell[tabindex=\"0\"]').length") == 2, "one stop per canvas"


def test_everything_has_a_name(page: Browser) -> None:
    decode(page)
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    for node in tree:
        role, name = node.get("role", {}).get("value"), node.get("name", {}).get("value", "")
        if role in (
            "button",
            "combobox",
            "textbox",
            "slider",
            "checkbox",
            "spinbutton",
            "listbox",
            "option",
            "link",
            "region",
        ):
            assert name or node.get("ignored"), node
    values = {n["role"]["value"] for n in tree if "role" in n}
    assert {"main", "listbox", "option", "slider", "heading"} <= values


# --- when things go wrong -----------------------------------------------------------------------------------


def test_a_wrong_option_is_explained_where_it_was_given(page: Browser) -> None:
    fill(page, "#decoder-a", "rpd")
    fill(page, "#a-beta", "-1")
    fill(page, "#decoder-b", "")
    page.point("#decode", click=True)
    page.wait("$('.problem') && !$('.problem').hidden")
    assert "beta must be 0 or more" in text(page, ".problem")
    page.wait("$('#decode').textContent === 'Decode'")
    page.complaints.clear()  # the browser itself notes the 400


def begin(page: Browser) -> None:
    """Decodes that will go on for a while."""
    fill(page, "#prompt", PROMPT)
    fill(page, "#decoder-a", "left-to-right")
    fill(page, "#decoder-b", "dream-default")
    fill(page, "#canvas-length", "400")
    page.point("#decode", click=True)
    page.wait("$$('.panel').every((panel) => panel.querySelectorAll('.um-mark').length > 2)")


def test_stop_frees_the_rows_and_keeps_what_is_there(
    page: Browser, live: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(page)
    page.point("#decode", click=True)
    wait_until(lambda: live.idle)
    page.wait("$('#decode').textContent === 'Decode'")
    assert page.js("$$('.badge').map((n) => [n.textContent, n.dataset.state])") == [["stopped", "stopped"]] * 2
    assert page.js("$$('.problem').every((n) => n.hidden && n.getAttribute('role') === 'alert')"), (
        "that is no failure"
    )
    page.js("$('#last').click()")
    before = drawn(page, 0)
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.point(".panel header button", click=True)
    saved = tmp_path / "left-to-right-A.trace.jsonl"
    wait_until(lambda: saved.exists() and '"end"' in saved.read_text())
    trace = Trace.load(saved)
    assert trace.end["finish_reason"] == "stopped" and 2 < trace.end["tokens"] <= len(trace.steps) < 400
    assert main(["replay", str(saved)]) == 0 and "ended by: whoever watched it" in capsys.readouterr().out
    give(page, saved)
    page.wait("$$('.panel').length === 1")
    assert drawn(page, 0) == before and text(page, ".badge") == "stopped"


def test_a_file_takes_the_place_of_what_is_decoding(page: Browser, live: Live, small: Model, tmp_path: Path) -> None:
    alone(small, "left-to-right").trace.save(tmp_path / "one.jsonl")
    begin(page)
    give(page, tmp_path / "one.jsonl")
    page.wait(f"$$('.um-cell').length === {CANVAS}")
    wait_until(lambda: live.idle)
    page.js("new Promise((done) => setTimeout(done, 200))")  # what was aborted has said so by now
    assert text(page, ".panel h2") == "left-to-right" and text(page, ".badge") == "done"
    assert page.js("$$('.um-mark').length") == CANVAS and page.js("$('.problem').hidden")
    assert text(page, "#decode") == "Decode" and not page.js("$('.panel header button').disabled")


def test_a_server_that_is_gone_is_said_so(tab: Browser, small: Model) -> None:
    with running(small) as server:
        tab.open(server.url)
        tab.wait(READY)
    tab.point("#decode", click=True)
    tab.wait("$('.problem') && !$('.problem').hidden")
    assert "cannot be reached" in text(tab, ".problem")


def test_the_page_asks_for_the_key(tab: Browser, small: Model) -> None:
    with running(small, Settings(name="small", api_key="a-long-enough-key")) as server:
        tab.open(server.url)
        tab.wait("!$('#key-form').hidden")
        fill(tab, "#key", "a-wrong-key")
        tab.point("#key-form button", click=True)
        tab.wait("!$('#alert').hidden")
        assert text(tab, "#alert") == "that key was not accepted"
        assert tab.js("$('#key').value === '' && document.activeElement.id === 'key'")
        fill(tab, "#key", "a-long-enough-key")
        tab.point("#key-form button", click=True)
        tab.wait(READY)
        assert tab.js("$('#alert').hidden")
        fill(tab, "#decoder-b", "")
        tab.js("$('#key-form').requestSubmit(), $('#model').textContent = ''")
        tab.wait("$('#model').textContent === 'small'")
        assert tab.js("$('#decoder-b').value") == "", "what was chosen is kept"
        assert (
            tab.js("Object.keys({...localStorage, ...sessionStorage}).filter((k) => k !== 'unmask-theme').length")
            == 0
        )
        decode(tab)
        assert all(cell[1] for cell in drawn(tab, 0))
