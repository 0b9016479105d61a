"""Where one file is written: never half of it, and never something else in the place of what stands there."""

from __future__ import annotations

import os
from pathlib import Path

from unmask.errors import UserError


def write_whole(path: str | Path, text: str) -> None:
    """Written beside the target and moved into place, or straight to what is no ordinary file."""
    path = destination(Path(path))
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    partial = path.with_name(path.name[:60] + ".partial")  # a long name has no room for more
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def destination(path: Path) -> Path:
    """The file behind a link, so that the link stays one. A pipe, a terminal or /dev/null is never replaced (and
    /dev/stdout only as itself: what it resolves to may have no name)."""
    return path if path.exists() and not path.is_file() else path.resolve()


def check_writable(path: Path) -> None:
    """Refuse an output file that cannot be written, before any work is done for it."""
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder: name a file in it")
        if not path.parent.is_dir():
            raise UserError(f"the folder {shortened(path.parent)} does not exist: create it first")
        target = destination(path)
        if not target.parent.is_dir() and not target.exists():
            raise UserError(f"the folder {target.parent}, which {path} leads to, does not exist: create it first")
        exists = is_there(target)
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, links in a circle, a NUL
        raise UserError(f"{shortened(path)} cannot be written: {why(error)}") from None
    replaced = target.is_file() or not exists
    if (replaced and not os.access(target.parent, os.W_OK)) or (exists and not os.access(target, os.W_OK)):
        raise UserError(f"{path} cannot be written: permission denied")


def is_there(path: Path) -> bool:
    """As Path.exists, which takes a name no file can have for one that is not there (on new Pythons)."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def shortened(path: str | Path) -> str:
    text = str(path)
    return text if len(text) <= 120 else f"{text[:60]}...{text[-40:]}"


def why(error: Exception) -> str:
    """An operating system's reason without the path, which may be endless."""
    return (getattr(error, "strerror", None) or str(error).split(":")[0]).lower().rstrip(".")
