"""Random chat templates, composed of the statements and expressions of published ones."""

import random

VALUES = (
    "messages | map(attribute='role') | list", "messages | selectattr('role', 'equalto', 'user') | list",
    "m.role", "m.role", "m.role", "n.y", "messages", "m", "m.role", "m['content']", "m.content",
    "m.tool_calls", "messages[0]", "messages[-1].role", "tools", "documents", "bos_token", "eos_token",
    "n.x", "n.y", "loop.index0", "x", "1", "0", "'a '", "none", "true", "[]", "{}", "m.reasoning_content",
    "add_generation_prompt", "m.name", "['a', 'b']", "{'k': m}",
)  # fmt: skip
FILTERS = (
    "string", "tojson", "string | trim", "string | upper", "default('d')", "tojson", "trim", "upper",
    "length", "string", "tojson", "tojson(indent=1)", "default('d')", "default('d', true)", "list", "first",
    "last", "items | list", "join('-')", "int", "reverse | list", "title", "replace('a', 'b')", "e",
    "unique | list", "indent(2)", "truncate(7)", "wordcount", "dictsort", "safe", "float", "round", "abs",
    "capitalize",
)  # fmt: skip
TESTS = (
    "defined", "none", "string", "mapping", "iterable", "sequence", "number", "true", "false", "undefined",
    "boolean", "integer", "callable", "odd", "in ['user', 'a']", "eq 'user'",
)  # fmt: skip
METHODS = (
    ".strip()", ".split('a')", ".upper()", ".items()", ".get('role')", ".startswith('<')", "[1:]", "[::-1]",
    "[0]", ".x", ".rstrip('\\n').lstrip()", ".keys() | list", ".format(1)", ".title()", "['type']",
)  # fmt: skip
OPERATORS = (
    "~", "~", "~", "~", "==", "==", "or", "and", "or", "+", "==", "!=", "and", "or", "in", "not in", "*",
    "%", "<", "-", "//",
)  # fmt: skip


def generated(seed: int) -> str:
    """A template, the same for one seed on every machine."""
    draw = random.Random(seed)
    body = "".join(statement(draw, 2) for _ in range(1 + draw.randrange(3)))
    return (
        "{% set n = namespace(x=1, y='q') %}{% set x = 'u' %}{% set m = messages[0] %}"
        + statement(draw, 1)
        + "{% for m in messages %}"
        f"{body}{{% endfor %}}" + statement(draw, 1)
    )


def expression(draw: random.Random, depth: int) -> str:
    """An expression of at most that depth."""
    kind = draw.choice((0, 0, 1, 2, 2, 3, 4, 5)) if depth and draw.random() < 0.8 else 0
    value = draw.choice(VALUES)
    if kind == 1:
        return f"({expression(draw, depth - 1)} {draw.choice(OPERATORS)} {expression(draw, depth - 1)})"
    if kind == 2:
        return f"({expression(draw, depth - 1)} | {draw.choice(FILTERS)})"
    if kind == 3:
        return f"({value} is {draw.choice(('', 'not '))}{draw.choice(TESTS)})"
    if kind == 4:
        return f"({draw.choice((value, 'm.role', 'm.role', 'x'))}{draw.choice(METHODS)})"
    if kind == 5:
        return f"({expression(draw, depth - 1)} if {expression(draw, depth - 1)} else {value})"
    return value


def statement(draw: random.Random, depth: int) -> str:
    """A statement or text, with or without whitespace control."""
    begin, end = draw.choice(("{%", "{%", "{%-", "{%+")), draw.choice(("%}", "%}", "-%}"))
    space = draw.choice(("", " ", "\n", "\n  ", "t"))
    kind, inner = draw.randrange(9), (lambda: statement(draw, depth - 1) if depth else space)
    if kind == 0:
        branches = f"{inner()}{begin} else {end}{inner()}"
        return f"{space}{begin} if {expression(draw, 2)} {end}{branches}{{% endif %}}{space}"
    if kind == 1:
        items = draw.choice(("messages", "m", "tools or []", "m.content or []", expression(draw, 1)))
        return f"{begin} for x in {items} {end}{inner()}{{{{ x }}}}{{% endfor %}}{space}"
    if kind == 2:
        return f"{begin} set {draw.choice(('x', 'n.x', 'n.y'))} = {expression(draw, 2)} {end}"
    if kind == 3:
        return f"{begin} generation {end}{inner()}{{{{ x }}}}{begin} endgeneration {end}{space}"
    if kind == 4:
        return f"{begin} set x {end}{inner()}{{% endset %}}"
    if kind == 5:
        return f"{{% macro f(a) %}}{inner()}{{{{ a }}}}{{% endmacro %}}{{{{ f({expression(draw, 1)}) }}}}"
    return f"{space}{{{{{draw.choice(('', '-', ' '))} {expression(draw, 2)} {draw.choice(('', '-'))}}}}}"
