"""Answers of a model that reads images of any size among texts, compared with those of the library."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import txexport
from helpers.pictured_families import message, new_text, original_of
from txexport.runtime.generation.pictures import prompts_of, read_media, tiles_of
from txexport.runtime.generation.requests import GenerationRequest
from txexport.runtime.generation.running_batch import RunningBatch, rows_of

GREEDY = {"max_new_tokens": 8, "do_sample": False}
CHANGING = GREEDY | {"repetition_penalty": 4.0}
BEAMS = GREEDY | {"num_beams": 3}
Answer = Callable[..., str]


def entries(images: Any) -> list[Any]:
    """The images of a prompt: none, one or a list."""
    return [] if images is None else images if isinstance(images, list) else [images]


def answers_of(checkpoint: Path, family: str) -> Answer:
    """A function from a prompt, its images and options to the library's new text."""
    original = original_of(checkpoint, family)

    def answer(text: str, images: list[Any], adds: bool = False, **options: Any) -> str:
        inputs = original[0](text=text, images=images or None, return_tensors="pt", add_special_tokens=adds)
        return new_text(original, inputs, **options)

    answer.network = original[1]  # type: ignore[attr-defined]
    return answer


def check_conversation(
    model: txexport.Model, answer: Answer, mark: str, content: Sequence[Any], options: dict[str, Any]
) -> None:
    """Compare the answer to a message; `mark` stands for an image in the library's prompt."""
    text = "".join(one if isinstance(one, str) else mark for one in content)
    images = [one for one in content if not isinstance(one, str)]
    expected = answer(f"<s>user: {text} assistant:", images, **options)
    assert model.chat([message(*content)], **options) == expected


def check_distinct(model: txexport.Model, conversations: dict[str, Sequence[Any]], least: int) -> None:
    """Compare the answers with each other: equal ones would show no wrong image and no wrong position."""
    assert len({model.chat([message(*one)], **GREEDY) for one in conversations.values()}) >= least


def check_ragged(
    model: txexport.Model, answer: Answer, prompts: list[str], images: list[Any], options: dict[str, Any]
) -> None:
    """Compare prompts in one batch with each alone in the library."""
    apart = {name: value for name, value in options.items() if name != "batch_tokens"}
    adds = prompts_of(model.bundle).adds_tokens
    expected = [
        answer(text, entries(some), adds=adds, **CHANGING, **apart)
        for text, some in zip(prompts, images, strict=True)
    ]
    assert len(set(expected)) > 2
    assert model.generate(prompts, images=images, **CHANGING, **options) == expected


def check_joining(model: txexport.Model, prompts: list[str], images: list[Any]) -> None:
    """Compare rows of a running batch, which come and go between each other's steps, with `generate`."""
    expected = model.generate(prompts, images=images, **CHANGING)
    assert len(set(expected)) > 2
    bundle, batch = model.bundle, RunningBatch(model.bundle)
    config, pictured = bundle.files.generation_config.updated(**CHANGING), prompts_of(bundle)
    rows = []
    for text, some in [*zip(prompts, images, strict=True)] * 2:
        tiles = tiles_of(bundle, [some], [text])
        texts = [pictured.expanded(text, tiles[0])]
        ids = bundle.files.text.encode(texts, adds=pictured.adds_tokens)[0].ids
        rows += rows_of(GenerationRequest(bundle, [ids], config, media=read_media(bundle, [ids], tiles)))
    for row in rows:
        batch.add([row])
        for _ in range(3):
            batch.step()
    while batch.busy:
        batch.step()
    assert bundle.files.text.decode([row.result.tokens for row in rows]) == expected * 2


def check_turns(model: txexport.Model, answer: Answer, mark: str, images: Sequence[Any]) -> None:
    """Compare the turns of a session, each with an image or none, with the library's answers."""
    session, messages, text, seen = model.session(), [], "<s>", []
    for number, image in enumerate(images):
        messages.append(message(*entries(image), f"question {number}"))
        seen += entries(image)
        text += f"user: {mark * len(entries(image))}question {number} "
        reply = session.chat(messages, **GREEDY)
        assert reply == answer(f"{text}assistant:", seen, **GREEDY)
        messages.append({"role": "assistant", "content": reply})
        text += f"assistant: {reply} "
