"""The page in a real browser: keyboard, screen readers, phones, light and dark, and what it does when things fail."""

from __future__ import annotations

# ruff: noqa: F811 (fixtures are imported, and named again where they are used)
import json
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


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_on_every_route_and_strength(page: Browser, dark: bool) -> None:
    page.screen(1280, 900, dark=dark)
    contrasts = page.js(CONTRAST)
    assert len(contrasts) == 12 * 10
    low = {name: round(value, 2) for name, value in contrasts.items() if value < 4.5}
    assert not low
    decode(page, second="left-to-right")
    fill(page, "#scrub", "2")
    for what in ('.um-cell[data-route=""] .um-text', ".answer .gap", ".params", ".map figcaption span"):
        assert page.js(f"({SEEN})($$('{what}').find((n) => n.textContent))") >= 4.5, what
    page.js(
        "$('.answer').append(Object.assign(document.createElement('span'), { className: 'end', textContent: '∎' }))"
    )
    assert page.js(f"({SEEN})($('.answer .end'))") >= 4.5
    fresh = page.js("$$('.um-cell').filter((n) => n.dataset.route).length")
    for position in range(fresh):
        page.js(f"$$('.um-cell').filter((n) => n.dataset.route)[{position}].dataset.end = ''")
        assert page.js(f"({SEEN})($$('.um-cell').filter((n) => n.dataset.route)[{position}])") >= 4.5, "the tail"


# Contrast of an element's text as it is seen: over the first ground behind it, by every opacity on the way there.
SEEN = """
(node) => {
  const light = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const luminance = (rgb) => 0.2126 * light(rgb[0]) + 0.7152 * light(rgb[1]) + 0.0722 * light(rgb[2]);
  const parse = (text) => {
    const numbers = text.match(/[\\d.]+/g).slice(0, 3).map(Number);
    return text.startsWith('rgb') ? numbers.map((n) => n / 255) : numbers;
  };
  const ink = parse(getComputedStyle(node).color);
  let opacity = 1;
  let at = node;
  for (; getComputedStyle(at).backgroundColor === 'rgba(0, 0, 0, 0)'; at = at.parentElement) {
    opacity *= Number(getComputedStyle(at).opacity);
  }
  const ground = parse(getComputedStyle(at).backgroundColor);
  const seen = ink.map((c, i) => c * opacity + ground[i] * (1 - opacity));
  const [a, b] = [luminance(seen), luminance(ground)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}
"""


# Every route at every strength on a cell of its own; contrast by WCAG's formula.
CONTRAST = """
(async () => {
  const { routes } = await (await fetch('/api/page')).json();
  const light = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const luminance = (rgb) => 0.2126 * light(rgb[0]) + 0.7152 * light(rgb[1]) + 0.0722 * light(rgb[2]);
  const parse = (text) => {
    const numbers = text.match(/[\\d.]+/g).slice(0, 3).map(Number);
    return text.startsWith('rgb') ? numbers.map((n) => n / 255) : numbers;
  };
  const cell = document.createElement('span');
  cell.className = 'um-cell';
  document.body.append(cell);
  const found = {};
  const names = [...Object.keys(routes), 'a third party'];
  for (const route of names) for (let strength = 0; strength < 10; strength += 1) {
    cell.dataset.route = route;
    cell.dataset.strength = strength;
    const style = getComputedStyle(cell);
    const clear = style.backgroundColor === 'rgba(0, 0, 0, 0)';
    const ground = (clear ? getComputedStyle($('.panel')) : style).backgroundColor;
    const [a, b] = [luminance(parse(style.color)), luminance(parse(ground))].sort((x, y) => y - x);
    found[`${route} ${strength}`] = (a + 0.05) / (b + 0.05);
  }
  cell.remove();
  return found;
})()
"""


def test_routes_differ_by_more_than_colour(page: Browser) -> None:
    """What stands on one canvas together must have different stripes."""
    decoders = [
        ("confidence", "stability", "fallback"), ("schedule", "chance"), ("budget", "fallback"), ("order", "given"),
        ("direct", "independent", "fallback"), ("confidence", "branch", "fallback"),
    ]  # fmt: skip
    code = (
        "((routes) => { const n = document.createElement('span'); n.className = 'um-key'; document.body.append(n);"
        "const stripe = (r) => { n.dataset.route = r; return getComputedStyle(n).backgroundImage; };"
        "const seen = routes.map((r) => stripe(r).replace(/(rgb|color)\\([^)]*\\)/g, 'C'));"
        "n.remove(); return seen; })"
    )
    for together in decoders:
        stripes = page.js(f"{code}({json.dumps(together)})")
        assert len(set(stripes)) == len(together), (together, stripes)


@pytest.mark.parametrize(("width", "height"), [(360, 740), (390, 844), (768, 1024), (1280, 900)])
def test_two_canvases_are_side_by_side_on_every_screen(page: Browser, width: int, height: int) -> None:
    page.screen(width, height, touch=width < 1000)
    decode(page)
    assert page.js("document.documentElement.scrollWidth") <= width
    for part in (".panel", ".um-canvas", ".um-map"):
        (left, top, right), other = page.js(
            f"$$('{part}').map((n) => n.getBoundingClientRect()).map((b) => [b.left, b.top, b.right])"
        )
        assert top == other[1] and left < right <= other[0] < other[2] <= width
    page.js("$('#stage').scrollIntoView()")
    bar = page.js("$('.transport').getBoundingClientRect().top")
    assert page.js("Math.max(...$$('.um-canvas').map((n) => n.getBoundingClientRect().top))") < 0.7 * bar, (
        "out of sight"
    )
    shown = page.js(
        "[...$$('.transport button, .transport label, #scrub, #where')].map((n) => n.getBoundingClientRect().right)"
    )
    assert max(shown) <= width
    words = page.js("getComputedStyle($('.um-text')).display !== 'none'")
    assert words == (width > 720), "on a phone the squares speak by colour"


def test_it_fits_a_phone(page: Browser) -> None:
    page.screen(390, 844, touch=True)
    decode(page)
    page.point(".um-cell", click=True)
    page.wait("!$('#ledger').hidden")
    assert "position 0" in text(page, "#ledger"), "the word that is not in the square"
    page.press("Escape")
    decode(page, second="")
    assert page.js("document.documentElement.scrollWidth") <= 390
    page.point(".um-cell", click=True)
    page.wait("!$('#ledger').hidden")
    box = page.js("(({ left, right, bottom }) => [left, right, bottom])($('#ledger').getBoundingClientRect())")
    bar = page.js("$('.transport').getBoundingClientRect().top")
    assert box[0] >= 0 and box[1] <= 390 and box[2] <= bar + 2
    assert float(page.js("parseFloat(getComputedStyle($('.um-cell')).fontSize)")) >= 11
    small_targets = page.js(
        "$$('.transport button, .panel button, #decode').filter((n) => n.getBoundingClientRect().height < 28).length"
    )
    assert small_targets == 0


def test_light_and_dark_follow_the_system_or_the_button(page: Browser) -> None:
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.js(ground)
    page.screen(1280, 900, dark=True)
    dark = page.js(ground)
    assert light != dark
    page.point("#theme", click=True)
    assert page.js(ground) == light and text(page, "#theme") == "Theme: light"
    page.point("#theme", click=True)
    page.screen(1280, 900)
    assert page.js(ground) == dark
    page.point("#theme", click=True)
    assert page.js(ground) == light and text(page, "#theme") == "Theme: auto"


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
        assert (
            tab.js("Object.keys({...localStorage, ...sessionStorage}).filter((k) => k !== 'unmask-theme').length")
            == 0
        )
        decode(tab)
        assert all(cell[1] for cell in drawn(tab, 0))
