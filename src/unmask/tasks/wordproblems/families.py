"""The families of word problems. Each fills a `Story` with exactly `n` dependent or independent computations.

A family decides what happens and with which numbers; `facts` and `steps` decide how it is said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import lexicon
from .story import DeadEnd, Story, Value

Family = Callable[[Story, int], None]


def _boxes(s: Story) -> dict[str, str]:
    box, boxes = s.pick(lexicon.BOXES)
    return {"box": box, "boxes": boxes}


def _friends(s: Story) -> dict[str, str]:
    friend, friends = s.pick(lexicon.FRIENDS)
    return {"friend": friend, "friends": friends}


def _goods(s: Story) -> dict[str, str]:
    item, items = s.pick(lexicon.ITEMS)
    return {"item": item, "items": items}


def _below(s: Story, total: Value, money: bool = False) -> Value:
    """An amount to take from `total` that leaves something."""
    return s.given(s.size(2, min(total.number - 2, 999)), money)


def _product(s: Story, kind: str, money: bool = False) -> tuple[Value, Value]:
    """How many, and how much each. Prices and paces are the second."""
    a, b = s.factors()
    return s.given(a), s.given(b, money)


def inventory(s: Story, n: int) -> None:
    """One person's things change again and again; in the end they may be shared, packed or sold."""
    s.cast()
    s.things(**_goods(s), place=s.pick(lexicon.PLACES), kin=s.pick(lexicon.KIN), day=s.pick(lexicon.DAYS))
    s.things(thing=s.pick(lexicon.GOODS))
    have = s.given(s.size(5))
    s.tell("start", n=have)
    finish = s.pick(("share", "pack", "sell", "")) if n > 1 else ""
    for _ in range(n - bool(finish)):
        have = _event(s, have)
    s.ask("ask_have")
    if finish:
        _finish(s, have, finish)


def _event(s: Story, have: Value) -> Value:
    chance = s.rng.random()
    if chance < 0.12:
        k = s.given(s.pick((2, 2, 3)))
        words: dict[str, Any] = {"twice": lexicon.TIMES[k.number], "doubles": lexicon.GROWTH[k.number]}
        s.tell("grow", **words)
        return s.compute("grow", have, "x", k, **words)
    if chance < 0.22:
        s.tell("halve")
        return s.compute("halve", have, "/", s.given(2))
    if chance < 0.62:
        n = s.given(s.size())
        s.tell("gain", n=n)
        return s.compute("gain", have, "+", n)
    n = _below(s, have)
    s.tell("loss", n=n)
    return s.compute("loss", have, "-", n)


def _finish(s: Story, have: Value, finish: str, prefix: str = "") -> None:
    """Everything is shared, packed or sold: the last computation of a chain."""
    if finish == "sell":
        if have.number > 999:
            raise DeadEnd
        price = s.given(s.between(2, 9), money=True)
        s.tell("sell", p=price)
        s.compute("sell", have, "x", price)
    else:
        k = s.divisor(have)
        s.things(**(_friends(s) if finish == "share" else _boxes(s)))
        s.tell(prefix + finish, k=k)
        s.compute(finish, have, "/", k)
    s.ask("ask_" + finish)


def relation(s: Story, n: int) -> None:
    """One person has so many; others have more, fewer, times as many or a part of that."""
    s.cast(3)
    s.things(**_goods(s), place=s.pick(lexicon.PLACES))
    first = s.given(s.size(4))
    s.tell("start", n=first, day="Monday")
    a, b, c = (s.slots[letter] for letter in "ABC")
    if n <= 2 and (n == 1 or s.chance(0.4)):
        second = _related(s, first, a, b)
        if n == 2:
            _related(s, second, b, c)
        s.ask("ask_of", A=c if n == 2 else b)
        return
    s.section = 1
    second = _related(s, first, a, b)
    if n == 2 or (n == 3 and s.chance(0.5)):
        total = s.compute("total", first, "+", second)
        s.ask("ask_both")
    else:
        from_second = s.chance(0.5)
        third = _related(s, second if from_second else first, b if from_second else a, c, track=not from_second)
        if n == 3:
            _compare(s, (second, b), (third, c))
            return
        total = s.compute("total_two", first, "+", second)
        total = s.compute("add_third", total, "+", third)
        s.ask("ask_all")
    s.section = 2
    while len(s.steps) < n:
        if len(s.steps) == n - 1:
            s.tell("pool")
            _finish(s, total, s.pick(("share", "pack")), "they_")
        else:
            total = _they_event(s, total)


def _related(s: Story, base: Value, a: str, b: str, track: int = 0) -> Value:
    """What `b` has, told in terms of what `a` has."""
    kind = s.pick(("more", "more", "fewer", "fewer", "times", "part"))
    if kind in ("more", "fewer"):
        n = s.given(s.size()) if kind == "more" else _below(s, base)
        s.tell(kind, track, A=a, B=b, n=n)
        return s.compute("derive", base, "+" if kind == "more" else "-", n, B=b)
    if kind == "times":
        k = s.given(s.between(2, 5))
        s.tell(kind, track, A=a, B=b, k=k, times=lexicon.TIMES[k.number])
        return s.compute("derive", base, "x", k, B=b)
    k = s.divisor(base, 2, 5)
    s.tell(kind, track, A=a, B=b, k=k, half=lexicon.FRACTIONS[k.number], times=lexicon.TIMES[k.number])
    return s.compute("derive", base, "/", k, B=b)


def _compare(s: Story, one: tuple[Value, str], other: tuple[Value, str]) -> None:
    """The total or the difference of what two people have."""
    if s.chance(0.5):
        s.compute("total", one[0], "+", other[0], A=one[1], B=other[1])
        s.ask("ask_both", A=one[1], B=other[1])
        return
    more, less = (one, other) if one[0].number > other[0].number else (other, one)
    s.compute("difference", more[0], "-", less[0], A=more[1], B=less[1])
    s.ask("ask_more", A=more[1], B=less[1])


def _they_event(s: Story, total: Value) -> Value:
    if s.chance(0.4):
        n = s.given(s.size())
        s.tell("they_gain", n=n)
        return s.compute("they_gain", total, "+", n)
    n = _below(s, total)
    s.tell("they_loss", n=n)
    return s.compute("they_loss", total, "-", n)


def pool(s: Story, n: int) -> None:
    """Two people put their things together and go on as one."""
    s.cast(2)
    s.things(**_goods(s), place=s.pick(lexicon.PLACES))
    a, b = s.slots["A"], s.slots["B"]
    one, other = s.given(s.size()), s.given(s.size())
    s.tell("start", 0, n=one, day="Monday")
    s.tell("start", 1, A=b, n=other, day="Monday")
    s.section = 1
    total = s.compute("total", one, "+", other, A=a, B=b)
    if n == 1:
        s.ask("ask_both")
        return
    s.tell("pool")
    s.ask("ask_they")
    finish = s.pick(("share", "pack", ""))
    while len(s.steps) < n - bool(finish):
        total = _they_event(s, total)
    if finish:
        _finish(s, total, finish, "they_")


def pair(s: Story, n: int) -> None:
    """Two people's things change separately, then are added or compared."""
    s.cast(2)
    s.things(**_goods(s), place=s.pick(lexicon.PLACES), thing=s.pick(lexicon.GOODS))
    shared = n >= 4 and s.chance(0.4)
    events = n - 1 - shared
    split = events // 2 if s.chance(0.5) else events - events // 2
    ends = []
    for track, count in enumerate((split, events - split)):
        name = s.slots["AB"[track]]
        have = s.given(s.size(5))
        s.tell("start", track, A=name, n=have, day="Monday")
        for _ in range(count):
            gain = s.chance(0.5)
            m = s.given(s.size()) if gain else _below(s, have)
            kind = "gain_of" if gain else "loss_of"
            s.tell(kind, track, A=name, n=m)
            have = s.compute(kind, have, "+" if gain else "-", m, A=name)
        ends.append((have, name))
    if not shared:
        _compare(s, *ends)
        return
    total = s.compute("total", ends[0][0], "+", ends[1][0], A=ends[0][1], B=ends[1][1])
    s.section = 1
    s.tell("pool")
    _finish(s, total, s.pick(("share", "pack")), "they_")
