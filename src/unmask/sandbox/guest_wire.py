"""Python values over a pipe, as data and nothing else. Runs inside the sandbox, and imports nearly nothing.

The writing side may be hostile: whatever it sends, the reading side only ever builds plain built-in values, so
no overridden equality, no hidden code and no pickle arrives. What has no plain form travels as a handle. (Not
JSON: it knows neither tuples nor sets, and importing it takes longer than starting the interpreter.)
"""

import os
import struct

LONGEST = 64 << 20  # bytes of one message

# Types that travel as text. Their modules are imported only where a solution has done so.
BY_TEXT = {
    ("fractions", "Fraction"): "__call__",
    ("decimal", "Decimal"): "__call__",
    ("datetime", "date"): "fromisoformat",
    ("datetime", "datetime"): "fromisoformat",
    ("datetime", "time"): "fromisoformat",
}
CONTAINERS = {b"l": list, b"t": tuple, b"e": set, b"z": frozenset}


class Closed(Exception):
    """The other side is gone."""


def send(descriptor, data):
    data = struct.pack(">Q", len(data)) + data
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        raise Closed from None


def receive(descriptor):
    (length,) = struct.unpack(">Q", read(descriptor, 8))
    if length > LONGEST:
        raise Closed
    return read(descriptor, length)


def read(descriptor, count):
    parts = []
    while count:
        part = os.read(descriptor, min(count, 1 << 20))
        if not part:
            raise Closed
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def refuse(value):
    raise TypeError(f"{type(value).__name__} is no plain data")


def encode(value, keep=refuse):
    """A tag and a payload. Subclasses go as the base that they extend; `keep(value)` names what has no plain form."""
    kind = type(value)
    if value is None:
        return b"N"
    if kind is bool:
        return b"T" if value else b"F"
    if isinstance(value, int):
        return b"i" + counted(b"%x" % int(value))
    if isinstance(value, float):
        return b"f" + struct.pack(">d", value)
    if isinstance(value, complex):
        return b"c" + struct.pack(">dd", value.real, value.imag)
    if isinstance(value, str):
        return b"s" + counted(str.encode(value, "utf-8", "surrogatepass"))
    if isinstance(value, bytes | bytearray):
        return (b"b" if isinstance(value, bytes) else b"B") + counted(bytes(value))
    for tag, base in CONTAINERS.items():
        if isinstance(value, base):
            return sequence(tag, base(value), keep)
    if isinstance(value, dict):
        return sequence(b"d", [part for pair in dict.items(value) for part in pair], keep)
    if kind is range:
        return sequence(b"r", (value.start, value.stop, value.step), keep)
    place = (kind.__module__, kind.__name__)
    if place == ("collections", "deque"):
        return sequence(b"q", value, keep)
    if place in BY_TEXT:
        return sequence(b"x", (*place, str(value)), keep)
    return b"h" + encode(keep(value))


def counted(data):
    return struct.pack(">Q", len(data)) + data


def sequence(tag, items, keep):
    return tag + struct.pack(">Q", len(items)) + b"".join([encode(item, keep) for item in items])


def decode(data, handle=refuse):
    """The inverse; `handle(name)` stands in for what has no plain form. Anything malformed is a ValueError."""
    try:
        value, end = build(data, 0, handle)
    except (struct.error, LookupError, RecursionError, TypeError, ArithmeticError) as error:
        raise ValueError(f"not a value: {error!r}") from None
    if end != len(data):
        raise ValueError("not a value: bytes are left over")
    return value


def build(data, at, handle):
    """The value at an offset, and where it ends."""
    tag, at = data[at : at + 1], at + 1
    if tag in (b"N", b"T", b"F"):
        return {b"N": None, b"T": True, b"F": False}[tag], at
    if tag == b"f":
        return struct.unpack_from(">d", data, at)[0], at + 8
    if tag == b"c":
        return complex(*struct.unpack_from(">dd", data, at)), at + 16
    if tag == b"h":
        name, at = build(data, at, refuse)
        return handle(name), at
    (count,) = struct.unpack_from(">Q", data, at)
    at += 8
    if tag in (b"i", b"s", b"b", b"B"):
        raw = data[at : at + count]
        if len(raw) != count:
            raise ValueError("not a value: cut off")
        return scalar(tag, raw), at + count
    if count > len(data):  # every item takes a byte at least
        raise ValueError("not a value: impossible length")
    items = []
    for _ in range(count):
        item, at = build(data, at, handle)
        items.append(item)
    return compound(tag, items), at


def scalar(tag, raw):
    if tag == b"i":
        return int(raw, 16)
    if tag == b"s":
        return raw.decode("utf-8", "surrogatepass")
    return bytes(raw) if tag == b"b" else bytearray(raw)


def compound(tag, items):
    if tag == b"d":
        return dict(zip(items[::2], items[1::2], strict=True))
    if tag == b"r":
        return range(*items)
    if tag == b"q":
        return __import__("collections").deque(items)
    if tag == b"x":
        module, name, text = items
        how = BY_TEXT[module, name]  # only these: nothing else is ever imported or called
        cls = getattr(__import__(module), name)
        return cls(text) if how == "__call__" else getattr(cls, how)(text)
    return CONTAINERS[tag](items)
