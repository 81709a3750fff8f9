"""Voxtral's prompts give the tokens of transformers' model, sounds of several parts among them."""

import base64
import json
import wave
from dataclasses import replace

import httpx
import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers import sounded
from helpers.bundle_edits import relist
from helpers.serving import LIMITS, running
from helpers.sounded import RATE, VOXTRAL_MARK, listed, sound, user

import txexport
from txexport.cli.main import main
from txexport.errors import InputError
from txexport.runtime.preprocessing import chat
from txexport.runtime.preprocessing.chat import Conversation
from txexport.runtime.preprocessing.sound_prompts import VOXTRAL
from txexport.verification.checks import SOUND_PROMPTS

GREEDY = {"max_new_tokens": 8, "do_sample": False}
VECTORS = 10  # of a part of a second
A, B, C, D = (sound(samples) for samples in (5003, RATE, RATE + 1, 38123))  # the last two of 2 and 3 parts
MARK = VOXTRAL_MARK
PROMPTS = [f"<s>[INST]{MARK}the cat[/INST]", "the at", f"{MARK}{MARK} what {MARK}"]
OF_PROMPTS = [A, None, [D, B, C]]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voxtral")
    sounded.save_voxtral(folder)
    return folder


@pytest.fixture(scope="module", params=["static", "dynamic"])
def model(request, checkpoint, tmp_path_factory):
    return sounded.opened(checkpoint, request.param, tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def original(checkpoint):
    """A function from a prompt, its sounds and options to new text, by the library's own classes."""
    processor = transformers.AutoProcessor.from_pretrained(checkpoint)
    network = transformers.VoxtralForConditionalGeneration.from_pretrained(checkpoint).eval()

    @torch.no_grad()
    def answer(text, sounds, **options):
        options = {"eos_token_id": 2, "pad_token_id": 11} | options
        first, *after = text.split("[AUDIO]")
        inputs, parts = {}, []
        for one, following in zip(sounds, after, strict=True):
            count = -(-len(one) // RATE)
            first += "[AUDIO]" * VECTORS * count + following
            parts.append(
                processor._retrieve_input_features(
                    [one], 100, sampling_rate=RATE, padding=True, truncation=False,
                    pad_to_multiple_of=RATE, return_tensors="pt",
                )
            )  # fmt: skip
            assert len(parts[-1]) == count
        if parts:
            inputs["input_features"] = torch.cat(parts)
        ids = processor.tokenizer(first, return_tensors="pt").input_ids
        tokens = network.generate(ids, **inputs, attention_mask=torch.ones_like(ids), **options)
        return processor.tokenizer.decode(tokens[0, ids.shape[1] :], skip_special_tokens=True)

    return answer


@pytest.mark.parametrize("options", [{}, {"batch_tokens": 60}], ids=str)
def test_answers_equal_transformers(options, model, original):
    pairs = zip(PROMPTS, OF_PROMPTS, strict=True)
    expected = [original(prompt, listed(sounds), **GREEDY) for prompt, sounds in pairs]
    assert model.generate(PROMPTS, audio=OF_PROMPTS, **GREEDY, **options) == expected
    assert len({model.generate(PROMPTS[0], audio=one, **GREEDY) for one in (A, B, C, D)}) > 2


# What mistral-common 1.13.1 makes of the same messages, with one token for a sound.
CONVERSATIONS = [
    (
        [user("at", "the"), {"role": "assistant", "content": "cat"}, user(A, "what?", D)],
        "<s>[INST]atthe[/INST]cat</s>[INST][BEGIN_AUDIO][AUDIO]what?[BEGIN_AUDIO][AUDIO][/INST]",
    ),
    (
        [{"role": "system", "content": "be brief"}, user(C, B)],
        "<s>[SYSTEM_PROMPT]be brief[/SYSTEM_PROMPT][INST][BEGIN_AUDIO][AUDIO][BEGIN_AUDIO][AUDIO][/INST]",
    ),
]


@pytest.mark.parametrize(("messages", "text"), CONVERSATIONS)
def test_conversations_have_the_form_of_mistral_common(messages, text, model, original):
    assert chat.prompt(model.bundle.folder, Conversation(messages), VOXTRAL) == text
    sounds = [
        part["audio"]
        for message in messages
        for part in (message["content"] if isinstance(message["content"], list) else [])
        if part["type"] == "audio"
    ]
    assert model.chat(messages, **GREEDY) == original(text, sounds, **GREEDY)


REFUSED = {
    "a message is of tool": {"role": "tool", "content": "42"},
    "calls of tools are not read": {"role": "assistant", "content": "", "tool_calls": [{"id": "x"}]},
    "a part is video": {"role": "user", "content": [{"type": "video", "video": "x"}]},
}


@pytest.mark.parametrize(("message", "one"), REFUSED.items(), ids=REFUSED)
def test_what_the_form_cannot_say_is_refused(message, one, model):
    with pytest.raises(InputError, match=message):
        chat.prompt(model.bundle.folder, Conversation([user("at"), one]), VOXTRAL)


def test_a_session_goes_on(model):
    messages = [user(D, "what?")]
    session = model.session()
    answer = session.chat(messages, **GREEDY)
    assert answer == model.chat(messages, **GREEDY)
    messages += [{"role": "assistant", "content": answer}, user("and", A)]
    assert session.chat(messages, **GREEDY) == model.chat(messages, **GREEDY)


def test_what_cannot_be_read_is_refused(model):
    with pytest.raises(InputError, match=r"a prompt has \[AUDIO\] 1 time, expected 2, one for each sound"):
        model.generate(PROMPTS[0], audio=[A, B])
    with pytest.raises(
        InputError, match="a prompt has 1 token for spectrograms, expected 20 for 2 spectrograms"
    ):
        model.generate_ids([[1, 24, 5]], audio=[C])
    with pytest.raises(InputError, match="longer than"):
        model.generate(PROMPTS[0], audio=sound(60 * RATE))


def test_commands_and_server(model, tmp_path):
    path = tmp_path / "sound.wav"
    values = np.round(D * 32767).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(values.tobytes())
    samples, folder = (values / 32768).astype(np.float32), str(model.bundle.folder)
    options = ["--max-new-tokens", "8", "--set", "do_sample=false"]
    result = CliRunner().invoke(main, ["generate", folder, PROMPTS[0], "--audio", str(path), *options])
    assert result.output == f"{model.generate(PROMPTS[0], audio=samples, **GREEDY)}\n"
    expected = model.chat([user(samples, "what")], **GREEDY)
    result = CliRunner().invoke(main, ["chat", folder, "--json", *options], input=f"/audio {path}\nwhat\n")
    assert result.exit_code == 0, result.output
    assert expected in json.loads(result.stdout).values()
    encoded = base64.b64encode(path.read_bytes()).decode()
    part = {"type": "input_audio", "input_audio": {"data": encoded, "format": "wav"}}
    body = {"model": "m", "max_tokens": 8, "temperature": 0}
    body["messages"] = [{"role": "user", "content": [part, {"type": "text", "text": "what"}]}]
    with running({"m": folder}, replace(LIMITS, max_body=10**6)) as (url, _):
        [choice] = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).json()["choices"]
    assert choice["message"]["content"] == expected


def test_verify_compares_prompts(checkpoint, tmp_path):
    out = tmp_path / "out"
    txexport.export(checkpoint, out, only="native")
    report = txexport.verify(out, reference="twin", cases=[SOUND_PROMPTS])
    assert report.ok
    [case] = report.cases
    assert [check.elements for check in case.checks] == [6]
    file = out / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"hop_length": 80}))
    [case] = txexport.verify(relist(out), reference="twin", cases=[SOUND_PROMPTS]).failed
    assert case.exception
