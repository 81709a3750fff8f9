"""Composes calls of functions: a schema, a request, the arguments, a result and the answer from it.

Names of functions and arguments are drawn from many, and some are invented, so that they must be read from
the schema.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from _facts import CITIES, LANGUAGES, NAMES, WEATHER, WORDS, listed
from _subjects import Turn, invented, one, said
from _talk import held_out
from numpy.random import Generator

ATTRIBUTES = listed("""
price population height age status owner weight size address temperature speed rating author balance
 length distance score level title email stock salary rank voltage area budget""")
THINGS = listed("""
product city person order book customer article item room account river mountain company package user
 server film song team ticket device planet animal""")
LOOK_UP = listed("get look_up find fetch read check query")


class Request(NamedTuple):
    """One request: what is asked, with which arguments, and what comes back."""

    question: str
    arguments: dict[str, Any]
    result: str
    answer: str


class Function(NamedTuple):
    """A function as a chat template takes it, and a source of requests that call it."""

    name: str
    description: str
    parameters: dict[str, dict]
    required: list[str]
    request: Callable[[Generator, bool], Request]  # the second: whether it follows one of the same function

    def schema(self) -> dict:
        """The function in OpenAI's format."""
        parameters = {"type": "object", "properties": self.parameters, "required": self.required}
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


def _argument(random: Generator, kind: str, description: str) -> dict:
    return {"type": kind} | ({"description": description} if random.random() < 0.4 else {})


def _result(random: Generator, key: str, value: object) -> str:
    """A result as a program returns it: JSON with its name, or the value alone."""
    return json.dumps({key: value}, ensure_ascii=False) if random.random() < 0.5 else str(value)


def weather(random: Generator) -> Function:
    """The weather of a place."""
    name = one(
        random, listed("get_weather get_current_weather weather current_weather weather_report forecast")
    )
    place = one(random, listed("city location place town"))
    unit = random.random() < 0.3
    parameters = {place: _argument(random, "string", f"The name of the {place}")}
    if unit:
        parameters["unit"] = {"type": "string", "enum": ["celsius", "fahrenheit"]}

    def request(random: Generator, follows: bool) -> Request:
        city, sky, degrees = one(random, CITIES), one(random, WEATHER), int(random.integers(-9, 39))
        forms = ["What is the weather in {}?", "How is the weather in {}?", "What's the weather like in {}?",
                 "Tell me the weather in {}.", "Weather in {}?"]  # fmt: skip
        question = one(random, ["And in {}?", "What about {}?"] if follows else forms).format(city)
        arguments = {place: city}
        if unit and not follows and random.random() < 0.5:
            arguments["unit"] = one(random, ["celsius", "fahrenheit"])
            question = f"{question[:-1]} in {arguments['unit'].capitalize()}{question[-1]}"
        if random.random() < 0.25:
            return Request(question, arguments, f"It is {sky}.", f"It is {sky} in {city}.")
        names = one(random, [("temperature", "condition"), ("degrees", "sky"), ("temp", "weather")])
        result = json.dumps(dict(zip(names, (degrees, sky), strict=True)))
        if random.random() < 0.4:
            result = f"{degrees} degrees, {sky}"
        return Request(question, arguments, result, f"It is {sky} in {city}, with {degrees} degrees.")

    return Function(name, "Get the weather of a place.", parameters, [place], request)


def clock(random: Generator) -> Function:
    """The time at a place."""
    name = one(random, listed("get_time get_current_time clock time_in local_time current_time"))
    place = one(random, listed("city location place timezone"))

    def request(random: Generator, follows: bool) -> Request:
        city = one(random, CITIES)
        time = f"{random.integers(24):02}:{random.integers(60):02}"
        forms = ["What time is it in {}?", "What is the time in {}?", "How late is it in {}?", "Time in {}?"]
        question = one(random, ["And in {}?", "What about {}?"] if follows else forms).format(city)
        return Request(question, {place: city}, _result(random, "time", time), f"It is {time} in {city}.")

    return Function(
        name, "Get the time at a place.", {place: _argument(random, "string", "Where")}, [place], request
    )


def calculator(random: Generator) -> Function:
    """A calculator of expressions."""
    name = one(random, listed("calculator calculate evaluate compute eval_expression"))
    argument = one(random, listed("expression formula text input"))

    def request(random: Generator, follows: bool) -> Request:
        a, b = (int(random.integers(2, 10 ** int(random.integers(1, 5)) + 2)) for _ in range(2))
        sign, word = one(random, [("+", "plus"), ("-", "minus"), ("*", "times"), ("/", "divided by")])
        value = {"+": a + b, "-": a - b, "*": a * b, "/": round(a / b, 2)}[sign]
        form = one(random, ["What is {} {} {}?", "How much is {} {} {}?", "Compute {} {} {}."])
        question = form.format(a, one(random, [sign, word]), b)
        expression = f"{a} {sign} {b}"
        return Request(
            question, {argument: expression}, _result(random, "result", value), f"{expression} is {value}."
        )

    parameters = {argument: _argument(random, "string", "What to compute")}
    return Function(name, "Evaluate an arithmetic expression.", parameters, [argument], request)


def search(random: Generator) -> Function:
    """A search for words."""
    name = one(random, listed("search web_search search_documents search_notes google find_documents"))
    argument = one(random, listed("query q text terms"))

    def request(random: Generator, follows: bool) -> Request:
        phrase = " ".join(one(random, [*WORDS, *NAMES]) for _ in range(random.integers(1, 4)))
        form = one(
            random, ["Search for {}.", "Find something on {}.", "Look for {}.", "What do you find about {}?"]
        )
        result = (
            f"{one(random, NAMES)} {one(random, ['likes', 'has', 'sells', 'wants'])} a {one(random, WORDS)}."
        )
        return Request(form.format(phrase), {argument: phrase}, result, f"I found this: {result}")

    parameters = {argument: _argument(random, "string", "What to look for")}
    return Function(name, "Search for words.", parameters, [argument], request)


def into_language(random: Generator) -> Function:
    """A translation of a number or word into one language."""
    language = one(random, LANGUAGES)
    name = one(random, ["in_{}", "to_{}", "translate_to_{}", "say_in_{}"]).format(language.lower())
    argument = one(random, listed("number word text phrase"))
    what = "number" if argument == "number" else "word"

    def request(random: Generator, follows: bool) -> Request:
        word = said(int(random.integers(1000))) if argument == "number" else one(random, WORDS)
        there = " ".join(invented(random) for _ in range(random.integers(1, 3)))
        if argument == "number" and random.random() < 0.5:
            there = "-".join(there.split())
        if follows:
            question, answer = one(random, ["And {}?", "What about {}?"]), f"They say {there}."
        elif random.random() < 0.5:
            question, answer = f"How do the {language} say {{}}?", f"They say {there}."
        else:
            question, answer = f"What is {{}} in {language}?", f"In {language} it is {there}."
            return Request(question.format(word), {argument: word}, there, answer)
        return Request(question.format(word), {argument: word}, there, answer)

    parameters = {argument: _argument(random, "string", f"The {what}, in English words")}
    return Function(name, f"Translate a {what} into {language}.", parameters, [argument], request)


def attribute(random: Generator) -> Function:
    """One property of one kind of thing, of which the names may be invented."""
    known = random.random() < 0.6
    wanted = one(random, ATTRIBUTES) if known else invented(random)
    thing = one(random, THINGS) if random.random() < 0.6 else invented(random)
    verb = one(random, LOOK_UP)
    name = one(
        random, [f"{verb}_{wanted}", f"{verb}_{wanted}", f"{verb}_{thing}_{wanted}", f"{wanted}_of_{thing}"]
    )
    argument = one(random, [thing, thing, f"{thing}_name", "name", "id", invented(random)])
    numbers = random.random() < 0.25

    def request(random: Generator, follows: bool) -> Request:
        value: Any = one(random, one(random, [NAMES, WORDS, CITIES, [invented(random)]]))
        if numbers:
            value = int(random.integers(1, 10 ** int(random.integers(1, 6))))
        number = int(random.integers(10 ** int(random.integers(1, 6))))
        outcome = one(random, [number, number, one(random, WORDS), one(random, NAMES), f"{number / 10:.1f}"])
        what = one(random, [f"{value}", f"{value}", f"the {thing} {value}"])
        if follows:
            question = one(random, ["And of {}?", "And {}?", "What about {}?"]).format(value)
            answer = f"The {wanted} of {value} is {outcome}."
        else:
            form = one(random, ["What is the {} of {}?", "Tell me the {} of {}.", "Look up the {} of {}."])
            question, answer = form.format(wanted, what), f"The {wanted} of {value} is {outcome}."
        return Request(question, {argument: value}, _result(random, wanted, outcome), answer)

    parameters = {argument: _argument(random, "integer" if numbers else "string", f"Of which {thing}")}
    description = one(
        random, [f"Get the {wanted} of a {thing}.", f"Returns the {wanted} of the given {thing}."]
    )
    return Function(name, description, parameters, [argument], request)


def action(random: Generator) -> Function:
    """Something to be done, with two arguments."""
    noun = invented(random)
    rows = [
        ("send_message send_email send_text message_person", "Send a text to somebody.", ("to", "string"),
         ("text", "string"), ["Send {1} to {0}.", "Tell {0}: {1}.", "Write {1} to {0}."], NAMES),
        ("set_value set_level set_device control_device", "Set a device to a value.", ("device", "string"),
         ("value", "integer"), ["Set the {0} to {1}.", "Turn the {0} to {1}."], WORDS),
        ("add_event create_event add_reminder remind", "Add something to the calendar.", ("title", "string"),
         ("day", "string"), ["Remind me of the {0} on {1}.", "Add {0} on {1}."], WORDS),
        ("book_table reserve_table book_hotel book", "Book something in a city.", ("city", "string"),
         ("people", "integer"), ["Book in {0} for {1} people.", "Reserve in {0} for {1}."], CITIES),
        (f"{noun}_add create_{noun} new_{noun}", f"Create a {noun}.", ("name", "string"),
         ("count", "integer"), [f"Create a {noun} {{0}} with {{1}}.", f"New {noun} {{0}}, {{1}} of it."],
         NAMES),
    ]  # fmt: skip
    names, description, (first, _), (second, kind), forms, pool = one(random, rows)
    parameters = {
        first: _argument(random, "string", f"The {first}"),
        second: _argument(random, kind, f"The {second}"),
    }

    def request(random: Generator, follows: bool) -> Request:
        value: Any = int(random.integers(1, 100))
        if kind == "string":
            value = one(random, WORDS)
            if second == "day":
                value = one(random, listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"))
        target = one(random, pool)
        question = one(random, forms).format(target, value)
        return Request(question, {first: target, second: value}, one(random, ["ok", "done", "true"]), "Done.")

    return Function(one(random, names.split()), description, parameters, [first, second], request)


KINDS = [weather, clock, calculator, search, into_language, attribute, attribute, attribute, action]
FAILURES = ["not found", "timeout", "unknown name", "no connection", "not allowed", "bad request"]


def functions(random: Generator) -> list[Function]:
    """One to three functions of different kinds and names."""
    picked = random.permutation(len(KINDS))[: random.integers(1, 4)]
    chosen = [KINDS[i](random) for i in picked]
    return list({function.name: function for function in chosen}.values())


def message_of(*requests: tuple[Function, Request]) -> dict:
    """The assistant's message that calls functions."""
    calls = [
        {"type": "function", "function": {"name": function.name, "arguments": request.arguments}}
        for function, request in requests
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def exchange(random: Generator, function: Function, ask: Callable[[str], str]) -> list[dict]:
    """The messages of a request, its call, the result and the answer; perhaps a second, or two calls at once.

    `ask` changes a question's form.
    """
    request, other = trained(random, function, False), trained(random, function, True)
    first, second = (next(iter(each.arguments.values())) for each in (request, other))
    mark = request.question[-1]
    single = len(request.arguments) == 1 and other.question.startswith(("And", "What about"))
    if single and first != second and request.question.endswith(f" {first}{mark}") and random.random() < 0.12:
        return [
            {"role": "user", "content": ask(f"{request.question[:-1]} and {second}{mark}")},
            message_of((function, request), (function, other)),
            *({"role": "tool", "content": each.result} for each in (request, other)),
            {"role": "assistant", "content": f"{request.answer} {other.answer}"},
        ]
    messages = _one(random, function, request, ask)
    if other.question.startswith(("And", "What about")) and random.random() < 0.4:
        messages += _one(random, function, other, ask)
    return messages


def _one(random: Generator, function: Function, request: Request, ask: Callable[[str], str]) -> list[dict]:
    result, answer = request.result, request.answer
    if random.random() < 0.06:
        failure = one(random, FAILURES)
        result = one(random, [f"error: {failure}", json.dumps({"error": failure})])
        answer = f"That failed: {failure}."
    return [
        {"role": "user", "content": ask(request.question)},
        message_of((function, request)),
        {"role": "tool", "content": result},
        {"role": "assistant", "content": answer},
    ]


def trained(random: Generator, function: Function, follows: bool) -> Request:
    """A request that is not held out."""
    while held_out_call(function, request := function.request(random, follows)):
        pass
    return request


def held_out_call(function: Function, request: Request) -> bool:
    """Tell whether a call is held out: one in twelve of functions' names with the asked value."""
    value = next(iter(request.arguments.values()))
    return held_out(Turn("", "", f"call {function.name} {value}"))
