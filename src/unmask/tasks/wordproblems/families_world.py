"""More families: shops, work, places, journeys. See `families`."""

from __future__ import annotations

from typing import Any

from . import lexicon
from .families import Family, _below, _boxes, _friends, _goods, inventory, pair, pool, relation
from .story import DeadEnd, Story, Value


def shopping(s: Story, n: int) -> None:
    """Prices and amounts, a fee, a coupon, the change; or the bill is split."""
    s.cast()
    s.things(**_goods(s), thing=s.pick(lexicon.GOODS))
    s.ask("ask_cost")
    if n == 1 and s.chance(0.4):
        price = s.given(s.size(5), money=True)
        s.tell("one_price", n=price)
        _pay(s, price)
        return
    two = n >= 3 and (n == 5 or s.chance(0.6))
    total = _purchase(s, "buy", 0)
    if two:
        other = _purchase(s, "buy_more", 0)
        total = s.compute("bill", total, "+", other)
    rest = n - len(s.steps)
    if rest > 1 or (rest == 1 and s.chance(0.4)):
        total = _adjust(s, total, s.chance(0.5))
    if n - len(s.steps) > 1:
        total = _adjust(s, total, s.facts[-1][2] == "coupon")
    if n - len(s.steps) == 1:
        if s.chance(0.65):
            _pay(s, total)
        else:
            _split(s, total)
    if len(s.steps) != n:
        raise DeadEnd


def _purchase(s: Story, kind: str, track: int) -> Value:
    a, b = s.factors()
    if b > 99:
        a, b = b, a
    count, price = s.given(a), s.given(b, money=True)
    words = _goods(s)
    if kind == "buy":
        s.things(**words)
    elif words["items"] == s.slots["items"]:
        raise DeadEnd
    s.tell(kind, track, n=count, p=price, **words)
    return s.compute("cost", count, "x", price, **words)


def _adjust(s: Story, total: Value, fee: bool) -> Value:
    kind = "fee" if fee else "coupon"
    n = s.given(s.between(2, 30), money=True)
    s.tell(kind, n=n)
    return s.compute(kind, total, "+" if fee else "-", n)


def _pay(s: Story, total: Value) -> None:
    if total.number > 990:
        raise DeadEnd
    rounded = 10 * (total.number // 10 + s.between(1, 9))
    purse = s.given(rounded if rounded < 1000 and s.chance(0.5) else s.between(total.number + 2, 999), money=True)
    s.tell("wallet", n=purse)
    s.compute("change", purse, "-", total)
    s.ask("ask_left")


def _split(s: Story, total: Value) -> None:
    k = s.divisor(total, 3)
    s.things(**_friends(s))
    s.tell("split", k=k)
    s.compute("split", total, "/", k)
    s.ask("ask_split")


def stock(s: Story, n: int) -> None:
    """Boxes of things in a shop, perhaps of two kinds; some come, some go; the rest is put on shelves."""
    store, (shelf, shelves) = s.pick(lexicon.STORES), s.pick(lexicon.SHELVES)
    s.things(**_goods(s), store=store, shelf=shelf, shelves=shelves, day=s.pick(lexicon.DAYS))
    s.ask("ask_stock")
    two = n >= 3 and s.chance(0.6)
    words = _boxes(s)
    total = _crates(s, "crates", words)
    if two:
        other_words = _boxes(s)
        if other_words == words:
            raise DeadEnd
        other = _crates(s, "more_crates", other_words)
        total = s.compute("sum_up", total, "+", other, parts=s.slots["items"])
    finish = n - len(s.steps) > 0 and s.chance(0.4)
    while len(s.steps) < n - finish:
        total = _change(s, total, "loose", "sold", "items")
    if finish:
        k = s.divisor(total)
        s.tell("shelve", k=k)
        s.compute("shelve", total, "/", k)
        s.ask("ask_shelf")


def _crates(s: Story, kind: str, words: dict[str, Any]) -> Value:
    a, b = s.factors()
    count, each = s.given(a), s.given(b)
    s.tell(kind, n=count, m=each, **words)
    return s.compute("crates", count, "x", each, **words)


def _change(s: Story, total: Value, more: str, less: str, parts: str) -> Value:
    """Some come or some go; not twice in a row the same way."""
    last = s.facts[-1][2]
    up = last == less if last in (more, less) else s.chance(0.4)
    n = s.given(s.size()) if up else _below(s, total)
    s.tell(more if up else less, n=n)
    return s.compute("more_in" if up else "less", total, "+" if up else "-", n, parts=s.slots[parts])


def wages(s: Story, n: int) -> None:
    """Work paid by the day, perhaps two jobs; then something is spent and something added."""
    s.cast()
    s.things(place=s.pick(lexicon.PLACES), kin=s.pick(lexicon.KIN), thing=s.pick(lexicon.GOODS), topic="money")
    s.ask("ask_earned")
    two = n >= 3 and s.chance(0.6)
    total = _wage(s, "wage")
    if two:
        total = s.compute("earned", total, "+", _wage(s, "second_wage"))
    while len(s.steps) < n:
        last = s.facts[-1][2]
        up = last == "spend" if last in ("bonus", "spend") else s.chance(0.4)
        m = s.given(s.size(), True) if up else _below(s, total, True)
        s.tell("bonus" if up else "spend", n=m)
        total = s.compute("bonus" if up else "change", total, "+" if up else "-", m)


def _wage(s: Story, kind: str) -> Value:
    unit = s.pick(lexicon.JOBS)
    a, b = s.factors()
    if b > 99 or a > 60:
        a, b = b, a
    days, rate = s.given(a), s.given(b, money=True)
    s.tell(kind, r=rate, d=days, per=f"{'an' if unit == 'hour' else 'a'} {unit}", days=unit + "s")
    return s.compute(kind, days, "x", rate, d=days, days=unit + "s")


def goal(s: Story, n: int) -> None:
    """Saving for something: how much is missing, and for how many weeks."""
    s.cast()
    s.things(thing=s.pick(lexicon.GOODS), kin=s.pick(lexicon.KIN), topic="money")
    if n == 1:
        have = s.given(s.size(5), money=True)
        s.section = 1
        s.tell("saved", n=have)
    else:
        s.section = 1
        a, b = sorted(s.factors())
        weeks, rate = (s.given(a), s.given(b, True)) if s.chance(0.6) else (s.given(b), s.given(a, True))
        s.tell("saving", 0, r=rate, d=weeks)
        have = s.compute("saving", weeks, "x", rate, d=weeks)
    if n >= 3:
        start = s.given(s.size(), money=True)
        s.tell("saved", 1, n=start)
        have = s.compute("bonus", have, "+", start)
    s.section = 2
    if n >= 4 and (n == 5 or s.chance(0.5)):
        more = s.given(s.size(2, 60), money=True)
        s.tell("bonus", n=more)
        have = s.compute("bonus", have, "+", more)
    weekly = s.given(s.between(2, 12), money=True)
    then = n - len(s.steps) == 2
    missing = weekly.number * s.between(2, 60) if then else s.size(5)
    price = s.given(have.number + missing, money=True)
    s.section = 0
    s.tell("wish", n=price)
    rest = s.compute("missing", price, "-", have)
    s.ask("ask_missing")
    if then:
        s.section = 3
        s.tell("then_save", k=weekly)
        s.compute("weeks", rest, "/", weekly)
        s.ask("ask_weeks")


def project(s: Story, n: int) -> None:
    """A long task done bit by bit: how much is done, is left, or is left for each day."""
    s.cast()
    whole, parts, does, do = s.pick(lexicon.PROJECTS)
    s.things(whole=whole, parts=parts, does=does, do=do, day=s.pick(lexicon.DAYS), topic=parts)
    s.section = 1
    done = _pace(s, "pace") if n > 1 else None
    if done is None:
        done = s.given(s.size(5))
        s.tell("once", n=done)
    if n >= 3 and (n == 5 or s.chance(0.6)):
        if n >= 4 and s.chance(0.7):
            done = s.compute("sum_up", done, "+", _pace(s, "new_pace"))
        else:
            m = s.given(s.size())
            s.tell("burst", n=m)
            done = s.compute("more_in", done, "+", m)
    s.ask("ask_done")
    left = n - len(s.steps)
    if left == 0:
        return
    if left == 2 and s.chance(0.3):
        m = s.given(s.size())
        s.tell("burst", n=m)
        done = s.compute("more_in", done, "+", m)
        left = 1
    if left > 2:
        raise DeadEnd
    days = s.given(s.between(2, 12))
    missing = days.number * s.between(2, 60) if left == 2 else s.size(5)
    s.section = 0
    whole_value = s.given(done.number + missing)
    s.tell("whole", n=whole_value)
    rest = s.compute("rest", whole_value, "-", done)
    s.ask("ask_rest")
    if left == 2:
        s.section = 2
        s.tell("rest", k=days)
        s.compute("daily", rest, "/", days)
        s.ask("ask_daily")


def _pace(s: Story, kind: str) -> Value:
    days, rate = (s.given(k) for k in sorted(s.factors()))
    if days.number > 30:
        raise DeadEnd
    s.tell(kind, r=rate, d=days)
    return s.compute("pace", days, "x", rate, r=rate, d=days)


def hall(s: Story, n: int) -> None:
    """Rows of things in one or two parts of a place; some are added, some go."""
    place, seats = s.pick(lexicon.HALLS)
    s.things(hall=place, seats=seats, day=s.pick(lexicon.DAYS), topic=seats)
    two = n >= 3 and (n == 5 or s.chance(0.7))
    total = _rows(s, "rows")
    if two:
        total = s.compute("sum_up", total, "+", _rows(s, "more_rows"), parts=seats)
    while len(s.steps) < n:
        total = _change(s, total, "seats_in", "seats_out", "seats")
    s.ask("ask_seats")


def _rows(s: Story, kind: str) -> Value:
    count, each = (s.given(k) for k in s.factors())
    s.tell(kind, n=count, m=each)
    return s.compute(kind, count, "x", each, parts=s.slots["seats"])


def factory(s: Story, n: int) -> None:
    """From an hourly output to boxes and to money: a chain in which every step needs the last."""
    s.things(**_goods(s), **_boxes(s), maker=s.pick(lexicon.MAKERS), place=s.pick(lexicon.PLACES))
    hours, rate = (s.given(k) for k in sorted(s.factors()))
    if hours.number > 24:
        raise DeadEnd
    s.tell("makes", r=rate, d=hours)
    have = s.compute("makes", hours, "x", rate, r=rate, d=hours)
    s.ask("ask_made")
    if n >= 2:
        bad = s.given(s.between(2, min(60, have.number - 2)))
        s.tell("faulty", n=bad)
        have = s.compute("less", have, "-", bad, parts=s.slots["items"])
        s.ask("ask_good")
    if n >= 3:
        k = s.divisor(have, 3)
        s.tell("boxed", k=k)
        have = s.compute("pack", have, "/", k)
        s.ask("ask_pack")
    if n >= 4:
        price = s.given(s.between(2, 15), money=True)
        s.tell("box_price", p=price)
        have = s.compute("income", have, "x", price)
        s.ask("ask_income")
    if n >= 5:
        fee = _below(s, have, money=True)
        s.tell("running", n=fee)
        s.compute("profit", have, "-", fee)
        s.ask("ask_profit")


def trip(s: Story, n: int) -> None:
    """Speed times hours, perhaps twice, then some miles more; how far, or how far is left."""
    s.cast()
    s.things(rides=s.pick(lexicon.RIDES), place=s.pick(lexicon.PLACES), day=s.pick(lexicon.DAYS), topic="miles")
    s.section = 1
    made = _leg(s, "leg")
    if n >= 3 and (n >= 4 or s.chance(0.6)):
        made = s.compute("sum_up", made, "+", _leg(s, "next_leg"), parts="miles")
    left = n - len(s.steps)
    if left > 1 or (left == 1 and s.chance(0.5)):
        m = s.given(s.size(2, 99))
        s.tell("stretch", n=m)
        made = s.compute("more_in", made, "+", m, parts="miles")
        left -= 1
    s.ask("ask_way")
    if left:
        way = s.given(made.number + s.size(5))
        s.section = 2
        s.tell("way", n=way)
        s.compute("rest", way, "-", made, parts="miles", do="go")
        s.ask("ask_far")


def _leg(s: Story, kind: str) -> Value:
    hours, speed = (s.given(k) for k in sorted(s.factors()))
    if hours.number > 15 or speed.number > 99:
        raise DeadEnd
    s.tell(kind, r=speed, d=hours)
    return s.compute("leg", hours, "x", speed, r=speed, d=hours)


# Which numbers of steps each family can fill.
FAMILIES: dict[Family, range] = {
    inventory: range(1, 6),
    relation: range(1, 6),
    pool: range(1, 6),
    pair: range(3, 6),
    shopping: range(1, 6),
    stock: range(1, 6),
    wages: range(1, 6),
    goal: range(1, 6),
    project: range(1, 6),
    hall: range(1, 6),
    factory: range(1, 6),
    trip: range(1, 6),
}
BY_STEPS = {n: [family for family, counts in FAMILIES.items() if n in counts] for n in range(1, 6)}
