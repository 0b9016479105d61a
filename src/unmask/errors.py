"""One family of errors for mistakes a user can mend: a sentence that names the fix, never a traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake in what the user asked for. The command line prints it and exits with code 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """`unknown decoder 'fastdllm'; did you mean fast-dllm?` — with every known name when nothing is near."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return UserError(f"unknown {kind} {name!r}; did you mean {' or '.join(near)}?")
    return UserError(f"unknown {kind} {name!r}; known: {', '.join(names)}")
