"""A server returns the model's generations to OpenAI's client: alone, many at once, streamed."""

import json
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import numpy as np
import pytest

QUESTION = [{"role": "user", "content": "How do the French say eighty-one?"}]


def test_completions_are_what_generate_gives(client, model_of):
    model = model_of("python-completer")
    expected = model.generate(["def read(", "class A"], max_new_tokens=16)
    result = client.completions.create(model="python-completer", prompt=["def read(", "class A"])
    assert [choice.text for choice in result.choices] == expected
    assert [choice.finish_reason for choice in result.choices] == ["length"] * 2
    assert result.usage.completion_tokens == 32
    assert result.usage.prompt_tokens == sum(len(one) for one in model.text.encode(["def read(", "class A"]))
    ids = model.text.encode(["def read("])[0].ids
    told = client.completions.create(model="python-completer", prompt=ids, echo=True)
    assert told.choices[0].text == "def read(" + expected[0]


def test_drawn_completions_are_those_of_their_seed(client, model_of):
    prompts, options = ["import ", "x = "], {"seed": 4, "temperature": 0.9, "top_p": 0.8}
    expected = model_of("python-completer").generate(
        prompts, max_new_tokens=9, num_return_sequences=3, do_sample=True, top_k=7, **options
    )
    result = client.completions.create(
        model="python-completer",
        prompt=["import ", "x = "],
        max_tokens=9,
        n=3,
        extra_body={"top_k": 7},
        **options,
    )
    assert [choice.text for choice in result.choices] == [text for texts in expected for text in texts]


def test_log_probs_are_those_of_the_model(client, model_of):
    model = model_of("python-completer")
    ids = model.text.encode(["for i in"])[0].ids
    [alone] = model.generate_with_scores([ids], log_probs=True, max_new_tokens=6)
    given = client.completions.create(model="python-completer", prompt="for i in", max_tokens=6, logprobs=2)
    told = given.choices[0].logprobs
    np.testing.assert_allclose(told.token_logprobs, alone.log_probs, atol=1e-5)
    assert "".join(told.tokens) == given.choices[0].text
    assert all(max(top.values()) == pytest.approx(value) for top, value in
               zip(told.top_logprobs, told.token_logprobs, strict=True))  # fmt: skip
    asked = {"model": "python-completer", "prompt": ["for i in", "x"], "max_tokens": 6, "logprobs": 2}
    whole = client.completions.create(**asked).choices
    pieces = [one.choices[0] for one in client.completions.create(**asked, stream=True)]
    for number, choice in enumerate(whole):
        parts = [one.logprobs for one in pieces if one.index == number and one.logprobs]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            expected = getattr(choice.logprobs, name)
            given = [value for part in parts for value in getattr(part, name)]
            if name == "top_logprobs":
                given, expected = list(map(sorted, given)), list(map(sorted, expected))
            assert given == (pytest.approx(expected, abs=1e-5) if name == "token_logprobs" else expected)


@pytest.mark.parametrize("stop", ["return", ["xyzzy", "\n"], "self.", ["f", "file)"]])
def test_texts_end_before_stops_whole_and_in_pieces(client, model_of, stop):
    asked = {"model": "python-completer", "prompt": "def read_lines(path):\n    with open(", "max_tokens": 60}
    long = model_of("python-completer").generate(asked["prompt"], max_new_tokens=60)
    places = [at for one in ([stop] if isinstance(stop, str) else stop) if (at := long.find(one)) >= 0]
    expected = long[: min(places)] if places else long
    whole = client.completions.create(**asked, stop=stop).choices[0]
    pieces = list(client.completions.create(**asked, stop=stop, stream=True))
    assert whole.text == expected == "".join(one.choices[0].text for one in pieces)
    assert whole.finish_reason == pieces[-1].choices[0].finish_reason == ("stop" if places else "length")


def test_a_stop_is_looked_for_in_what_is_written(client, model_of):
    """As OpenAI does: from the completion's start on, where `generate` begins with the prompt."""
    model, prompt = model_of("python-completer"), "def read_lines(path):\n    with open("
    long = model.generate(prompt, max_new_tokens=20)
    stop = prompt[-2:] + long[:2]
    assert len(model.generate(prompt, max_new_tokens=20, stop_strings=[stop])) < len(long)
    for stream in (False, True):
        asked = {"model": "python-completer", "prompt": prompt, "max_tokens": 20, "stop": stop}
        if stream:
            given = "".join(one.choices[0].text for one in client.completions.create(**asked, stream=True))
        else:
            given = client.completions.create(**asked).choices[0].text
        assert given == long


def test_no_part_of_the_likeliest_is_the_likeliest(client):
    asked = {"model": "python-completer", "prompt": "x = ", "max_tokens": 9}
    greedy = client.completions.create(**asked, temperature=0).choices[0].text
    assert client.completions.create(**asked, temperature=1.5, top_p=0, seed=3).choices[0].text == greedy
    drawn = [client.completions.create(**asked, temperature=1.5, seed=seed).choices[0].text
             for seed in (-3, -3, 3)]  # fmt: skip
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_conversation_streams_what_chat_gives(client, model_of):
    expected = model_of("chatter").chat(QUESTION, max_new_tokens=30)
    whole = client.chat.completions.create(model="chatter", messages=QUESTION, max_tokens=30)
    assert whole.choices[0].message.content == expected
    parts = [{"role": "user", "content": [{"type": "text", "text": QUESTION[0]["content"]}]}]
    stream = client.chat.completions.create(
        model="chatter", messages=parts, max_completion_tokens=30, stream=True, logprobs=True, top_logprobs=1,
        stream_options={"include_usage": True},
    )  # fmt: skip
    *chunks, last = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(one.choices[0].delta.content or "" for one in chunks) == expected
    assert last.usage.completion_tokens == whole.usage.completion_tokens
    told = [one.choices[0].logprobs for one in chunks if one.choices[0].logprobs]
    assert sum(len(one.content) for one in told) == last.usage.completion_tokens


def test_answers_fit_a_schema(client):
    properties = {"word": {"enum": ["dog", "cat"]}, "age": {"type": "integer", "minimum": 0, "maximum": 99}}
    schema = {"type": "object", "properties": properties, "required": ["word", "age"]}
    schema["additionalProperties"] = False
    wanted = {"type": "json_schema", "json_schema": {"name": "animal", "schema": schema}}
    asked = {"model": "chatter", "messages": QUESTION, "max_tokens": 60, "response_format": wanted}
    [choice] = client.chat.completions.create(**asked).choices
    assert choice.finish_reason == "stop"
    jsonschema.validate(json.loads(choice.message.content), schema)
    pieces = [
        one.choices[0].delta.content or "" for one in client.chat.completions.create(**asked, stream=True)
    ]
    assert "".join(pieces) == choice.message.content


def test_translations_are_what_beams_find(client, model_of):
    model = model_of("number-translator")
    for body in ({}, {"num_beams": 4}):
        expected = model.generate("two hundred and six", max_new_tokens=40, **body)
        asked = {"model": "number-translator", "prompt": "two hundred and six", "max_tokens": 40}
        result = client.completions.create(**asked, extra_body=body)
        assert result.choices[0].text == expected


def test_many_at_once_get_what_each_gets_alone(client, model_of):
    """Texts that join and leave one batch, and embeddings that are batched with others."""
    model, encoder = model_of("python-completer"), model_of("encoder")
    prompts = [f"def f{number}(" for number in range(12)]
    lengths = [1 + 7 * (number % 5) for number in range(12)]

    def complete(number):
        made = client.completions.create(
            model="python-completer", prompt=prompts[number], max_tokens=lengths[number]
        )
        vector = client.embeddings.create(model="encoder", input=prompts[number])
        return made.choices[0].text, vector.data[0].embedding

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(complete, range(12)))
    for number, (text, vector) in enumerate(answers):
        assert text == model.generate(prompts[number], max_new_tokens=lengths[number])
        np.testing.assert_allclose(vector, encoder.embed(prompts[number]), atol=1e-6)


def test_streams_of_beams_are_what_beams_find(client, model_of):
    """In one piece, when the search is over."""
    expected = model_of("number-translator").generate("two hundred and six", max_new_tokens=40, num_beams=4)
    asked = {"model": "number-translator", "prompt": "two hundred and six", "max_tokens": 40}
    pieces = list(client.completions.create(**asked, stream=True, extra_body={"num_beams": 4}))
    assert "".join(one.choices[0].text for one in pieces) == expected
    assert pieces[-1].choices[0].finish_reason == "stop"
    cut = client.completions.create(**asked | {"max_tokens": 2}, extra_body={"num_beams": 4})
    assert cut.choices[0].finish_reason == "length"
