"""Schemas too expensive to compile are refused in one line; others are accepted."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from helpers.serving import running

from txexport.server.served import Limits

QUESTION = [{"role": "user", "content": "How do the French say eighty-one?"}]


def nested(depth):
    return '{"type": "object", "properties": {"a": ' * depth + '{"type": "integer"}' + "}}" * depth


BRANCHES = [{"anyOf": [{"properties": {f"a{i}": {"const": j}}} for j in range(6)]} for i in range(8)]
PATTERNS = {f"^(a{{1,{i}}}b*){{1,100}}$": {} for i in range(5, 65)}
SCHEMAS = {  # as texts, with the messages
    "deep": (nested(70), "response_format is not valid: recursion limit exceeded"),
    "deeper than Python writes": (
        nested(500),
        "nested too deeply|recursion limit",
    ),  # by Python, or by the compiler: versions differ
    "long": (
        json.dumps({"enum": [f"v{i:06}" for i in range(20_000)]}),
        "220,010 characters, expected at most",
    ),
    "branches": (
        json.dumps({"type": "object", "allOf": BRANCHES}),
        "response_format is not valid: schema too large",
    ),
    "patterns": (json.dumps({"type": "object", "patternProperties": PATTERNS}), "are not disjoint"),
}
PLAIN = {"model": "chatter", "messages": QUESTION, "max_tokens": 9}


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_that_explode_are_told_while_others_are_answered(name, folders):
    schema, message = SCHEMAS[name]
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": "HERE"}}
    body = json.dumps(PLAIN | {"response_format": wanted}).replace('"HERE"', schema)
    limits = Limits(cache_tokens=4096, max_new_tokens=200, max_waiting=99, max_body=10**6, timeout=60)
    with running({"chatter": folders["chatter"]}, limits) as (address, _), ThreadPoolExecutor(8) as pool:
        url = f"{address}/v1/chat/completions"
        asking = [pool.submit(httpx.post, url, content=body, timeout=60) for _ in range(8)]
        assert httpx.post(url, json=PLAIN, timeout=20).status_code == 200
        for answer in (one.result() for one in asking):
            assert answer.status_code == 400
            told = answer.json()["error"]["message"]
            assert re.search(message, told)
            assert "\n" not in told


EXPLODING = [r"^(a{1,1000}){1,1000}$", r"^((a{1,99}){1,99}){1,99}$", r"^(a*b.{200}){1,50}$"]


@pytest.mark.parametrize("pattern", EXPLODING)
def test_patterns_that_explode_in_other_engines_are_answered(pattern, client):
    """They are compiled incrementally, as far as the text requires."""
    schema = {"type": "string", "pattern": pattern}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    [choice] = client.chat.completions.create(
        model="chatter", messages=QUESTION, max_tokens=40, response_format=wanted
    ).choices
    assert choice.message.content[:2] in ('"a', '"b')
