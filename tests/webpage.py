"""What the page's tests share: a browser with the page open, and short ways to work it and to read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import browser as chromium
import checkpoints
import unmask
from serving import Live, running, wait_until
from unmask.models import Model

needs_browser = pytest.mark.skipif(chromium.find() is None, reason="no Chromium (Debian: apt-get install chromium)")
Browser = chromium.Browser
PAGE = Path(unmask.__file__).parent / "serve" / "page"
PROMPT, CANVAS = "the user and the assistant", 64
OPTIONS = {"a-theta_s": "1.5", "a-w": "4", "a-first_layer": "2", "a-beta": "1"}  # in the form ...
LENIENT = {"theta_s": 1.5, "w": 4.0, "first_layer": 2, "beta": 1.0}  # ... and for generate
READY = "document.documentElement.dataset.ready !== undefined"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = checkpoints.write_checkpoint(tmp_path_factory.mktemp("page") / "small", "llada", layers=6, scale=1.5)
    return unmask.load(folder, device="cpu")


@pytest.fixture(scope="module")
def live(small: Model) -> Iterator[Live]:
    with running(small) as server:
        yield server


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture
def page(tab: Browser, live: Live) -> Iterator[Browser]:
    """A fresh page on a wide, light screen; afterwards it must have had nothing to complain about."""
    tab.screen(1280, 900)
    tab.requests.clear()
    tab.complaints.clear()
    tab.open(live.url)
    tab.wait(READY)
    yield tab
    assert tab.complaints == []
    assert all(url.startswith((live.url, "blob:")) for url in tab.requests), "something was loaded from elsewhere"
    wait_until(lambda: live.idle)


def fill(page: Browser, selector: str, value: str) -> None:
    page.js(
        f"(() => {{ const n = $({json.dumps(selector)}); n.value = {json.dumps(value)};"
        "for (const kind of ['input', 'change']) n.dispatchEvent(new Event(kind, {bubbles: true})); })()"
    )


def decode(
    page: Browser, first: str = "rpd", second: str = "fast-dllm", canvas: int = CANVAS, **options: str
) -> None:
    """Fill the form, decode, and go to the end."""
    fill(page, "#decoder-a", first)
    fill(page, "#decoder-b", second)
    fill(page, "#prompt", PROMPT)
    fill(page, "#canvas-length", str(canvas))
    for name, value in options.items():
        fill(page, f"#{name}", value)
    page.point("#decode", click=True)
    page.wait("$('#decode').textContent === 'Decode' && !$('#scrub').disabled")
    page.js("$('#last').click()")


def drawn(page: Browser, panel: int) -> list[list[Any]]:
    """Per cell: text, route, strength, whether it is an end of text, and what a screen reader says."""
    return page.js(
        f"$$('.panel:nth-child({panel + 1}) .um-cell').map((n) => [n.textContent, n.dataset.route,"
        "Number(n.dataset.strength ?? 0), n.dataset.end !== undefined, n.getAttribute('aria-label')])"
    )


def text(page: Browser, selector: str) -> str:
    return page.js(f"$({json.dumps(selector)}).innerText")


def counters(page: Browser, panel: int) -> list[str]:
    return page.js(f"$$('.panel:nth-child({panel + 1}) .counters dd:not(.more)').map((n) => n.textContent)")


def give(page: Browser, *files: Path) -> None:
    """Choose files in the dialogue behind "Open run"."""
    root = page.call("DOM.getDocument")["root"]["nodeId"]
    node = page.call("DOM.querySelector", nodeId=root, selector="#open")["nodeId"]
    page.call("DOM.setFileInputFiles", files=[str(file) for file in files], nodeId=node)


def alone(model: Model, decoder: str, **options: Any) -> unmask.Generation:
    out = unmask.generate(model, PROMPT, decoder, canvas_length=CANVAS, **options)
    assert not isinstance(out, list)
    return out
