"""Wordings of everything a question says: each kind of sentence in several paraphrases.

Slots: `{A}` is a person by name; `{X}`/`{x}`, `{His}`/`{his}` and `{him}` are the same person by name or pronoun;
`{n}`, `{k}`, ... are numbers, with their dollar sign where they are money; the rest are words chosen by the story.
"""

from __future__ import annotations

OPENINGS = (
    "Here is a problem about {topic}.",
    "This is a story about {topic}.",
    "Read this story about {topic}.",
    "Please solve this problem.",
    "Let us count some {topic}.",
    "Here is a question for you.",
)
CLOSINGS = (
    "Show each step.",
    "Think step by step.",
    "Write down every step.",
    "Explain how you get the answer.",
    "Please show your work.",
    "Give the answer as a number.",
)

# Numbers that the answer does not need.
DISTRACTIONS = (
    "{A} is {n} years old.",
    "{A} lives {n} miles from the {place}.",
    "The {place} is {n} years old.",
    "There are {n} people in the {place}.",
    "It is {n} minutes to the {place}.",
    "{A} lives in house number {n}.",
)
# The same, about other things that a person has: only safe right before the question is asked.
BELONGINGS = (
    "{A} also has {n} {others}.",
    "{A} owns {n} {others} as well.",
    "There are also {n} {others} in {A}'s room.",
    "At home {A} has {n} {others} too.",
    "{A} keeps {n} {others} at home.",
)

INVENTORY = {
    "start": (
        "{A} has {n} {items}.",
        "{A} starts with {n} {items}.",
        "At first, {A} has {n} {items}.",
        "{A} owns {n} {items}.",
        "There are {n} {items} in {A}'s room.",
        "On {day}, {A} has {n} {items}.",
    ),
    "gain": (
        "{X} buys {n} more {items}.",
        "Then {x} gets another {n} {items}.",
        "{X} finds {n} more {items}.",
        "{His} {kin} gives {him} {n} {items}.",
        "Later {x} receives {n} more {items} from a friend.",
        "{X} wins {n} {items} at the {place}.",
        "A friend brings {him} {n} more {items}.",
    ),
    "loss": (
        "{X} gives {n} {items} to a friend.",
        "Then {x} loses {n} {items}.",
        "{X} sells {n} {items}.",
        "Later {x} gives away {n} {items}.",
        "{X} leaves {n} {items} at the {place}.",
        "{His} {kin} takes {n} of the {items}.",
        "{X} trades {n} {items} for a {thing}.",
    ),
    "grow": (
        "Then {x} {doubles} {own} number of {items}.",
        "After a month {x} has {twice} as many {items}.",
        "Soon {x} has {twice} as many {items} as before.",
        "Then the number of {items} {doubles}.",
        "In a week {his} number of {items} {doubles}.",
    ),
    "halve": (
        "{X} gives half of the {items} to {own} {kin}.",
        "Then {x} sells half of the {items}.",
        "Half of the {items} get lost.",
        "{X} leaves half of the {items} at the {place}.",
        "Later {x} gives away half of {own} {items}.",
    ),
    "share": (
        "{X} shares all the {items} equally among {k} {friends}.",
        "Then {x} splits the {items} equally among {k} {friends}.",
        "{X} gives all the {items} to {k} {friends}, the same number to each.",
        "All the {items} are divided equally among {k} {friends}.",
        "Then {k} {friends} get all the {items} in equal shares.",
    ),
    "pack": (
        "{X} packs all the {items} into {boxes} of {k}.",
        "Then {x} puts the {items} into {boxes}, {k} in each.",
        "All the {items} go into {boxes} that hold {k} each.",
        "Each {box} holds {k} {items}, and {x} packs them all.",
        "{X} fills {boxes} with {k} {items} each until none are left.",
    ),
    "sell": (
        "{X} sells all the {items} for {p} each.",
        "Then {x} sells every {item} for {p}.",
        "All the {items} are sold at {p} each.",
        "A shop buys all the {items} from {him} at {p} each.",
        "{X} gets {p} for each {item} and sells them all.",
    ),
    "ask_have": (
        "How many {items} does {A} have now?",
        "How many {items} does {A} have in the end?",
        "What is the number of {items} {A} has now?",
        "How many {items} does {A} end up with?",
        "Find how many {items} {A} has at the end.",
        "So how many {items} does {A} have?",
    ),
    "ask_share": (
        "How many {items} does each {friend} get?",
        "How many {items} does every {friend} receive?",
        "What is the number of {items} for each {friend}?",
        "How many {items} are there for each {friend}?",
        "Find how many {items} go to each {friend}.",
    ),
    "ask_pack": (
        "How many {boxes} are filled?",
        "How many {boxes} are there in the end?",
        "How many {boxes} are needed?",
        "What is the number of full {boxes}?",
        "Find how many {boxes} are used.",
    ),
    "ask_sell": (
        "How much money does {x} make?",
        "How many dollars does {x} get?",
        "How much does {x} earn by selling them?",
        "What amount of money does {x} receive?",
        "How much money does {x} get for them?",
    ),
}

# Several people: everybody goes by name, so that no sentence depends on the one before it.
PEOPLE = {
    "gain_of": (
        "{A} buys {n} more {items}.",
        "Then {A} gets another {n} {items}.",
        "{A} finds {n} more {items}.",
        "Then {A} receives {n} more {items}.",
        "A friend brings {A} {n} more {items}.",
        "{A} wins {n} {items} at the {place}.",
    ),
    "loss_of": (
        "{A} gives {n} {items} to a friend.",
        "Then {A} loses {n} {items}.",
        "{A} sells {n} {items}.",
        "Later {A} gives away {n} {items}.",
        "{A} leaves {n} {items} at the {place}.",
        "{A} trades {n} {items} for a {thing}.",
    ),
    "more": (
        "{B} has {n} more {items} than {A}.",
        "{B} has {n} {items} more than {A} does.",
        "{A} has {n} fewer {items} than {B}.",
        "Compared with {A}, {B} has {n} more {items}.",
        "{B} has as many {items} as {A} and {n} more.",
        "{B} owns {n} more {items} than {A}.",
    ),
    "fewer": (
        "{B} has {n} fewer {items} than {A}.",
        "{B} has {n} {items} fewer than {A} does.",
        "{A} has {n} more {items} than {B}.",
        "Compared with {A}, {B} has {n} fewer {items}.",
        "{B} owns {n} fewer {items} than {A}.",
        "To have as many {items} as {A}, {B} needs {n} more.",
    ),
    "times": (
        "{B} has {times} as many {items} as {A}.",
        "{B} owns {times} as many {items} as {A} does.",
        "Compared with {A}, {B} has {times} as many {items}.",
        "For every {item} that {A} has, {B} has {k}.",
        "{B} has {times} the number of {items} that {A} has.",
    ),
    "part": (
        "{B} has {half} as many {items} as {A}.",
        "{B} owns only {half} as many {items} as {A} does.",
        "Compared with {A}, {B} has {half} as many {items}.",
        "For every {k} {items} that {A} has, {B} has one.",
        "{A} has {times} as many {items} as {B}.",
    ),
    "pool": (
        "They put all their {items} together.",
        "Together they put the {items} on one table.",
        "They bring all the {items} to the {place}.",
        "Then they put the {items} in one big box.",
        "They collect all these {items} for the {place}.",
    ),
    "they_gain": (
        "Together they buy {n} more {items}.",
        "Then they get another {n} {items}.",
        "They find {n} more {items} at the {place}.",
        "A neighbor gives them {n} more {items}.",
        "Later they receive another {n} {items}.",
    ),
    "they_loss": (
        "They sell {n} of the {items}.",
        "Then they give away {n} of the {items}.",
        "{n} of these {items} get lost.",
        "They leave {n} of the {items} at the {place}.",
        "Later they give {n} of the {items} to a friend.",
    ),
    "they_share": (
        "They share all the {items} equally among {k} {friends}.",
        "Then they split the {items} equally among {k} {friends}.",
        "They give all the {items} to {k} {friends}, the same number to each.",
        "All the {items} are divided equally among {k} {friends}.",
        "Then {k} {friends} get all the {items} in equal shares.",
    ),
    "they_pack": (
        "They pack all the {items} into {boxes} of {k}.",
        "Then they put the {items} into {boxes}, {k} in each.",
        "All the {items} go into {boxes} that hold {k} each.",
        "Each {box} holds {k} {items}, and they pack them all.",
        "They fill {boxes} with {k} {items} each until none are left.",
    ),
    "ask_of": (
        "How many {items} does {A} have?",
        "What is the number of {items} {A} has?",
        "Find how many {items} {A} has.",
        "How many {items} are {A}'s?",
        "So how many {items} does {A} own?",
    ),
    "ask_both": (
        "How many {items} do {A} and {B} have together?",
        "How many {items} do {A} and {B} have in total?",
        "What is the total number of {items} of {A} and {B}?",
        "Find how many {items} {A} and {B} have altogether.",
        "If {A} and {B} put their {items} together, how many are there?",
    ),
    "ask_all": (
        "How many {items} do all three have together?",
        "How many {items} do the three of them have in total?",
        "What is the total number of {items}?",
        "Find how many {items} they have altogether.",
        "If all three put their {items} together, how many are there?",
    ),
    "ask_they": (
        "How many {items} do they have now?",
        "How many {items} are there in the end?",
        "What is the number of {items} they have now?",
        "How many {items} do they end up with?",
        "Find how many {items} they have at the end.",
    ),
    "ask_more": (
        "How many more {items} does {A} have than {B}?",
        "By how many {items} is {A} ahead of {B}?",
        "How many fewer {items} does {B} have than {A}?",
        "What is the difference between the {items} of {A} and {B}?",
        "How many {items} does {B} need to have as many as {A}?",
    ),
}
