"""A decode as HTML for notebooks, and the files it shares with the page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import checkpoints
import unmask
from unmask.decoders.base import REASONS, ROUTES
from unmask.models import Model
from unmask.view import REASONS as REASON_WORDS
from unmask.view import ROUTES as ROUTE_WORDS
from unmask.view import cells

PAGE = Path(unmask.__file__).parent / "serve" / "page"
LENIENT = {"theta_s": 1.5, "w": 4.0, "first_layer": 2, "beta": 1.0}
DANGERS = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "style=")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = checkpoints.write_checkpoint(tmp_path_factory.mktemp("view") / "small", "llada", layers=6)
    return unmask.load(folder, device="cpu")


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag != "rect":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "rect":
            assert self.open.pop() == tag


def test_a_notebook_shows_the_canvas(small: Model) -> None:
    out = unmask.generate(small, "the user", "rpd", canvas_length=32, **LENIENT)
    html = out._repr_html_()  # type: ignore[union-attr]
    tags = Tags(html)
    assert not tags.open and (PAGE / "canvas.css").read_text(encoding="utf-8") in html
    drawn = [attributes for tag, attributes in tags.seen if attributes.get("class") == "um-cell"]
    told = cells(out.trace)  # type: ignore[union-attr]
    assert [(a["data-route"], a["data-strength"], a["title"]) for a in drawn] == [
        (cell.route, str(cell.strength), cell.label) for cell in told
    ]
    assert sum(tag == "rect" for tag, _ in tags.seen) == 32
    assert not {"script", "img", "iframe", "link"} & {tag for tag, _ in tags.seen}
    assert not any(name.startswith("on") for _, attributes in tags.seen for name in attributes)


def test_fixed_masked_and_third_party_cells_are_drawn_too(small: Model) -> None:
    out = unmask.generate(small, "the user", "left-to-right", canvas=["the", 3, " and"], early_stop=True)
    first, *_, last = cells(out.trace)  # type: ignore[union-attr]
    assert (first.route, first.label) == ("given", "position 0: “the”, given") and last.route == "given"
    trace = out.trace  # type: ignore[union-attr]
    trace.steps[0].verdict[0] = "<b>mine</b>"
    assert "<b>mine" not in out._repr_html_()  # type: ignore[union-attr]
    del trace.steps[1:]
    assert [cell.route for cell in cells(trace)][2:4] == ["", ""]


def test_every_route_and_reason_has_words_and_a_look() -> None:
    assert set(ROUTE_WORDS) == {*ROUTES, "given"} and set(REASON_WORDS) == set(REASONS)
    css = (PAGE / "canvas.css").read_text(encoding="utf-8")
    for route in ROUTE_WORDS:
        assert f'[data-route="{route}"]' in css and css.count(f"--um-{route}:") == 3, (
            f"{route}: light, dark, chosen dark"
        )


def test_no_file_of_the_page_writes_markup_or_loads_from_elsewhere() -> None:
    files = [path for path in PAGE.iterdir() if path.is_file()]
    assert {path.suffix for path in files} == {".html", ".css", ".js", ".svg"}
    for path in files:
        source = path.read_text(encoding="utf-8")
        assert [danger for danger in DANGERS if danger in source] == [], path.name
        links = re.findall(r"https?://[^\s\"']+", source)
        assert set(links) <= {"http://www.w3.org/2000/svg"}, path.name
        assert "@import" not in source and "url(" not in source, path.name
        assert source.count("\n") < 300, f"{path.name} is too long to read in one go"
