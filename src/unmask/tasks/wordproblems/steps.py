"""Wordings of the trace: one computation per sentence, each kind in several paraphrases.

`{eq}` is the whole equation, `{a}`, `{b}` and `{c}` its numbers (with a dollar sign where they are money). The
other slots are those of `facts`.
"""

from __future__ import annotations

OPENINGS = (
    "Let us go step by step.",
    "We solve this in order.",
    "Here is how to find it.",
    "First we look at the numbers.",
    "We count everything with care.",
    "Let us work it out.",
)
# Stated before the last line. `{ans}` is the answer with its dollar sign.
CLOSINGS = (
    "So the answer is {ans}.",
    "The answer is {ans}.",
    "That is {ans} in the end.",
    "Therefore the answer is {ans}.",
    "This gives {ans} as the answer.",
    "In the end we get {ans}.",
)

PEOPLE = {
    # one person's things, in a chain
    "gain": (
        "{X} now has {eq} {items}.",
        "With these {x} has {eq} {items}.",
        "That makes {eq} {items}.",
        "Adding {b} gives {eq} {items}.",
        "So the number of {items} goes up to {eq}.",
        "{eq}, so {x} now has {c} {items}.",
    ),
    "loss": (
        "That leaves {eq} {items}.",
        "{X} then has {eq} {items}.",
        "After this {x} has {eq} {items} left.",
        "Without these {b} there are {eq} {items}.",
        "So the number of {items} goes down to {eq}.",
        "{eq}, so {c} {items} are left.",
    ),
    "grow": (
        "{X} then has {eq} {items}.",
        "The number of {items} {doubles} to {eq}.",
        "That is {twice} as many, {eq} {items}.",
        "Now there are {eq} {items}.",
        "{eq}, so now {x} has {c} {items}.",
    ),
    "halve": (
        "Half of them is {eq} {items}.",
        "That leaves half, {eq} {items}.",
        "{X} still has {eq} {items}.",
        "So half are left, {eq} {items}.",
        "{eq}, so half of the {items} is {c}.",
    ),
    "share": (
        "Each {friend} gets {eq} {items}.",
        "Every {friend} receives {eq} {items}.",
        "For each {friend} that is {eq} {items}.",
        "Split into {b} equal parts, that is {eq} {items}.",
        "{eq}, so each {friend} gets {c} {items}.",
    ),
    "pack": (
        "They fill {eq} {boxes}.",
        "So {eq} {boxes} are needed.",
        "That is {eq} {boxes}.",
        "With {b} in each there are {eq} {boxes}.",
        "{eq}, so there are {c} {boxes}.",
    ),
    "sell": (
        "All of them bring in {eq}.",
        "So {x} gets {eq}.",
        "At {b} each that is {eq}.",
        "The money is {eq}.",
        "{eq}, so {x} makes {c}.",
    ),
    # several people
    "gain_of": (
        "{A} now has {eq} {items}.",
        "With the new ones {A} has {eq} {items}.",
        "For {A} that makes {eq} {items}.",
        "So {A} goes up to {eq} {items}.",
        "{eq}, so {A} now has {c} {items}.",
    ),
    "loss_of": (
        "{A} is left with {eq} {items}.",
        "After this {A} has {eq} {items}.",
        "For {A} that leaves {eq} {items}.",
        "So {A} goes down to {eq} {items}.",
        "{eq}, so {A} still has {c} {items}.",
    ),
    "derive": (
        "{B} has {eq} {items}.",
        "So {B} has {eq} {items}.",
        "For {B} that is {eq} {items}.",
        "The number of {items} {B} has is {eq}.",
        "From this {B} has {eq} {items}.",
        "{eq}, so {B} has {c} {items}.",
    ),
    "total": (
        "Together they have {eq} {items}.",
        "In total that is {eq} {items}.",
        "Altogether there are {eq} {items}.",
        "{A} and {B} have {eq} {items} together.",
        "The sum of both is {eq} {items}.",
        "{eq}, so together there are {c} {items}.",
    ),
    "total_two": (
        "{A} and {B} together have {eq} {items}.",
        "{A} and {B} have {eq} {items} in total.",
        "For {A} and {B} that is {eq} {items}.",
        "Adding {A} and {B} gives {eq} {items}.",
        "{eq}, so {A} and {B} have {c} {items}.",
    ),
    "add_third": (
        "With {C} there are {eq} {items}.",
        "Adding {C} makes {eq} {items}.",
        "All three have {eq} {items}.",
        "For all three that is {eq} {items}.",
        "{eq}, so the three of them have {c} {items}.",
    ),
    "difference": (
        "The difference is {eq} {items}.",
        "That is {eq} {items} more.",
        "So {A} is ahead by {eq} {items}.",
        "{A} has {eq} more {items} than {B}.",
        "{eq}, so the difference is {c}.",
    ),
    "they_gain": (
        "They now have {eq} {items}.",
        "With these they have {eq} {items}.",
        "That makes {eq} {items}.",
        "Adding {b} gives {eq} {items}.",
        "{eq}, so they now have {c} {items}.",
    ),
    "they_loss": (
        "That leaves {eq} {items}.",
        "They then have {eq} {items}.",
        "After this they have {eq} {items} left.",
        "Without these {b} there are {eq} {items}.",
        "{eq}, so {c} {items} are left.",
    ),
}
