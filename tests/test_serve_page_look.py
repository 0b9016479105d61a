"""The page in a real browser: what can be read, on which screens, in light and dark."""

from __future__ import annotations

# ruff: noqa: F811 (fixtures are imported, and named again where they are used)
import json

import pytest

from webpage import Browser, decode, fill, live, needs_browser, page, small, tab, text  # noqa: F401 (fixtures)

pytestmark = needs_browser


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
