"""The report: one page, drawn from calibration.json alone. Self-contained, light, dark and on paper."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from unmask.diagnostics.calibrate import figures
from unmask.diagnostics.calibrate.style import STYLE
from unmask.files import write_whole
from unmask.wording import number

NAMES = {"theta_h": "θ<sub>h</sub>", "theta_c": "θ<sub>c</sub>", "theta_s": "θ<sub>s</sub>", "w": "w",
         "first_layer": "ℓ<sub>0</sub>", "beta": "β"}  # fmt: skip
MEANING = {
    "theta_h": "confident enough alone", "theta_c": "confident enough to be tested", "theta_s": "stability needed",
    "w": "weight of a drop", "first_layer": "first layer read", "beta": "nats allowed upstream",
}  # fmt: skip
UNUSED_OFF = ("theta_s", "w", "first_layer")


def write_page(document: Mapping[str, Any], path: Path) -> None:
    write_whole(path, page(document))


def page(document: Mapping[str, Any]) -> str:
    request = document["request"]
    title = f"RPD settings for {request['model']} on {request['task']}"
    cards = "".join(card(*figure) for figure in figures.all_of(document))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title><style>{STYLE}</style></head>'
        f"<body><main><header><h1>{escape(title)}</h1>{lead(document)}</header>"
        f'<section class="top">{settings(document)}{held_out(document)}</section>'
        f'<section class="cards">{cards}</section>{foot(document)}</main></body></html>\n'
    )


def lead(document: Mapping[str, Any]) -> str:
    measured, rate = document["measured"], figures.rate
    verdict = document["held_out"]["verdict"]
    return (
        f'<p class="verdict{"" if verdict.startswith("Use it") else " against"}">{escape(verdict)}</p>'
        f"<p>Risk target: at most {figures.percent(document['risk'])} of the tokens the settings admit are wrong. "
        f"Measured on {measured['n']:,} admitted tokens of {measured['questions']} gold traces: "
        f"{rate(measured['error'])}, at most <b>{rate(measured['upper'])}</b> (one-sided 95 %; tokens of a trace are "
        f"alike, so these are worth {measured['effective']:.0f} independent ones). {route(document)}</p>"
    )


def route(document: Mapping[str, Any]) -> str:
    if document["route"]:
        return "The stability route is on."
    why = next(choice["why"] for choice in document["choices"] if choice["name"] == "theta_c")
    return f"<b>{escape(why[:1].upper() + why[1:])}.</b>" if "route is off" in why else "The stability route is off."


def settings(document: Mapping[str, Any]) -> str:
    rows = "".join(setting(choice, document["route"]) for choice in document["choices"])
    return (
        '<div class="panel"><h2>Settings</h2><table><thead><tr><th></th><th>value</th><th>usual</th><th>why</th></tr>'
        f"</thead><tbody>{rows}</tbody></table>"
        '<p class="use"><code>unmask generate … --decoder rpd -o @rpd.json</code></p></div>'
    )


def setting(choice: Mapping[str, Any], on: bool) -> str:
    name, why = choice["name"], choice["why"]
    unused = not on and name in UNUSED_OFF
    value = "–" if unused else number(choice["value"])
    return (
        f'<tr{" class=unused" if unused else ""}><th scope="row">{NAMES[name]}<small>{MEANING[name]}</small></th>'
        f'<td class="value">{value}</td><td class="usual">{number(choice["usual"])}</td>'
        f"<td>{escape(why[:1].upper() + why[1:])}.</td></tr>"
    )


def held_out(document: Mapping[str, Any]) -> str:
    found = document["held_out"]
    rows = "".join(outcome(name, found[name]) for name in ("uncalibrated", "calibrated"))
    paired, (low, high) = found["accuracy"], found["nfe_ci95"]
    a, b = (100 * end for end in paired["ci95"])
    return (
        f'<div class="panel"><h2>Held-out examples, n = {found["calibrated"]["n"]}</h2><table class="plain"><thead>'
        f"<tr><th></th><th>accuracy</th><th>forwards</th></tr></thead><tbody>{rows}"
        f'<tr class="sum"><th scope="row">difference</th><td>{100 * paired["difference"]:+.1f} points'
        f"<small>{a:+.1f} to {b:+.1f}</small></td>"
        f"<td>{found['nfe']:+.2f}<small>{low:+.2f} to {high:+.2f}</small></td></tr></tbody></table>"
        f"<p>On the same examples: {paired['only_a']} solved only before, {paired['only_b']} only after (exact "
        f"McNemar p = {paired['p_value']:.2g}); 95 % bootstrap intervals.</p>{figures.difference(document)}</div>"
    )


def outcome(name: str, found: Mapping[str, Any]) -> str:
    low, high = (100 * end for end in found["ci95"])
    return (
        f'<tr><th scope="row">{name}</th><td>{100 * found["accuracy"]:.1f} %<small>{low:.1f} to {high:.1f}</small>'
        f"</td><td>{found['nfe']:.1f}</td></tr>"
    )


def card(title: str, svg: str, caption: str) -> str:
    return f"<figure><h2>{title}</h2>{svg}<figcaption>{caption}</figcaption></figure>"


def foot(document: Mapping[str, Any]) -> str:
    about, request = document["about"], document["request"]
    hardware, versions = about["hardware"] or {}, about["versions"] or {}
    told = (
        f"{document['account']}; masks per level and trace: {request['patterns']}. "
        f"Device {hardware.get('device', '?')}, unmask {versions.get('unmask', '?')}, torch "
        f"{versions.get('torch', '?')}, {about['started']}. Everything shown here is in calibration.json beside this "
        "page; docs/calibration.md says how each setting is chosen."
    )
    return f"<footer>{escape(told)}</footer>"
