"""The page in a real browser: what it shows is what the trace says, and runs can be shared."""

from __future__ import annotations

# ruff: noqa: F811 (fixtures are imported, and named again where they are used)
import json
import re
from itertools import cycle
from pathlib import Path

import pytest

import unmask
from serving import Live, wait_until
from unmask.cli import main
from unmask.models import Model
from unmask.replay import seats
from unmask.trace import Trace
from unmask.view import REASONS, ROUTES, cells
from webpage import (  # noqa: F401 (fixtures)
    CANVAS,
    LENIENT,
    OPTIONS,
    PAGE,
    PROMPT,
    READY,
    Browser,
    alone,
    counters,
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

# --- what is shown ------------------------------------------------------------------------------------------


def test_both_canvases_show_what_the_decoders_did(page: Browser, small: Model) -> None:
    decode(page, **OPTIONS)
    for panel, (name, options) in enumerate([("rpd", LENIENT), ("fast-dllm", {})]):
        out = alone(small, name, **options)
        shown = [[c.text, c.route, c.strength, c.end, c.label] for c in cells(out.trace)]
        assert drawn(page, panel) == shown, "the page and the notebook draw the same trace differently"
        assert counters(page, panel)[:3] == [str(out.nfe), f"{CANVAS} / {CANVAS}", str(len(out.tokens))]
        told = page.js(f"$$('.panel:nth-child({panel + 1}) .warned').map((n) => n.textContent)")
        assert len(told) == len(out.warnings)
        marks = page.js(f"$$('.panel:nth-child({panel + 1}) .um-mark').length")
        assert marks == CANVAS


def test_a_collapsed_decode_is_said_so_with_what_to_do(page: Browser, small: Model) -> None:
    decode(page, second="left-to-right", canvas=8)
    out = unmask.generate(small, PROMPT, "left-to-right", canvas_length=8)
    (warning,) = out.warnings  # type: ignore[union-attr]
    told = page.js("$$('.panel:last-child .warned').map((n) => n.textContent)")
    assert len(told) == 1 and warning.sentence[1:] in told[0] and "rpd holds back" in told[0]
    page.js("$('#first').click()")
    assert page.js("$$('.panel:last-child .warned').length") == 0, "it is not known before it is over"


def test_a_long_word_is_set_smaller_and_no_sign_is_cut_off(page: Browser, small: Model, tmp_path: Path) -> None:
    out = alone(small, "rpd", **LENIENT)
    words = cycle([" ", "together", " of"])
    out.trace.header["pieces"] = {token: next(words) for token in out.trace.header["pieces"]}
    out.trace.save(tmp_path / "words.jsonl")
    give(page, tmp_path / "words.jsonl")
    page.wait("$$('.um-mark').length > 0")
    cut = "((t) => t.scrollWidth > t.clientWidth || t.scrollHeight > t.clientHeight)"
    for width in (1280, 390):
        page.screen(width, 900)
        shown = page.js(f"$$('.um-cell').map((n) => [n.textContent, 'long' in n.dataset, {cut}(n.firstChild)])")
        assert {word for word, *_ in shown} == {"␣", "together", "of"}
        assert all(long == (word == "together") for word, long, _ in shown)
        assert not any(cut for word, _, cut in shown if width == 1280 or word != "together")
    assert out._repr_html_().count('" data-long') == sum(word == "together" for word, *_ in shown)


def test_the_end_can_be_reached_on_the_scale_of_seconds(page: Browser) -> None:
    decode(page)
    fill(page, "#mode", "time")
    page.js("$('#last').click()")
    assert page.js("$('#scrub').value / $('#scrub').max") == pytest.approx(1)


def test_the_map_says_how_far_its_axes_reach(page: Browser, small: Model) -> None:
    decode(page, **OPTIONS)
    steps = len(alone(small, "rpd", **LENIENT).trace.steps)
    told = page.js("$$('.panel:first-child figcaption span').map((n) => n.textContent)")
    assert told == [f"position 0 to {CANVAS - 1} →", "commit order", f"step 1 to {steps} ↓"]


def test_the_canvases_go_in_step(page: Browser, small: Model) -> None:
    decode(page, second="left-to-right", **OPTIONS)
    one, two = alone(small, "rpd", **LENIENT), alone(small, "left-to-right")
    for step in (0, 1, 3, 7, len(one.trace.steps), 40):
        fill(page, "#scrub", str(step))
        for panel, out in enumerate((one, two)):
            order = out.trace.commit_steps()
            filled = int(((order >= 0) & (order < step)).sum())
            assert counters(page, panel)[1] == f"{filled} / {CANVAS}"
            assert [i for i, cell in enumerate(drawn(page, panel)) if cell[1]] == [
                i for i in range(CANVAS) if 0 <= order[i] < step
            ]
    page.js("$('#mode').value = 'time', $('#mode').dispatchEvent(new Event('change'))")
    assert "s" in text(page, "#where")
    page.js("$('#first').click()")
    assert counters(page, 0)[1].startswith("0 /")


def test_it_plays_and_pauses(page: Browser) -> None:
    decode(page)
    fill(page, "#speed", "8")
    page.js("$('#first').click(), document.activeElement.blur()")
    page.press(" ")
    page.wait("Number($('#scrub').value) >= 3")
    page.press(" ")
    assert page.js("$('#play').getAttribute('aria-label')") == "play"
    held = page.js("$('#scrub').value")
    for key, change in ((".", 1), (",", -1)):
        before = int(page.js("$('#scrub').value"))
        page.press(key)
        assert int(page.js("$('#scrub').value")) == before + change
    assert page.js("$('#scrub').value") == held
    page.press("End")
    assert page.js("$('#scrub').value") == page.js("$('#scrub').max")
    page.press("Home")
    assert page.js("$('#scrub').value") == "0"


def test_the_ledger_tells_why_and_why_not_before(page: Browser, small: Model) -> None:
    decode(page, **OPTIONS)
    trace = alone(small, "rpd", **LENIENT).trace
    waited = {p: r for p, r in waits(trace).items() if "upstream" in r}
    position = max(waited, key=lambda p: len(waited[p]))
    assert page.js("$('#ledger').hidden"), "nobody has pointed at anything yet"
    page.js(f"$$('.panel:first-child .um-cell')[{position}].id = 'picked'")
    page.point("#picked")
    page.wait("!$('#ledger').hidden")
    told = text(page, "#ledger")
    step = int(trace.commit_steps()[position]) + 1
    assert f"position {position}" in told and f"committed at step {step}," in told
    for word in (
        "confidence c",
        "entropy H",
        "upstream E",
        "against β 1",
        "too much uncertainty before it",
        "> beta 1",
    ):
        assert word in told, word
    assert f"({len(waited[position])} step" in told
    assert "fast-dllm: " in told, "what the other decoder did there"
    sure = next(p for p in range(CANVAS) if drawn(page, 0)[p][1] == "confidence")
    page.js(f"$$('.panel:first-child .um-cell')[{sure}].id = 'sure'")
    page.point("#sure")
    assert "not read: confidence alone decides" in text(page, "#ledger")
    stable = next(p for p in range(CANVAS) if drawn(page, 0)[p][1] == "stability")
    page.js(f"$$('.panel:first-child .um-cell')[{stable}].id = 'stable'")
    page.point("#stable", click=True)
    told = text(page, "#ledger")
    assert all(word in told for word in ("persistence K", "drop r", "stability S", "against θs 1.5"))
    page.press("Escape")
    assert page.js("$('#ledger').hidden")


def test_the_ledger_never_lies_over_its_token(page: Browser) -> None:
    decode(page, **OPTIONS)
    for height in (900, 620):  # in the lower window there is room neither below nor above
        page.screen(1280, height)
        for side, position in (("first", 0), ("first", 9), ("first", 37), ("last", 30), ("last", 63)):
            page.js(f"$$('.panel:{side}-child .um-cell')[{position}].id = 'at-{side}-{position}-{height}'")
            page.point(f"#at-{side}-{position}-{height}")
            page.wait(f"$('#ledger').textContent.includes('position {position}')")
            apart = page.js(
                f"(([a, b]) => a.left >= b.right || a.right <= b.left || a.top >= b.bottom || a.bottom <= b.top)"
                f"(['#ledger', '#at-{side}-{position}-{height}'].map((s) => $(s).getBoundingClientRect()))"
            )
            assert apart, f"{side} {position} at {height}"


def test_the_tail_behind_the_answer_can_be_folded_away(page: Browser, small: Model, tmp_path: Path) -> None:
    trace = alone(small, "left-to-right").trace
    canvas = [int(token) for token in list(trace.canvases())[-1]]
    end = next(i for i in range(8, CANVAS - 12) if canvas[i] not in canvas[:i])
    trace.header |= {"stop_ids": [canvas[end]], "label": "my preset"}
    trace.save(tmp_path / "ended.jsonl")
    give(page, tmp_path / "ended.jsonl")
    page.wait("$$('.um-mark').length > 0")
    seen = "$$('.um-cell').filter((n) => !n.hidden).length"
    assert page.js(seen) == CANVAS and counters(page, 0)[2] == str(end)
    assert text(page, ".panel h2") == "my preset"
    page.point("#tail", click=True)
    assert page.js(seen) == end + 1 and f"{end + 1}–{CANVAS - 1}" in text(page, ".tail")
    page.js("$('.um-cell').focus()")
    page.press("End")
    assert page.js("Number(document.activeElement.dataset.position)") == end
    page.press("Escape")
    fill(page, "#scrub", str(end + 3))
    assert f"2 of {CANVAS - end - 1} filled" in text(page, ".tail") and page.js(seen) == end + 1
    page.point("#tail", click=True)
    assert page.js(seen) == CANVAS and page.js("$('.tail').hidden")


def test_every_route_and_reason_is_explained_on_the_page(page: Browser) -> None:
    page.point(".help summary", click=True)
    told = text(page, ".help")
    for words in (*ROUTES.values(), *REASONS.values()):
        assert words in told


def waits(trace: Trace) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for step in trace.steps:
        for i, position in enumerate(step.positions.tolist()):
            if not step.committed[i]:
                found.setdefault(position, []).append(str(step.verdict[i]))
    return found


@pytest.mark.parametrize(
    "decoder",
    ["rpd", "rpd-block", "fast-dllm", "eb-sampler", "lopa", "dapd", "staged", "llada-default", "left-to-right"],
)
def test_the_words_are_those_of_replay(page: Browser, small: Model, decoder: str) -> None:
    options = {"rpd": LENIENT, "staged": {"variant": "staged", "staged_confidence": 0.3}}.get(decoder, {})
    trace = alone(small, "dapd" if decoder == "staged" else decoder, **options).trace
    assert decoder != "staged" or "direct" in trace.route_counts()
    wanted = [[seat.why, seat.verdict] for step in trace.steps for seat in seats(trace, step)]
    told = page.js(
        f"import('/page/run.js').then(async ({{ Run }}) => {{ const {{ reason }} = await import('/page/words.js');"
        f"const run = Run.parse({json.dumps(chr(10).join(trace.lines()))}, 'x');"
        "return run.steps.flatMap((step, n) => step.positions.map((p) => run.seat(n, p)))"
        ".map((s) => [reason(s.verdict, s.values, s.threshold, run.params), s.verdict]); })"
    )
    assert told == wanted


def test_numbers_are_spelled_as_everywhere_else(page: Browser) -> None:
    from unmask.wording import duration, number

    values = [0.0, 1.0, 0.5, 0.973, 6.2, 160.0, 999.0, 1234.6, 0.000123, 0.0000123, 1e-9, 12.345, 0.1, 3.0e-5, 99.96]
    assert page.js(f"import('/page/words.js').then((w) => {json.dumps(values)}.map(w.number))") == [
        number(v) for v in values
    ]
    times = [0.0, 0.0123, 0.0994, 0.1, 1.234, 99.99, 150.0]
    assert page.js(f"import('/page/words.js').then((w) => {json.dumps(times)}.map(w.duration))") == [
        duration(t) for t in times
    ]


# --- sharing ------------------------------------------------------------------------------------------------


def test_a_run_is_saved_and_opened_by_the_page_and_by_replay(
    page: Browser, small: Model, live: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decode(page, **OPTIONS)
    before = drawn(page, 0)
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.point(".panel header button", click=True)
    saved = tmp_path / "rpd-A.trace.jsonl"
    wait_until(saved.exists)
    wait_until(lambda: saved.read_text().count('"end"') == 1)
    trace, out = Trace.load(saved), alone(small, "rpd", **LENIENT)
    assert trace.header == {**out.trace.header, "model": "small"} and trace.end["text"] == out.text
    assert saved.read_text() == "\n".join(trace.lines()) + "\n", "the file is what Trace.save would have written"
    assert main(["replay", str(saved)]) == 0
    assert "rpd" in capsys.readouterr().out
    page.open(live.url)
    page.wait(READY)
    out.trace.save(tmp_path / "other.jsonl")
    give(page, saved, tmp_path / "other.jsonl")
    page.wait("$$('.um-mark').length > 0")
    assert drawn(page, 0) == drawn(page, 1) == before


HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


def test_nothing_a_model_or_a_file_says_becomes_markup(page: Browser, small: Model, tmp_path: Path) -> None:
    out = alone(small, "rpd", **LENIENT)
    trace = out.trace
    trace.header["pieces"] = dict.fromkeys(trace.header["pieces"], HOSTILE)
    trace.header |= {
        "decoder": HOSTILE,
        "label": HOSTILE,
        "prompt": HOSTILE,
        "model": HOSTILE,
        "params": {HOSTILE: HOSTILE, "theta_h": 0.9},
    }
    for step in trace.steps:
        step.verdict[step.verdict == "confidence"] = HOSTILE
    trace.save(tmp_path / "hostile.jsonl")
    give(page, tmp_path / "hostile.jsonl")
    page.wait("$$('.um-mark').length > 0")
    page.point(".um-cell", click=True)
    page.wait("!$('#ledger').hidden")
    assert HOSTILE in text(page, "#ledger") and HOSTILE in page.js("$('#prompt').value")
    assert page.js("$$('#stage img, #stage script, #ledger img, #ledger script').length") == 0
    assert page.js("window.hacked === undefined")
    html = out._repr_html_()
    assert "<img" not in html and "<script" not in html and "&lt;img" in html


def test_words_that_every_object_knows_are_only_words(page: Browser, small: Model, tmp_path: Path) -> None:
    """A file may call a route, a decoder or a warning "constructor", and may spell a number as a word."""
    out = alone(small, "rpd", **LENIENT)
    out.trace.header |= {"decoder": "constructor", "label": "__proto__"}
    for step in out.trace.steps:
        step.verdict[step.verdict == "confidence"] = "constructor"
        step.verdict[step.verdict == "unsure"] = "toString"
    out.trace.save(tmp_path / "odd.jsonl")
    lines = (tmp_path / "odd.jsonl").read_text().splitlines()
    lines[1] = re.sub(r'"c":\[[^,\]]+', '"c":["high"', lines[1])
    lines.insert(2, '{"warnings":[{"code":"constructor","sentence":"a thing","fix":"do it"}]}')
    (tmp_path / "odd.jsonl").write_text("\n".join(lines))
    give(page, tmp_path / "odd.jsonl")
    page.wait("$$('.um-mark').length > 0")
    for step in range(3):
        page.js(f"$('#scrub').value = {step}, $('#scrub').dispatchEvent(new Event('input'))")
        for position in range(0, CANVAS, 9):
            page.point(f".um-cell[data-position='{position}']", click=True)
    page.js("$('#last').click()")
    assert "native code" not in page.js("document.body.textContent")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not a complete unmask trace"),
        ("hello", "line 1: not a valid trace line"),
        ('{"format":"other"}', "this is not an unmask trace"),
        ('{"format":"unmask.trace","version":99}', "trace version 99"),
        ('{"format":"unmask.trace","version":1,"canvas_length":1e12}', "no canvas length"),
        ('{"step":{"positions":[]}}', "a step without a header"),
        ('{"format":"unmask.trace","version":1,"canvas_length":4,"fixed":{"4000000000":1}}', "off the canvas"),
    ],
)
def test_a_damaged_file_is_answered_with_a_sentence(page: Browser, tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "bad.jsonl").write_text(content)
    give(page, tmp_path / "bad.jsonl")
    page.wait("!$('#alert').hidden")
    assert says in text(page, "#alert") and "bad.jsonl" in text(page, "#alert")
