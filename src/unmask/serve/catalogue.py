"""Which decoders a request may name, and which values their options take.

The list is fixed when the server starts: a name in a request is looked up in it and nowhere else.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from unmask import decoders
from unmask.cli.notes import field_notes
from unmask.decoders.base import Decoder, build, unknown_option
from unmask.errors import UserError, unknown
from unmask.loop import plain
from unmask.models import Model
from unmask.serve.limits import Limits
from unmask.serve.option_docs import CHOICES, DOCS

log = logging.getLogger("unmask.serve")
SCALARS = (bool, int, float, str)
LONGEST = 64  # characters of an option's name, or of a word it takes
NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


class Misused(UserError):
    """A mistake in one field of a request."""

    def __init__(self, error: UserError, param: str) -> None:
        super().__init__(str(error))
        self.param = param


@dataclass(frozen=True)
class Entry:
    cls: type[Decoder]
    preset: Mapping[str, Any]
    types: Mapping[str, tuple[type, ...]]  # option -> the types it takes (NoneType: may be null)


class Catalogue:
    def __init__(self, model: Model, limits: Limits) -> None:
        self.spec, self.limits = model.spec, limits
        self.entries: dict[str, Entry] = {}
        for name in decoders.names():
            try:
                cls, preset, _ = decoders.find(name, model.spec)
                self.entries[name] = Entry(cls, preset, option_types(cls))
            except Exception as error:  # a third party's that cannot be imported does not keep the others away
                log.warning("decoder %s is left out: %s", name, error)

    def entry(self, name: str) -> Entry:
        if name not in self.entries:
            raise Misused(unknown("decoder", name, self.entries), "decoder")
        return self.entries[name]

    def build(self, name: str, options: Mapping[str, Any]) -> Decoder:
        """A decoder from untrusted values: types and sizes first, then the decoder's own checks."""
        entry = self.entry(name)
        checked = {}
        for key, value in options.items():
            if len(key) > LONGEST:  # nothing to look for, and nothing to repeat
                raise UserError(f"unknown option of {entry.cls.name}: a name of {len(key)} characters")
            if key not in entry.types:
                raise Misused(unknown_option(entry.cls.name, key, entry.types), key)
            try:
                checked[key] = coerce(key, value, entry.types[key])
                self.bound(key, checked[key])
            except UserError as error:
                raise Misused(error, key) from None
        try:
            return build(entry.cls, checked, entry.preset)
        except (TypeError, ValueError) as error:  # a third party's check that expects other types
            raise UserError(f"{name} does not take these options: {error}") from None

    def bound(self, key: str, value: Any) -> None:
        most = self.limits.branches if key == "branches" else self.limits.option
        if type(value) is int and abs(value) > most:
            raise UserError(f"{key} is at most {most} on this server")
        if isinstance(value, str) and not (len(value) <= LONGEST and value.isprintable()):
            raise UserError(f"{key} must be a short word")

    def describe(self, canvas_length: int) -> list[dict[str, Any]]:
        """What the page needs to draw a form per decoder."""
        return [self.describe_one(name, entry, canvas_length) for name, entry in self.entries.items()]

    def describe_one(self, name: str, entry: Entry, canvas_length: int) -> dict[str, Any]:
        decoder = build(entry.cls, {}, entry.preset)
        try:
            used = decoder.resolve(self.spec, canvas_length).params()
        except UserError:  # the defaults do not fit this canvas: the form still opens, the request explains
            used = decoder.params()
        notes = field_notes(entry.cls)  # a third party's option is explained by the comment beside it
        fields = [
            {
                "name": key,
                "type": next(t for t in types if t is not NoneType).__name__,
                "nullable": NoneType in types,
                "default": plain(getattr(decoder, key)),
                "resolved": plain(used[key]),
                "choices": list(CHOICES.get(key, ())),
                "doc": DOCS.get(key) or notes.get(key, ""),
            }
            for key, types in entry.types.items()
        ]
        return {"name": name, "kind": entry.cls.name, "summary": entry.cls.summary, "options": fields}


def option_types(cls: type[Decoder]) -> dict[str, tuple[type, ...]]:
    """Options that JSON can express. Anything richer (a third party's) can only be set in Python."""
    hints = get_type_hints(cls)
    types = {}
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if all(member in (*SCALARS, NoneType) for member in members) and members != (NoneType,):
            types[field.name] = members
    return types


def coerce(key: str, value: Any, types: tuple[type, ...]) -> Any:
    """JSON's value as the option's type. 4 is a fine number where 4.0 is meant; "inf" is how JSON says infinity."""
    if value is None and NoneType in types:
        return None
    if float in types and type(value) in (int, float) and not (isinstance(value, float) and math.isnan(value)):
        return to_float(key, value)
    if float in types and value == "inf":
        return math.inf
    if type(value) in types:
        return value
    wanted = " or ".join(NAMES.get(kind, "null") for kind in types)
    raise UserError(f"{key} must be {wanted}")


def to_float(key: str, value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise UserError(f"{key} is too large") from None
