"""The words programs are written with: names of functions and variables, labels they return, sample texts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from .program import Program, pick

# A function's name is two or three of these; it hints at the purpose at most.
VERBS = "get find make pick keep check take build show read solve apply change split run do".split()
# What a descriptive name begins with, by the first word of the signature.
HINTS = {
    name: name
    for name in "count sum list max min first last change any all digits words range running divisors".split()
}
HINTS |= {"drop": "keep", "index": "find", "clamp": "limit"}
NOUNS = (
    "numbers values items data parts result total list text words letters digits big small even odd first last "
    "top low high new blue red green river stone cloud task step part case one two three".split()
)
LABELS = "low high small big even odd yes no good bad hot cold fizz buzz short long left right red blue".split()
TEXT_WORDS = (
    "red sun sea map ink oak bee tea cat dog egg ant fox key hat blue rain wind snow leaf tree moon star lake "
    "apple grape lemon stone cloud river green tiger".split()
)

PARAMETERS = {
    "list": "xs nums data items arr a".split(),
    "text": "s t line name".split(),
    "int": "n num k m size".split(),
}
SECOND = {"list": "ys others b".split(), "int": "m k other b".split()}
RESULTS = {
    "number": "total result count answer res out".split(),
    "list": "result out found res kept answer".split(),
    "text": "result out res answer new".split(),
}
ITEMS = {"number": "x n v num item".split(), "char": "c ch x letter".split(), "word": "w x part item".split()}


def function_name(rng: Random, signature: str) -> str:
    """A name that hints at what the function does in about a third of the cases, and is neutral otherwise."""
    verb = HINTS.get(signature.split()[0]) if rng.random() < 0.4 else None
    words = [verb or pick(rng, VERBS), pick(rng, NOUNS)]
    if rng.random() < 0.3:
        words.append(pick(rng, NOUNS))
    return "_".join(dict.fromkeys(words)) if words[0] != words[1] else f"{words[0]}_all"


def _unused(rng: Random, options: Sequence[str], used: set[str]) -> str:
    free = [name for name in options if name not in used]
    name = pick(rng, free)
    used.add(name)
    return name


def parameters(rng: Random, program: Program) -> dict[str, str]:
    """Names for `{a}` and `{b}`."""
    first = pick(rng, PARAMETERS[program.kinds[0]])
    if len(program.kinds) == 1:
        return {"a": first}
    return {"a": first, "b": _unused(rng, SECOND[program.kinds[1]], {first})}


def variables(rng: Random, program: Program, params: dict[str, str]) -> dict[str, str]:
    """Names for every local variable a body may use, all different and none a parameter."""
    used = set(params.values())
    return {
        **params,
        "r": _unused(rng, RESULTS[program.result], used),
        "x": _unused(rng, ITEMS[program.item], used),
        "y": _unused(rng, ("y", "d", "z"), used),
        "i": _unused(rng, ("i", "j", "pos"), used),
        "t": _unused(rng, ("total", "running", "acc", "t"), used),
    }
