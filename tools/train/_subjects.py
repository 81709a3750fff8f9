"""Subjects of the chat model with questions of one form and known answers, such as capitals and sums."""

from typing import NamedTuple

from _facts import (
    CAPITALS,
    CITIES,
    DAYS,
    INVENTED,
    LENGTHS,
    MONTHS,
    NAMES,
    ONE_SIDED,
    OPPOSITES,
    ORDINALS,
    UNITS,
    WORDS,
)
from num2words import num2words
from numpy.random import Generator

SPELT = [word for word in WORDS if len(word) < 5]
BOTH_WAYS = OPPOSITES | {there: here for here, there in OPPOSITES.items() if here not in ONE_SIDED}


class Turn(NamedTuple):
    """A question, its answer, and the key by which it is held out; an empty key never is."""

    question: str
    answer: str
    key: str = ""


def one(random: Generator, values):
    """One of the values."""
    values = list(values)
    return values[random.integers(len(values))]


def invented(random: Generator) -> str:
    """A word that nobody has said."""
    syllables = [
        one(random, "bcdfghjklmnprstvwz") + one(random, "aeiou") for _ in range(random.integers(2, 5))
    ]
    return "".join(syllables) + one(random, ["", "", "n", "r", "s", "x", "l"])


def capitals(random: Generator) -> list[Turn]:
    """Capitals, with follow-ups that name the next country alone."""
    forms = [
        "What is the capital of {}?", "What's the capital of {}?", "Which city is the capital of {}?",
        "Tell me the capital of {}.", "Do you know the capital of {}?", "Capital of {}?",
    ]  # fmt: skip
    result = []
    for number in range(random.integers(1, 4)):
        known = random.random() < 0.9
        country = one(random, CAPITALS if known else INVENTED)
        if not known and random.random() < 0.5:
            country = invented(random).capitalize()
        form = one(random, ["And of {}?", "And {}?", "What about {}?", "and of {}?"] if number else forms)
        answer = f"The capital of {country} is {CAPITALS.get(country)}."
        if not known:
            answer = f"I do not know the capital of {country}."
        typed = country.lower() if random.random() < 0.1 and known else country
        result.append(Turn(form.format(typed), answer, f"capital {form} {country}"))
    return result


def countries(random: Generator) -> list[Turn]:
    """The country of a capital."""
    country, city = one(random, CAPITALS.items())
    form = one(
        random, ["Of which country is {} the capital?", "{} is the capital of which country?", "Where is {}?"]
    )
    answer = f"{city} is the capital of {country}."
    if form.startswith("Where"):
        answer = f"{city} is in {country}."
    return [Turn(form.format(city), answer, f"country {form} {city}")]


def opposites(random: Generator) -> list[Turn]:
    """Opposites, and words that have none."""
    forms = ["What is the opposite of {}?", "Opposite of {}?", "What's the opposite of {}?",
             "Tell me the opposite of {}."]  # fmt: skip
    result = []
    for number in range(random.integers(1, 3)):
        word = one(random, BOTH_WAYS if random.random() < 0.9 else WORDS)
        form = one(random, ["And of {}?", "And {}?", "What about {}?"] if number else forms)
        answer = f"The opposite of {word} is {BOTH_WAYS.get(word)}."
        if word not in BOTH_WAYS:
            answer = f"I do not know an opposite of {word}."
        result.append(Turn(form.format(word), answer, f"opposite {form} {word}"))
    return result


def arithmetic(random: Generator) -> list[Turn]:
    """Sums, differences and small products, continued by one step."""
    kind = one(random, ["plus", "plus", "minus", "times"])
    a, b = (int(value) for value in random.integers(0, 11, 2))
    if kind == "minus" and b > a:
        a, b = b, a
    sign, value = {"plus": ("+", a + b), "minus": ("-", a - b), "times": ("*", a * b)}[kind]
    forms = ["What is {} {} {}?", "How much is {} {} {}?", "{} {} {}?", "{} {} {}"]
    form, written = one(random, forms), one(random, [kind, kind, sign])
    turns = [
        Turn(form.format(a, written, b), f"{a} {kind} {b} is {value}.", f"sum {a} {kind} {b}"),
    ]
    if value < 20 and random.random() < 0.4:
        more = int(random.integers(1, 10))
        question = one(random, ["And plus {}?", "Add {} to that.", "Plus {}?"]).format(more)
        turns.append(Turn(question, f"{value} plus {more} is {value + more}.", f"more {value} {more}"))
    return turns


def said(number: int) -> str:
    """A number in words."""
    return num2words(number)


def number_words(random: Generator) -> list[Turn]:
    """Numbers below a hundred in words, and back."""
    number = int(random.integers(0, one(random, [21, 100])))
    if random.random() < 0.5:
        form = one(random, ["Write {} in words.", "How do you say {} in words?", "What is {} in words?"])
        return [Turn(form.format(number), f"{number} is {said(number)}.", f"words {number}")]
    form = one(random, ["Write {} in digits.", "What number is {}?", "What is {} in digits?"])
    spelt = said(number)
    return [Turn(form.format(spelt), f"{spelt.capitalize()} is {number}.", f"digits {number}")]


def calendar(random: Generator) -> list[Turn]:
    """Days and months: before, after, their numbers and lengths."""
    names, kind = one(random, [(DAYS, "day"), (MONTHS, "month")])
    i, n = int(random.integers(len(names))), len(names)
    name = names[i]
    rows = [
        (f"{{}} {kind} comes after {name}?", f"{names[(i + 1) % n]} comes after {name}."),
        (f"{{}} {kind} comes before {name}?", f"{names[i - 1]} comes before {name}."),
        (
            f"{{}} is the {ORDINALS[i]} {kind}{' of the year' * (n == 12)}?",
            f"{name} is the {ORDINALS[i]} {kind}.",
        ),
    ]
    if kind == "month":
        question = one(random, ["How many days are in {}?", "How many days does {} have?", "How long is {}?"])
        rows.append((question.format(name), f"{name} has {LENGTHS[i]} days."))
    else:
        rows.append((f"Today is {name}. {{}} day is tomorrow?", f"Tomorrow is {names[(i + 1) % n]}."))
        rows.append((f"Today is {name}. {{}} day was yesterday?", f"Yesterday was {names[i - 1]}."))
    question, answer = one(random, rows)
    question = question.format(one(random, ["What", "Which"]))
    return [Turn(question, answer, question)]


def units(random: Generator) -> list[Turn]:
    """Units of time, length, weight and volume."""
    big, factor, small = one(random, UNITS)
    n = int(random.integers(1, 11))
    forms = ["How many {1} are in {0}?", "How many {1} are {0}?", "Convert {0} to {1}.", "{0} in {1}?"]
    form, amount = one(random, forms), f"{n} {big}{'s' * (n > 1)}"
    verb = "is" if n == 1 else "are"
    return [
        Turn(
            form.format(amount, f"{small}s"),
            f"{amount} {verb} {n * factor} {small}s.",
            f"unit {form} {amount}",
        )
    ]


def spelling(random: Generator) -> list[Turn]:
    """The letters of a word."""
    word = one(random, SPELT)
    form = one(random, ["How do you spell {}?", "Spell {}.", "Can you spell {}?", "Spell the word {}."])
    return [Turn(form.format(word), f"{word}: {'-'.join(word.upper())}.", f"spell {form} {word}")]


def counting(random: Generator) -> list[Turn]:
    """Numbers in their order."""
    a, n = int(random.integers(1, 30)), int(random.integers(2, 9))
    form = one(random, ["Count from {} to {}.", "Please count from {} to {}."])
    return [Turn(form.format(a, a + n), ", ".join(map(str, range(a, a + n + 1))) + ".", f"count {a} {n}")]


def repeating(random: Generator) -> list[Turn]:
    """Words to be repeated, and the first or last of a list."""
    pool = [*WORDS, *NAMES, *CITIES]
    items = [
        invented(random) if random.random() < 0.3 else one(random, pool) for _ in range(random.integers(1, 5))
    ]
    if random.random() < 0.5:
        form = one(random, ["Say {}.", "Repeat: {}.", "Repeat after me: {}.", "Please say {}."])
        text = " ".join(items)
        return [Turn(form.format(text), f"{text[0].upper()}{text[1:]}.", f"say {text}")]
    items = [*dict.fromkeys([*items, *random.choice(WORDS, 2).tolist()])]
    which = one(random, ["first", "last"])
    word = items[0 if which == "first" else -1]
    form = one(random, ["What is the {} of these: {}?", "Which word is {} in this list: {}?"])
    text = ", ".join(items)
    return [Turn(form.format(which, text), f"The {which} is {word}.", f"{which} {text}")]
