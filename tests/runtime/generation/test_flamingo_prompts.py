"""Audio Flamingo 3's prompts give the tokens of transformers' processor and model, of sounds in parts too."""

import json

import pytest
import torch
import transformers
from helpers import sounded
from helpers.bundle_edits import relist
from helpers.sounded import FLAMINGO_TOKEN, RATE, sound

import txexport
from txexport.errors import BundleError, InputError
from txexport.verification.checks import SOUND_PROMPTS

GREEDY = {"max_new_tokens": 8, "do_sample": False}
A, B, C = (sound(samples) for samples in (5003, RATE + 5003, 2 * RATE + 200))  # the last part has no vector
PROMPTS = [
    f"{FLAMINGO_TOKEN}the cat",
    "the dog",
    f"on {FLAMINGO_TOKEN} the mat",
    f"the rug: {FLAMINGO_TOKEN}",
]
OF_PROMPTS = [A, None, B, C]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audioflamingo3")
    sounded.save_audioflamingo3(folder)
    return folder


@pytest.fixture(scope="module", params=["static", "dynamic"])
def model(request, checkpoint, tmp_path_factory):
    return sounded.opened(checkpoint, request.param, tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def original(checkpoint):
    """A function from a prompt, its sound and options to new text."""
    processor = transformers.AutoProcessor.from_pretrained(checkpoint)
    network = transformers.AudioFlamingo3ForConditionalGeneration.from_pretrained(checkpoint).eval()

    @torch.no_grad()
    def answer(text, audio, **options):
        inputs = processor(text=[text], **({} if audio is None else {"audio": [audio]}))
        tokens = network.generate(**inputs, **options)[:, inputs["input_ids"].shape[1] :]
        return processor.batch_decode(tokens, skip_special_tokens=True)[0]

    answer.processor = processor
    return answer


def test_answers_equal_transformers(model, original):
    expected = [original(*pair, **GREEDY) for pair in zip(PROMPTS, OF_PROMPTS, strict=True)]
    assert model.generate(PROMPTS, audio=OF_PROMPTS, **GREEDY) == expected
    assert len(set(expected)) == len(PROMPTS)


def test_conversations_equal_transformers(model, original):
    messages = [{"role": "user", "content": [{"type": "audio"}, {"type": "text", "text": "what?"}]}]
    text = original.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    messages[0]["content"][0] = {"type": "audio", "audio": B}
    assert model.chat(messages, **GREEDY) == original(text, B, **GREEDY)


def test_what_cannot_be_read_is_refused(model):
    for audio, message in (
        (sound(3 * RATE + 1), "a sound is 3.001 s long, expected at most 3 s; cut it"),
        (sound(320), "a sound has 320 samples, expected 321 or more"),
    ):
        with pytest.raises(InputError, match=message):
            model.generate(PROMPTS[0], audio=audio)


@pytest.mark.parametrize("seconds", [0, "9", 10**9, True])
def test_a_damaged_setting_is_refused(seconds, checkpoint, tmp_path):
    txexport.export(checkpoint, tmp_path / "out", only="native")
    file = tmp_path / "out/processor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"max_audio_len": seconds}))
    model = txexport.load(relist(tmp_path / "out"), device="cpu", threads=1)
    with pytest.raises(BundleError, match="max_audio_len is"):
        model.generate(PROMPTS[0], audio=A)


def test_verify_compares_prompts_and_conversations(checkpoint, tmp_path):
    out = tmp_path / "out"
    txexport.export(checkpoint, out, only="native")
    report = txexport.verify(out, reference="twin", cases=[SOUND_PROMPTS])
    assert report.ok
    [case] = report.cases
    assert [check.elements for check in case.checks] == [6, 6]
    settings = json.loads((out / "processor_config.json").read_text())
    changed = settings["feature_extractor"] | {"padding_value": 0.5}
    (out / "processor_config.json").write_text(json.dumps(settings | {"feature_extractor": changed}))
    [case] = txexport.verify(relist(out), reference="twin", cases=[SOUND_PROMPTS]).failed
    assert "features of" in case.exception
