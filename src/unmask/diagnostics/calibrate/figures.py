"""The report's figures, each from the part of calibration.json that it shows: (title, SVG, caption)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unmask.diagnostics.calibrate.charts import Plot, nice, percent

FEW = 10  # tokens below which a rate is not drawn
Document = Mapping[str, Any]
Figure = tuple[str, str, str]


def rate(share: float) -> str:
    return f"{100 * share:.2f} %" if share < 0.0995 else f"{100 * share:.1f} %"


def all_of(document: Document) -> Iterator[Figure]:
    yield confidence(document)
    yield persistence(document)
    yield signals(document)
    yield heat(document)
    yield upstream(document)
    yield trial(document)


def value(document: Document, name: str) -> float:
    return next(choice["value"] for choice in document["choices"] if choice["name"] == name)


def error_ticks(high: float) -> tuple[float, list[tuple[float, str]]]:
    ticks = nice(high)
    return ticks[-1], [(tick, percent(tick)) for tick in ticks]


def confidence(document: Document) -> Figure:
    curve, target, chosen = document["confidence"], document["risk"], value(document, "theta_h")
    top, ticks = error_ticks(max(1.6 * target, min(6 * target, max(point["upper"] for point in curve))))
    plot = Plot(
        (0.5, 1.0), (0, top), ("confidence threshold", "wrong above it"), "error rate by confidence threshold"
    )
    plot.y_ticks(ticks).x_ticks([(x / 10, f"{x / 10:g}") for x in range(5, 11)])
    plot.level(target, "target", f"target {percent(target)}")
    plot.line([(p["at"], p["upper"]) for p in curve if p["upper"] <= top], "two")
    plot.line([(p["at"], p["error"]) for p in curve if p["error"] <= top], "")
    plot.upto(chosen, "chosen", f"θh {chosen:g}")
    lowest = next((p for p in curve if p["at"] >= chosen - 1e-9), curve[-1])
    caption = (
        f"Share of wrong target tokens at or above a confidence (solid), and its 95 % upper bound (dashed). At θh: "
        f"{lowest['wrong']} wrong of {lowest['n']:,}."
    )
    return "How confident is confident enough", plot.svg(), caption


def persistence(document: Document) -> Figure:
    curves, styles = document["persistence"], ("", "two", "three")
    drawn = [[point for point in curve["points"] if point["n"] >= FEW] for curve in curves]
    window = max((point["k"] for curve in curves for point in curve["points"]), default=2)
    rates = [point["wrong"] / point["n"] for points in drawn for point in points]
    top, ticks = error_ticks(max([2 * document["risk"], *rates]))
    plot = Plot((0.7, window + 0.3), (0, top), ("persistence of at least k layers", "wrong"), "error by persistence")
    plot.y_ticks(ticks).x_ticks([(k, str(k)) for k in range(1, window + 1)])
    plot.level(document["risk"], "target", f"target {percent(document['risk'])}")
    named = []
    for curve, points, style in zip(curves, drawn, styles, strict=True):
        plot.line([(point["k"], point["wrong"] / point["n"]) for point in points], style)
        for point in points:
            hint, shape = f"{point['wrong']} of {point['n']}", "square" if style == "two" else "circle"
            plot.point(point["k"], point["wrong"] / point["n"], style, hint, shape)
        total = curve["points"][0]["n"] if curve["points"] else 0
        dash = {"": "solid", "two": "dashed", "three": "dotted"}[style]
        named.append(f"{dash}: c in [{curve['low']:.2g}, {curve['high']:.2g}), {total:,} tokens")
    if not rates:
        plot.text((1 + window) / 2, top / 2, f"fewer than {FEW} tokens in every group", "middle", (0, 18))
    caption = f"Wrong tokens in the tested band with K ≥ k ({'; '.join(named)}). Groups under {FEW} are not drawn."
    return "Does persistence help?", plot.svg(), caption


def signals(document: Document) -> Figure:
    low, high = document["band"]
    plot = Plot((0.2, 1.0), (0, 2), ("right-wrong pairs in the expected order", ""), "what the layers add", left=76)
    plot.x_ticks([(x / 10, percent(x / 10)) for x in range(2, 11, 2)])
    plot.upto(0.5, "target", "no information")
    names = {"K": "persistence K", "r": "drop r"}
    for row, found in enumerate(document["signals"]):
        y, style = 1.35 - 0.8 * row, "" if found["name"] == "K" else "two"
        plot.text(0.2, y, names[found["name"]], "end", (-6, 4))
        if found["concordance"] is None:
            plot.text(0.52, y, f"too few: {found['right']} right, {found['wrong']} wrong", "start", (0, 4))
            continue
        said = f"{100 * found['concordance']:.0f} % [{100 * found['ci95'][0]:.0f}, {100 * found['ci95'][1]:.0f}]"
        plot.across(y, max(0.2, found["ci95"][0]), min(1.0, found["ci95"][1]), style)
        plot.point(found["concordance"], y, style, said, "circle" if style == "" else "square")
        plot.text(found["concordance"], y, said, "middle", (0, -9))
    if not document["signals"]:
        plot.text(0.6, 1, "no token below θh", "middle")
    counts = document["signals"][0] if document["signals"] else {"right": 0, "wrong": 0}
    caption = (
        f"At equal confidence in [{low:g}, {high:g}): does the right token persist longer (K), and lose less (r, at "
        f"equal K)? {counts['right']:,} right and {counts['wrong']:,} wrong tokens; 95 % intervals over questions."
    )
    return "What the layers know beyond confidence", plot.svg(), caption


def heat(document: Document) -> Figure:
    grid, (low, high) = document["heat"], document["band"]
    rows, columns = grid["rows"], grid["columns"]
    plot = Plot((0, len(columns)), (0, len(rows)), ("drop r", "persistence K"), "error by persistence and drop")
    plot.x_ticks([(i + 0.5, f"{a:g}–{b:g}") for i, (a, b) in enumerate(columns)])
    plot.y_ticks([(i + 0.5, span(row)) for i, row in enumerate(rows)])
    rates = [cell["wrong"] / cell["n"] for cell in grid["cells"] if cell["n"]]
    top = max([*rates, 0.05])
    for number, cell in enumerate(grid["cells"]):
        i, j = divmod(number, len(columns))
        share = cell["wrong"] / cell["n"] if cell["n"] else 0.0
        text = f"{100 * share:.0f} % ({cell['n']})" if cell["n"] else "–"
        plot.cell((j, j + 1, i, i + 1), 0.75 * share / top, text, f"{cell['wrong']} wrong of {cell['n']}")
    caption = f"Wrong tokens (and how many there are) with confidence in [{low:g}, {high:g})."
    if document["route"]:
        w, s, k = value(document, "w"), value(document, "theta_s"), document["settings"]["k_max"]
        caption += f" The rule admits min(K, {k}) − {w:g}·r ≥ {s:g}" + (f": r up to {(k - s) / w:.3f}." if w else ".")
    else:
        caption += " The rule reads no layers."
    return "Persistence and drop", plot.svg(), caption


def span(row: list[int | None]) -> str:
    low, high = row
    return f"≥ {low}" if high is None else f"{low}" if low == high else f"{low}–{high}"


def upstream(document: Document) -> Figure:
    groups, target = document["upstream"], document["risk"]
    shares = [group["wrong"] / group["n"] if group["n"] else 0.0 for group in groups]
    top, ticks = error_ticks(max([*shares, 2 * target]))
    plot = Plot((-0.5, len(groups) - 0.5), (0, top), ("upstream entropy E, fifths of the states (nats)", "wrong"),
                "error by upstream entropy")  # fmt: skip
    plot.y_ticks(ticks).x_ticks([(i, f"≤ {group['high']:.2g}") for i, group in enumerate(groups)])
    plot.level(target, "target", f"target {percent(target)}")
    plot.line(list(enumerate(shares)), "")
    for i, (group, share) in enumerate(zip(groups, shares, strict=True)):
        plot.point(i, share, "", f"{group['wrong']} of {group['n']} answers wrong")
        confident = group["confident"]
        if confident["n"]:
            plot.point(
                i + 0.12, confident["error"], "two", f"{confident['wrong']} of {confident['n']} tokens", "square"
            )
    caption = (
        "Wrong answers (circles) and wrong tokens at or above θh (squares) by the entropy of the digits hidden "
        f"before them; {sum(group['n'] for group in groups):,} states. β {value(document, 'beta'):g} nats."
    )
    return "Does uncertainty upstream hurt?", plot.svg(), caption


def trial(document: Document) -> Figure:
    outcomes, chosen = document["trial"]["settings"], document["trial"]["chosen"]
    xs, lows = [o["nfe"] for o in outcomes], [o["ci95"][0] for o in outcomes]
    pad = max(0.6, 0.3 * (max(xs) - min(xs)))
    floor = max(0.0, int(20 * min(lows)) / 20 - 0.05)  # room for the names
    plot = Plot(
        (min(xs) - pad, max(xs) + pad), (floor, 1.0), ("forwards per example", "accuracy"), "the trial", left=54
    )
    step = 0.05 if 1 - floor <= 0.3 else 0.1
    plot.y_ticks(
        [(floor + step * i, percent(round(floor + step * i, 4))) for i in range(int((1 - floor) / step + 1e-9) + 1)]
    )
    ticks = sorted({round(min(xs) - pad + (max(xs) - min(xs) + 2 * pad) * i / 4, 1) for i in range(1, 4)})
    plot.x_ticks([(tick, f"{tick:g}") for tick in ticks])
    for row, outcome in enumerate(sorted(outcomes, key=lambda outcome: outcome["nfe"])):
        style = "chosen" if outcome["label"] == chosen else ""
        low, high = outcome["ci95"]
        plot.upright(outcome["nfe"], low, high, style)
        shape = "square" if style else "circle"
        plot.point(outcome["nfe"], outcome["accuracy"], style, f"{outcome['correct']} of {outcome['n']}", shape)
        plot.text(outcome["nfe"], outcome["ci95"][0], outcome["label"], f"middle {style}", (0, 12 + 12 * (row % 3)))
    caption = (
        f"Settings within the target, on {outcomes[0]['n']} validation examples (95 % Wilson intervals). "
        f"Chosen: {chosen}, the fewest forwards that are not less accurate than the best."
    )
    return "Trial on validation examples", plot.svg(), caption


def difference(document: Document) -> str:
    """Accuracy, calibrated minus uncalibrated, with its interval against zero."""
    found = document["held_out"]["accuracy"]
    a, b = found["ci95"]
    reach = max(0.02, abs(a), abs(b)) * 1.25
    plot = Plot((-reach, reach), (0, 1), ("accuracy, calibrated minus uncalibrated (points)", ""), "the difference",
                height=84, left=12)  # fmt: skip
    edge = round(100 * reach / 1.25, 1)
    plot.x_ticks([(x / 100, f"{x:+g}" if x else "0") for x in (-edge, 0, edge)])
    plot.across(0.5, a, b, "").point(found["difference"], 0.5, "", f"{100 * found['difference']:+.1f} points")
    return plot.svg()
