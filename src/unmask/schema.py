"""The fields of a trace file and what each may hold (docs/trace.md explains them).

A damaged file is refused when it is read, with a sentence that names the field, so that no reader has to
expect anything else. The header and the end may have more fields; any other field of a step is a column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

CANVAS_LIMIT = 1 << 17  # longer than any context of these models is damage, not a canvas

Check = Callable[[Any], bool]


def whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def amount(value: Any) -> bool:
    return figure(value) and isinstance(value, int | float) and value >= 0


def figure(value: Any) -> bool:
    """A number, null where it was not computed, or an infinity by name."""
    if isinstance(value, float):
        return True
    return value is None or value in ("inf", "-inf") or (isinstance(value, int) and abs(value) < 1 << 63)


def real(value: Any) -> bool:
    return figure(value) and value is not None and value == value


def text(value: Any) -> bool:
    return isinstance(value, str)


def flag(value: Any) -> bool:
    return isinstance(value, bool)


def known(value: Any) -> bool:
    return True


def list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def table_of(check: Check, keys: Check = text) -> Check:
    return lambda value: isinstance(value, dict) and all(keys(k) and check(v) for k, v in value.items())


def id_text(value: str) -> bool:
    return value.isascii() and value.isdigit()


def prompt(value: Any) -> bool:
    return text(value) or list_of(table_of(text))(value)


HEADER: dict[str, Check] = {
    "model": text, "family": text, "decoder": text, "params": table_of(known), "prompt": prompt,
    "prompt_ids": list_of(whole), "canvas_length": lambda value: whole(value) and 1 <= value <= CANVAS_LIMIT,
    "fixed": table_of(whole, id_text), "mask_id": whole, "stop_ids": list_of(whole),
    "seed": lambda value: isinstance(value, int) and abs(value) < 1 << 63, "raw": flag, "label": text, "dtype": text,
    "score_dtype": text, "drop_tail": flag, "revision": text, "pieces": table_of(text, id_text),
}  # fmt: skip
STEP: dict[str, Check] = {
    "nfe": whole, "positions": list_of(whole), "tokens": list_of(whole), "c": list_of(real), "H": list_of(real),
    "routes": table_of(list_of(whole)), "waits": table_of(list_of(whole)), "threshold": figure, "projected": whole,
    "branches": whole, "seconds": table_of(amount),
}  # fmt: skip
END: dict[str, Check] = {
    "text": text, "tokens": whole, "non_eos": whole, "canvas": whole, "finish_reason": text, "nfe": whole,
    "branches": whole, "seconds": amount,
}  # fmt: skip

HEADER_REQUIRED = ("decoder", "prompt_ids", "canvas_length", "mask_id")
END_REQUIRED = ("text", "tokens", "finish_reason", "nfe", "seconds")


def check_header(data: Any) -> None:
    check(data, HEADER, HEADER_REQUIRED)
    outside = [position for position in data.get("fixed", {}) if int(position) >= data["canvas_length"]]
    require(not outside, f"fixed position {outside[:1]} is outside the canvas")
    require(data["mask_id"] not in data.get("fixed", {}).values(), "fixed holds the mask, which is no given token")


def check_step(data: Any, header: Mapping[str, Any], filled: set[int]) -> None:
    """`filled` holds the positions committed so far, and gains this step's."""
    check(data, STEP, tuple(STEP))
    positions, column = data["positions"], list_of(figure)
    for name in ("tokens", "c", "H", *(data.keys() - STEP.keys())):  # whatever else there is is a column
        require(column(data[name]) and len(data[name]) == len(positions), f"{name} must have one number per position")
    require(all(position < header["canvas_length"] for position in positions), "a position is outside the canvas")
    indices = sorted(i for group in ("routes", "waits") for part in data[group].values() for i in part)
    require(indices == list(range(len(positions))), "routes and waits must name every index once")
    require(len(set(positions)) == len(positions) and not filled & set(positions), "a position occurs twice")
    filled |= {positions[i] for part in data["routes"].values() for i in part}


def check_end(data: Any) -> None:
    check(data, END, END_REQUIRED)


def check(data: Any, fields: Mapping[str, Check], required: tuple[str, ...]) -> None:
    require(isinstance(data, dict), "must be an object")
    missing = [name for name in required if name not in data]
    require(not missing, f"{', '.join(missing)} is missing")
    for name, value in data.items():
        require(name not in fields or fields[name](value), f"{name} cannot be {str(value)[:40]!r}")


def require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
