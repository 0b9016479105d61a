"""Every figure of a diagnostics folder, whatever it holds: `unmask report DIR --figures OUT` ends up here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from unmask.diagnostics.decodes import DECODES
from unmask.diagnostics.survey import STATES
from unmask.evaluate.folder import CONFIG
from unmask.report import commitment, evidence
from unmask.report.table import Table

FIGURES: dict[str, Callable[..., list[Path]]] = {
    "upstream": evidence.draw_upstream,
    "layers": evidence.draw_layers,
    "order": commitment.draw_order,
    "admitted": commitment.draw_admitted,
}
HELD: dict[str, tuple[str, ...]] = {STATES.format: ("upstream", "layers"), DECODES.format: ("order", "admitted")}


def diagnostics(folder: Path) -> tuple[str, ...]:
    """Which diagnostics a folder can answer; none for a run of another kind."""
    try:
        held = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    return HELD.get(str(held.get("format")), ()) if isinstance(held, dict) else ()


def draw(folders: Iterable[Path], target: Path) -> list[Path]:
    """Folders of one kind and model go by their own name as well: none overwrites another's figures."""
    folders = list(folders)
    alike = Counter(map(kind, folders))
    written: list[Path] = []
    for folder in folders:
        suffix = f"-{folder.resolve().name}" if alike[kind(folder)] > 1 else ""
        for name in answerable(folder):
            written += FIGURES[name](folder, target, suffix)
    return written


def kind(folder: Path) -> tuple[str, ...]:
    """What the names of its figures are made of."""
    held = json.loads((folder / CONFIG).read_text(encoding="utf-8")) if diagnostics(folder) else {}
    return (*diagnostics(folder), str(held.get("model", {}).get("name", folder)))


def answerable(folder: Path) -> list[str]:
    """Without `admitted` where no decoder tests stability, and without `layers` where there are too few."""
    from unmask.diagnostics.states import SHORTEST_WINDOW, first_layer
    from unmask.evaluate.folder import read_config

    names = list(diagnostics(folder))
    if "admitted" in names:
        held = read_config(folder, DECODES)["decoders"]
        if all("theta_s" not in entry["params"] for entry in held):
            names.remove("admitted")
    if "layers" in names:
        layers = read_config(folder, STATES)["model"]["layers"]
        if layers - first_layer(layers) + 1 < SHORTEST_WINDOW:
            names.remove("layers")
    return names


def tables(folder: Path, beside: bool = False) -> dict[str, Table]:
    """All tables of a diagnostics folder."""
    from unmask.diagnostics import tables as made

    build = {
        "upstream": lambda: made.upstream_tables(folder, beside, strict=False),
        "layers": lambda: made.layer_tables(folder, None, beside),
        "order": lambda: made.order_tables(folder, beside),
        "admitted": lambda: made.admitted_tables(folder, beside),
    }
    found: dict[str, Table] = {}
    for name in answerable(folder):
        found |= build[name]()
    return found
