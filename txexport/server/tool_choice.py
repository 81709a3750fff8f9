"""tool_choice and parallel_tool_calls: calls that a request demands, by constrained decoding."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from txexport.runtime.generation.constraints import JSON, check_schema
from txexport.runtime.generation.options import read_option
from txexport.server.bodies import Schema
from txexport.server.refusals import RefusedError, as_json
from txexport.server.tool_calls import ARGUMENTS, CALL_ID, CALLS, CLOSES, EXAMPLE_ID, OPENS, CallFormat, Form

LONGEST_SCHEMA = 2**17  # characters: compiling takes time and memory that grow with them
CHOICE: Schema = {
    "anyOf": [{"enum": ["auto", "none", "required"]}, {"type": "object"}],
    "description": 'Or one function, as {"type": "function", "function": {"name": "f"}}.',
}
NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
TOOL = '{"type": "function", "function": {"name": "f", "parameters": {...}}}'
Functions = Sequence[Mapping[str, Any]]


def functions_of(tools: Sequence[Mapping[str, Any]]) -> Functions:
    """The functions of a request that have a name. Raises RefusedError for a function without one.

    A template may know tools of other types.
    """
    functions = []
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            functions.append(function)
        elif tool.get("type") in (None, "function"):
            raise RefusedError(f"tools has {as_json(tool)}, expected {TOOL}", param="tools")
    return functions


def demanded(body: Mapping[str, Any]) -> Functions:
    """The functions one of which the answer must call; none if it need not call any. Raises RefusedError."""
    choice, tools = body.get("tool_choice", "auto"), body.get("tools") or ()
    if choice in ("auto", "none"):
        return ()
    functions = functions_of(tools)
    if not tools:
        raise RefusedError(f"tool_choice is {as_json(choice)}, which needs tools", param="tool_choice")
    if len(functions) < len(tools):
        raise RefusedError(f"tool_choice needs each of tools as {TOOL}", param="tools")
    if choice == "required":
        return functions
    chosen = choice.get("function")
    name = chosen.get("name") if isinstance(chosen, dict) else None
    named = [one for one in functions if one["name"] == name]
    if choice.get("type") != "function" or not named:
        names = ", ".join(as_json(one["name"]) for one in functions)
        raise RefusedError(
            f"tool_choice is {as_json(choice)}, expected one of the functions in tools: {names}",
            param="tool_choice",
        )
    return named[:1]


def grammar_of(format: CallFormat | None, functions: Functions, several: bool) -> str:
    """The grammar of an answer that is a call of one of the functions, or `several`.

    Raises RefusedError where the format of calls is not known, and for parameters that are no JSON schema;
    MissingLibraryError without llguidance.
    """
    if format is None:
        raise RefusedError(
            "the format in which this model's chat template writes calls is not known, so tool_choice can "
            "only be auto or none",
            param="tool_choice",
        )
    schemas = [_parameters(function) for function in functions]
    length = sum(len(json.dumps(schema)) for schema in schemas)
    if length > LONGEST_SCHEMA:
        raise RefusedError(
            f"tools have schemas of {length:,} characters together, expected at most {LONGEST_SCHEMA:,} with "
            "this tool_choice",
            param="tools",
        )
    names, rules = [], []
    for number, (function, schema) in enumerate(zip(functions, schemas, strict=True)):
        _check(function, schema)
        rules.append(f"call{number}: {_call(format, function['name'], f'arguments{number}')}")
        rules.append(f"arguments{number}: %json {json.dumps({'x-guidance': JSON} | schema)}")
        names.append(f"call{number}")
    return "\n".join([f"start: {_start(format, several)}", f"call: {' | '.join(names)}", *rules])


def _start(format: CallFormat, several: bool) -> str:
    """The rule of an answer, which is made of calls."""
    if format.form is Form.TAGS:
        return 'call ("\\n" call)*' if several else "call"
    if format.form is Form.MARK and format.after_name is None:
        calls = 'call (", " call)*' if several else "call"
        return f'{_mark(format, CALLS)} "[" {calls} "]"'
    # Llama's models were trained on one call an answer
    return "call+" if several and format.form is Form.MARK else "call"


def _call(format: CallFormat, name: str, arguments: str) -> str:
    """The rule of a call of the function `name`, as the chat template writes it."""
    if format.after_name is not None:
        parts = [_mark(format, CALLS), _literal(name)]
        if CALL_ID in format.after_name:
            parts += [_mark(format, CALL_ID), f"/[a-zA-Z0-9]{{{len(EXAMPLE_ID)}}}/"]
        parts += [_mark(format, ARGUMENTS)] * (ARGUMENTS in format.after_name)
        return " ".join([*parts, arguments])
    key = "parameters" if format.form is Form.OBJECT else "arguments"
    body = f'{_literal(_head(name, key))} {arguments} "}}"'
    if format.form is Form.TAGS:
        return f'{_mark(format, OPENS)} "\\n" {body} "\\n" {_mark(format, CLOSES)}'
    return body


def _head(name: str, key: str) -> str:
    """The text of a call before its arguments."""
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "{key}": '


def _mark(format: CallFormat, text: str) -> str:
    """A mark in a grammar: by its id where it is a special token, else as text."""
    number = next((number for number, mark in format.marks.items() if mark == text), None)
    return _literal(text) if number is None else f"<[{number}]>"


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _parameters(function: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a function's arguments. Raises RefusedError, and InputError for a deep one."""
    schema = function.get("parameters", NO_ARGUMENTS)
    if not isinstance(schema, dict):
        raise RefusedError(
            f"the parameters of {as_json(function['name'])} are {as_json(schema)}, expected a JSON schema",
            param="tools",
        )
    return bounded(schema, "tools")


def _check(function: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raise RefusedError if the parameters of a function are no JSON schema that can be compiled."""
    problem = check_schema(schema, "tool_choice")
    if problem:
        raise RefusedError(
            f"the parameters of {as_json(function['name'])} are no valid JSON schema: {problem}",
            param="tools",
        )


def bounded(schema: Mapping[str, Any], param: str) -> dict[str, Any]:
    """A schema of at most LONGEST_SCHEMA characters, in the field `param`.

    Raises RefusedError, and InputError for a deep one.
    """
    read = read_option("json_schema", schema)
    length = len(json.dumps(read))
    if length > LONGEST_SCHEMA:
        raise RefusedError(
            f"{param} has a schema of {length:,} characters, expected at most {LONGEST_SCHEMA:,}", param=param
        )
    return read
