"""What the judge hears from the candidate: plain values, and nothing else whatever was sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.sandbox import guest_wire

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.integers() | st.text(), inner)
        | st.sets(st.integers() | st.text())
        | st.frozensets(st.integers())
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_values_travel_unchanged(value):
    found = guest_wire.decode(guest_wire.encode(value))
    assert found == value and type(found) is type(value)


@given(st.binary(max_size=200) | PLAIN.map(guest_wire.encode).flatmap(lambda d: st.just(d[:-1]) | st.just(d + b"N")))
def test_malformed_messages_are_refused(data):
    """Whatever the candidate sends: a plain value or a ValueError, never a crash."""
    try:
        value = guest_wire.decode(data)
    except ValueError:
        return
    guest_wire.encode(value)


@pytest.mark.parametrize("data", [b"l" * 5000, b"l" + b"\xff" * 8, b"s" + b"\x7f" * 8, b"x", b"h" + b"i" * 9])
def test_hostile_lengths_and_depths_are_refused(data):
    with pytest.raises(ValueError, match="not a value"):
        guest_wire.decode(data)
