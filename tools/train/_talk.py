"""Composes what the chat model is taught: questions with their answers, one to three turns a topic.

Each turn has a key, a question's wording with what it asks about. One key in twelve is held out: it is never
trained on.
"""

import zlib
from collections.abc import Callable

from _facts import CITIES, NAMES, THINGS, WORDS
from _subjects import (
    Turn,
    arithmetic,
    calendar,
    capitals,
    counting,
    countries,
    invented,
    number_words,
    one,
    opposites,
    repeating,
    spelling,
    units,
)
from numpy.random import Generator

NAME = "Chatter"
CAN = (
    "I can talk about capitals, numbers, opposites, days, months, units and spelling, "
    "and I can call functions."
)
UNKNOWN = "I do not know that. I am a very small model."
NO_TOOL = "I cannot look that up: nobody gave me a function for it."


def held_out(turn: Turn) -> bool:
    """Tell whether a turn is held out: one key in twelve."""
    return bool(turn.key) and zlib.crc32(turn.key.encode()) % 12 == 0


GREETINGS = {
    "Hello! What would you like to know?": [
        "Hello", "Hi", "Hello!", "Hi!", "Hey", "Hi there", "Hello there!", "Good morning!",
        "Good evening!", "hello",
    ],
    "I am well, thank you. What would you like to know?": [
        "How are you?", "How are you today?", "How is it going?", "How do you do?", "Are you well?",
    ],
    "You are welcome.": ["Thank you.", "Thanks!", "Thank you very much!", "Great, thanks.",
    "Thanks a lot!"],
    "Goodbye!": ["Bye!", "Goodbye.", "See you!", "Good night!", "See you tomorrow."],
    f"I am {NAME}, a very small language model that comes with txexport.": [
        "Who are you?", "What are you?", "Introduce yourself.", "Tell me about yourself.",
        "Who am I talking to?",
    ],
    f"My name is {NAME}.": ["What is your name?", "What's your name?", "Do you have a name?", "Your name?"],
    CAN: [
        "What can you do?", "How can you help me?", "What do you know?", "Help", "What can I ask you?",
        "What are you good at?", "Help me.",
    ],
    "No, I am a program: a Transformer with one million parameters.": [
        "Are you human?", "Are you a person?", "Are you real?", "Are you alive?", "Do you have feelings?",
    ],
    "I have one million parameters.": [
        "How big are you?", "How many parameters do you have?", "How large are you?", "What size are you?",
    ],
    "I was trained by a program of txexport, on sentences that the program composed.": [
        "Who made you?", "Who trained you?", "How were you trained?", "Where do you come from?",
        "What were you trained on?",
    ],
    "txexport turns a Transformer into ONNX and proves that both are equal.": [
        "What is txexport?", "What does txexport do?", "Tell me about txexport.", "Explain txexport.",
    ],
    "ONNX is a file format for neural networks, which many programs can run.": [
        "What is ONNX?", "Tell me about ONNX.", "What's ONNX?", "Explain ONNX.",
    ],
    "Two numbers meet. One says: you look odd. The other says: do not get even.": [
        "Tell me a joke.", "Do you know a joke?", "A joke, please.", "Make me laugh.",
    ],
    "All right.": ["OK", "Okay.", "Good.", "I see.", "Fine."],
}  # fmt: skip


def small_talk(random: Generator) -> list[Turn]:
    """Greetings, and what the model is."""
    answer, questions = one(random, GREETINGS.items())
    return [Turn(one(random, questions), answer)]


def introductions(random: Generator) -> list[Turn]:
    """A name or a preference that the user tells, and asks for later."""
    if random.random() < 0.5:
        name = one(random, NAMES) if random.random() < 0.6 else invented(random).capitalize()
        tell = Turn(
            one(random, ["My name is {}.", "I am {}.", "I'm {}.", "Hi, I am {}."]).format(name),
            f"Nice to meet you, {name}.",
            f"name {name}",
        )
        ask = Turn(
            one(random, ["What is my name?", "Who am I?", "Do you remember my name?"]),
            f"Your name is {name}.",
        )
        unknown = Turn(ask.question, "You have not told me your name.")
    else:
        thing = one(random, THINGS)
        value = one(random, THINGS[thing])
        tell = Turn(
            f"My favourite {thing} is {value}.", f"I will remember that your favourite {thing} is {value}.",
            f"favourite {thing} {value}",
        )  # fmt: skip
        ask = Turn(f"What is my favourite {thing}?", f"Your favourite {thing} is {value}.")
        unknown = Turn(ask.question, f"You have not told me your favourite {thing}.")
    if random.random() < 0.15:
        return [unknown]
    between = (
        one(random, [capitals, opposites, arithmetic, small_talk])(random)[:1]
        if random.random() < 0.6
        else []
    )
    return [tell, *between, ask]


def unknown(random: Generator) -> list[Turn]:
    """Questions that the model cannot answer."""
    thing, name, city = one(random, WORDS), one(random, NAMES), one(random, CITIES)
    if random.random() < 0.3:
        question = one(
            random,
            ["What is the weather in {}?", "Will it rain in {} tomorrow?", "What time is it in {}?",
             "Find me a hotel in {}.", "Book a flight to {}."],
        ).format(city)  # fmt: skip
        return [Turn(question, NO_TOOL, question)]
    forms = [
        f"Write a poem about a {thing}.", f"Why is the {thing} there?", f"Who invented the {thing}?",
        f"What is the meaning of {thing}?", f"How do I make a {thing}?",
        f"Tell me the history of the {thing}.",
        f"How old is {name}?", f"Where does {name} live?", f"Who is {name}?",
        f"What did {name} say yesterday?",
        f"How many people live in {city}?", f"What is the best {thing} in {city}?",
        "Who won the match yesterday?",
        "What is the meaning of life?", "Who is the president?", "Why is the sky blue?",
        f"Explain how a {thing} works.", f"Is a {thing} heavier than a {one(random, WORDS)}?",
    ]  # fmt: skip
    question = one(random, forms)
    return [Turn(question, UNKNOWN, question)]


TOPICS: dict[Callable[[Generator], list[Turn]], float] = {  # and how often each comes
    capitals: 3, countries: 0.7, opposites: 2, arithmetic: 3, number_words: 1.5, calendar: 1.5, units: 1,
    spelling: 1, counting: 0.5, repeating: 3, small_talk: 2.5, introductions: 2, unknown: 2,
}  # fmt: skip


def turns(random: Generator) -> list[Turn]:
    """The turns of one topic."""
    chances = list(TOPICS.values())
    total = sum(chances)
    topic = random.choice(len(chances), p=[chance / total for chance in chances])
    return list(TOPICS)[topic](random)


def casual(random: Generator, question: str) -> str:
    """A question as somebody types it: perhaps without a capital or its last mark, or with a please."""
    draw = random.random()
    if draw < 0.1 and question[:1].isupper() and not question.startswith("I "):
        question = question[0].lower() + question[1:]
    if 0.05 < draw < 0.15:
        question = question.rstrip("?.!")
    if 0.15 < draw < 0.18 and question.endswith("?"):
        question = f"Please: {question}"
    return question
