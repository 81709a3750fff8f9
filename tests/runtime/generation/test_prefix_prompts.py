"""PaliGemma's prompts, whose tokens attend to each other: answers of both caches, against transformers."""

import base64

import openai
import pytest
import torch
from helpers.pictured import encoded, picture
from helpers.pictured_families import exported, loaded, message, new_text, original_of, saved
from helpers.serving import running

import txexport
from txexport.errors import InputError
from txexport.runtime.generation import prefill
from txexport.verification.checks import IMAGE_PROMPTS

GREEDY = {"max_new_tokens": 8, "do_sample": False}
CHANGING = GREEDY | {"repetition_penalty": 4.0}
BEAMS = CHANGING | {"num_beams": 3}
A, B, C, D = (picture(*size) for size in [(31, 40), (100, 20), (24, 24), (13, 57)])
PROMPTS = [
    ("caption en", [A]),
    ("", [B]),
    ("answer en where is the cat?", [C]),
    ("<image>detect cat ; dog", [D]),
    ("<image><image>which is the dog?", [A, D]),
    ("before <image> and after", [B]),
    ("one <image> two <image> three", [C, A]),
    ("caption\nen", [A, B, C]),
    ("the cat sat on the mat", []),
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return saved("paligemma", tmp_path_factory)


@pytest.fixture(scope="module", params=["static", "dynamic"])
def bundle(request, checkpoint, tmp_path_factory):
    return exported(checkpoint, request.param, tmp_path_factory)


@pytest.fixture(scope="module")
def model(bundle):
    return loaded(bundle)


@pytest.fixture(scope="module")
def original(checkpoint):
    return original_of(checkpoint, "paligemma")


def inputs_of(processor, text, images):
    """The library's inputs; its processor demands an image, so a prompt without one is written here."""
    if images:
        inputs = processor(text=[text], images=[images], return_tensors="pt")
        return {name: value for name, value in inputs.items() if name != "labels"}
    inputs = processor.tokenizer(f"<s>{text}\n", return_tensors="pt")
    return {**inputs, "token_type_ids": torch.zeros_like(inputs["input_ids"])}


def expected(original, text, images, options):
    return new_text(original, inputs_of(original[0], text, images), **options)


@pytest.mark.parametrize("options", [GREEDY, CHANGING, BEAMS], ids=str)
def test_answers_equal_transformers(options, model, original):
    answers = [expected(original, text, images, options) for text, images in PROMPTS]
    assert len(set(answers)) > 2
    texts, images = zip(*PROMPTS, strict=True)
    assert [model.generate(one, images=some, **options) for one, some in PROMPTS] == answers
    assert model.generate(list(texts), images=list(images), **options) == answers
    if options is GREEDY:  # drafts are read several tokens a step
        drafted = model.generate(list(texts), images=list(images), prompt_lookup_num_tokens=3, **options)
        assert drafted == answers
    pieces = [""] * len(texts)
    if "num_beams" not in options:
        for place, piece in model.stream_many(list(texts), images=list(images), **options):
            pieces[place] += piece
        assert pieces == answers


def test_a_message_is_a_prompt(model, original):
    answer = expected(original, "caption en", [A], CHANGING)
    messages = [message(A, "caption en")]
    assert model.chat(messages, **CHANGING) == answer
    assert "".join(model.stream_chat(messages, **CHANGING)) == answer
    assert model.ask_image([A, B], "caption en", **CHANGING) == [
        answer,
        expected(original, "caption en", [B], CHANGING),
    ]
    for wrong in (messages * 2, [{"role": "assistant", "content": "x"}], []):
        with pytest.raises(InputError, match=r"no chat template: pass exactly one message of the user$"):
            model.chat(wrong)
    assert model.chat(messages, tools=[], chat_template_kwargs={}, **CHANGING) == answer
    for options in ({"tools": [{"type": "function"}]}, {"continue_final_message": True}):
        with pytest.raises(InputError, match=f"no chat template, so {next(iter(options))} cannot be used"):
            model.chat(messages, **options)
    for content in (5, {"type": "text", "text": "x"}):
        with pytest.raises(InputError, match=r"content is .*, expected a text or a list of parts$"):
            model.chat([{"role": "user", "content": content}])
    with pytest.raises(InputError, match="expected a text or an image"):
        model.chat([{"role": "user", "content": [{"type": "text"}]}])


def test_a_session_reads_each_prompt_anew(model):
    """A prompt that begins as an earlier one has other keys and values: its tokens attend to later ones."""
    session = model.session()
    for text in ("the cat", "the cat sat", "the cat sat on"):
        assert session.generate(text, **CHANGING) == model.generate(text, **CHANGING)
    assert len(session.store) == 0


def test_long_prompts_are_read_in_one_step(model, original, monkeypatch):
    monkeypatch.setattr(prefill, "CHUNK", 16)
    text = "the cat sat on the mat and " * 24
    assert model.generate(text, images=[A, B], **CHANGING) == expected(original, text, [A, B], CHANGING)


def test_scores_of_prompts_are_refused(model):
    """Each token of a prompt attends to those after it, so that it has no probability given those before."""
    with pytest.raises(InputError, match=r"^tokens of a prompt attend to those after them, .* use generate"):
        model.score("the cat sat on the mat")


def test_served_answers_equal_transformers(bundle, original):
    url = f"data:image/png;base64,{base64.b64encode(encoded(A)).decode()}"
    image, text = {"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "caption en"}
    with running({"paligemma": bundle}) as (address, _):
        completions = openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0).chat.completions
        settings = {"model": "paligemma", "max_tokens": 8, "temperature": 0}
        for content, prompt in (([image, text], ("caption en", [A])), ("the cat", ("the cat", []))):
            answer = completions.create(
                messages=[{"role": "user", "content": content}],
                extra_body={"chat_template_kwargs": {}},
                **settings,
            )
            assert answer.choices[0].message.content == expected(original, *prompt, GREEDY)
        with pytest.raises(openai.BadRequestError, match="exactly one message of the user"):
            completions.create(messages=[{"role": "user", "content": "a"}] * 2, **settings)


def test_verify_compares_prompts(bundle):
    [case] = txexport.verify(bundle, reference="twin", cases=[IMAGE_PROMPTS]).cases
    assert case.ok
    assert [check.elements for check in case.checks] == [5]
