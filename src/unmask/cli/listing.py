"""`unmask models`, `unmask decoders`, `unmask tasks`: what can be named on the command line."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from unmask.cli.options import Json, describe_hint, field_types, print_json
from unmask.errors import UserError
from unmask.wording import columns

if TYPE_CHECKING:
    from unmask.decoders import Decoder
    from unmask.models.spec import ModelSpec


def models(json: Json = False) -> None:
    """List the models known by name. Any other checkpoint folder or hub name works too."""
    from unmask.cli.cache import cached
    from unmask.models import KNOWN, TINY

    shipped = "shipped" if (TINY / "config.json").exists() else "missing"
    rows = [("tiny", "llada", shipped, "the embedded model; every command's default")]
    rows += [(known.repo, known.family, cached(known.repo, known.revision), known.note) for known in KNOWN]
    names = ("name", "family", "here", "note")
    if json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(names, rows)


def decoders(
    name: Annotated[str | None, Argument(help="one decoder: all of its parameters")] = None,
    json: Json = False,
) -> None:
    """List the decoders, or the parameters of one of them."""
    from unmask.decoders import names

    if name is None:
        listed = [describe(each) for each in names()]
        if json:
            print_json(listed)
        else:
            print_table(("name", "summary"), [(d["name"], summary(d)) for d in listed])
            print("\nunmask decoders NAME shows the parameters of one.")
        return
    described = describe(name, parameters=True)
    if json:
        print_json(described)
        return
    print(f"{name}: {summary(described)}")
    if not described["parameters"]:
        print("It has no parameters.")
        return
    wanted = ["name", "type", "default", "note"]
    header = ["parameter", "takes", "default", ""]
    if any(parameter["tiny"] for parameter in described["parameters"]):
        wanted.insert(3, "tiny")
        header.insert(3, "for tiny")
    print()
    print_table(header, [[show(parameter[key]) for key in wanted] for parameter in described["parameters"]])


def describe(name: str, parameters: bool = False) -> dict[str, Any]:
    """One decoder as data. A third party's that cannot be imported says so instead of hiding the others."""
    from unmask.decoders import find

    if name == "default":
        if parameters:
            raise UserError("decoder 'default' is the model's own: look at llada-default or dream-default")
        return {"name": name, "summary": "the model's own: llada-default or dream-default", "preset": {}}
    try:
        cls, options, _ = find(name)
    except UserError as error:
        if parameters:
            raise
        return {"name": name, "summary": str(error), "preset": {}}
    told: dict[str, Any] = {"name": name, "summary": cls.summary or "", "preset": dict(options)}
    if parameters:
        told["parameters"] = parameter_table(cls, options)
    return told


def parameter_table(cls: type[Decoder], options: Any) -> list[dict[str, Any]]:
    from unmask.cli.notes import field_notes

    hints, notes, decoder = field_types(cls), field_notes(cls), cls(**options)
    resolved = at_tiny(decoder)
    rows = []
    for field in fields(cls):
        default = getattr(decoder, field.name)
        filled = getattr(resolved, field.name, default)
        rows.append(
            {
                "name": field.name,
                "type": describe_hint(hints[field.name]).removeprefix("a "),
                "default": default,
                "tiny": "" if filled == default else show(filled),
                "note": notes.get(field.name, ""),
            }
        )
    return rows


def at_tiny(decoder: Decoder) -> Decoder:
    """The decoder with what it takes from the embedded model filled in; as it is where that is missing."""
    from unmask.models import TINY
    from unmask.models.spec import read_spec

    try:
        spec: ModelSpec = read_spec(TINY)
        return decoder.resolve(spec, spec.canvas_length)
    except UserError:
        return decoder


def summary(described: dict[str, Any]) -> str:
    preset = ", ".join(f"{name}={show(value)}" for name, value in described["preset"].items())
    return described["summary"] + (f" [{preset}]" if preset else "")


def show(value: Any) -> str:
    """As it would be written after -o."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def tasks(
    name: Annotated[str | None, Option("--show", metavar="NAME", help="one task: an example and its scoring")] = None,
    json: Json = False,
) -> None:
    """List the tasks, or show how one of them asks and scores."""
    from unmask.tasks import get, names

    if name is None:
        found = [get(each) for each in names()]
        header = ("name", "version", "metric", "summary")
        rows = [(task.name, task.version, task.metric, task.summary) for task in found]
        if json:
            print_json([dict(zip(header, row, strict=True)) for row in rows])
        else:
            print_table(header, rows)
            print("\nunmask tasks --show NAME shows an example and how it is scored.")
        return
    shown = show_task(get(name))
    if json:
        print_json(shown)
        return
    print(f"{shown['name']} (version {shown['version']}), {shown['metric']}: {shown['summary']}")
    print(f"\n{'Prompt of the first test example' if shown['response'] else 'Prompt'}\n{indent(shown['prompt'])}")
    if shown["response"]:
        print(f"\nA right response\n{indent(shown['response'])}")
    print(f"\nScoring\n{indent(shown['scoring'])}")


def show_task(task: Any) -> dict[str, Any]:
    import inspect

    from unmask.tasks import Example

    # A benchmark's prompt is a text of its own and needs no data; a generated task is shown by an example.
    template = getattr(task, "template", None)
    example = Example("", template, "") if template else next(iter(task.examples(limit=1)), None)
    if example is None:
        raise UserError(f"task {task.name} has no test examples")
    scoring = inspect.getdoc(task.score) if "score" in vars(type(task)) else None
    return {
        "name": task.name, "version": task.version, "metric": task.metric, "summary": task.summary,
        "prompt": example.prompt, "answer": example.answer, "response": example.response,
        "scoring": scoring or inspect.getdoc(type(task)) or "not described",
    }  # fmt: skip


def indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def print_table(header: Sequence[str], rows: Any) -> None:
    """Wrapped to a terminal; one line per row where a program reads it."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(columns(header, rows, width))
