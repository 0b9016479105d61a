"""What a decoder's source says about each of its parameters: the comment beside the field."""

from __future__ import annotations

import inspect
import re

FIELD = re.compile(r"^    (?P<name>\w+)\s*:[^=#]+=[^#]*(?:#\s*(?P<note>.+))?$")


def field_notes(cls: type) -> dict[str, str]:
    """Field name -> comment; subclasses override. Nothing where the source is not at hand."""
    notes: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base is object:
            continue
        try:
            lines = inspect.getsource(base).splitlines()
        except (OSError, TypeError):
            continue
        for line in lines:
            match = FIELD.match(line)
            if match and match["note"]:
                notes[match["name"]] = match["note"].strip()
    return notes
