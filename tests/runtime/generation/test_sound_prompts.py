"""Prompts with sounds give the tokens of transformers' processor and model."""

import base64
import json
import shutil
import wave

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers import sounded
from helpers.bundle_edits import relist
from helpers.sounded import LEAST, MARK, RATE, TOKEN, listed, sound, user

import txexport
from txexport.cli.main import main
from txexport.errors import InputError
from txexport.verification.checks import SOUND_PROMPTS

GREEDY = {"max_new_tokens": 10, "do_sample": False}
BEAMS = {"max_new_tokens": 8, "do_sample": False, "num_beams": 3}
A, B, C, D, E = (sound(samples) for samples in (5003, 16000, 9001, 1121, 12345))  # the fourth of two vectors
CONVERSATIONS = {
    "no sound": ["hello there"],
    "one sound": [A, "what is that?"],
    "the longest sound": ["and", B],
    "two sounds": [C, "or", D, "which?"],
    "three sounds side by side": [A, E, D],
    "one sound twice": [C, "and", C],
}
PROMPTS = [f"{MARK}the cat sat", "the dog", f"on {MARK} and{MARK} the mat", f"the rug: {MARK}"]
OF_PROMPTS = [A, None, [B, C], [E]]


def written(samples, path):
    """A WAV file of 16 bits, and the samples that it has."""
    values = np.round(samples * 32767).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(values.tobytes())
    return (values / 32768).astype(np.float32)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen2_audio")
    sounded.save(folder)
    return folder


@pytest.fixture(scope="module", params=["static", "dynamic"])
def model(request, checkpoint, tmp_path_factory):
    return sounded.opened(checkpoint, request.param, tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def original(checkpoint):
    """A function from a prompt, its sounds and options to new text.

    With beams it is given the vectors that the network makes of a row: where a row has several sounds,
    generate repeats each of them in turn, and beams get those of others.
    """
    processor = transformers.AutoProcessor.from_pretrained(checkpoint)
    network = transformers.Qwen2AudioForConditionalGeneration.from_pretrained(checkpoint).eval()

    def embeddings(inputs):
        taken = []
        hook = network.model.language_model.register_forward_pre_hook(
            lambda _module, _arguments, named: taken.append(named["inputs_embeds"]), with_kwargs=True
        )
        network(**inputs)
        hook.remove()
        return taken[0]

    @torch.no_grad()
    def answer(text, sounds, **options):
        heard = {"audio": sounds, "sampling_rate": RATE} if sounds else {}
        inputs = processor(text=text, return_tensors="pt", **heard)
        if "num_beams" in options:
            inputs, before = {"inputs_embeds": embeddings(inputs)}, 0
        else:
            before = inputs["input_ids"].shape[1]
        tokens = network.generate(**inputs, **options)[:, before:]
        return processor.batch_decode(tokens, skip_special_tokens=True)[0]

    answer.processor, answer.network = processor, network
    return answer


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_answers_equal_transformers(name, model, original):
    content = CONVERSATIONS[name]
    messages, sounds = [user(*content)], [one for one in content if not isinstance(one, str)]
    plain = [{"role": "user", "content": [_named(part) for part in messages[0]["content"]]}]
    text = original.processor.apply_chat_template(plain, add_generation_prompt=True, tokenize=False)
    for options in (GREEDY, BEAMS):
        assert model.chat(messages, **options) == original(text, sounds, **options)
    assert "".join(model.stream_chat(messages, **GREEDY)) == model.chat(messages, **GREEDY)


def _named(part):
    return {"type": "audio"} if part["type"] == "audio" else part


def test_a_session_reads_what_it_has_read_no_more(model):
    messages = [user(A, "what is that?")]
    session = model.session()
    answer = session.chat(messages, **GREEDY)
    assert answer == model.chat(messages, **GREEDY)
    messages += [{"role": "assistant", "content": answer}, user("and this?", C)]
    assert session.chat(messages, **GREEDY) == model.chat(messages, **GREEDY)


def test_answers_depend_on_the_sounds_and_their_order(model):
    prompt = f"{MARK}the cat sat"
    assert len({model.generate(prompt, audio=one, **GREEDY) for one in (A, B, C, D, E)}) > 3
    both = f"{MARK} and {MARK}"
    assert model.generate(both, audio=[A, C], **GREEDY) != model.generate(both, audio=[C, A], **GREEDY)


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"batch_tokens": 60}], ids=str)
def test_ragged_batches_equal_each_prompt(options, model, original):
    apart = {name: value for name, value in options.items() if name != "batch_tokens"}
    pairs = zip(PROMPTS, OF_PROMPTS, strict=True)
    expected = [original(prompt, listed(sounds), **GREEDY, **apart) for prompt, sounds in pairs]
    assert model.generate(PROMPTS, audio=OF_PROMPTS, **GREEDY, **options) == expected
    pieces = [""] * len(PROMPTS)
    if not apart:
        for place, piece in model.stream_many(PROMPTS, audio=OF_PROMPTS, **GREEDY, **options):
            pieces[place] += piece
        assert pieces == expected


def test_a_sound_of_one_vector(model, original):
    """Transformers' generate fails there, since it takes such a prompt for one of its first releases."""
    few = sound(LEAST)
    inputs = original.processor(text=f"hear {MARK}", audio=[few], sampling_rate=RATE, return_tensors="pt")
    with torch.no_grad():
        best = int(original.network(**inputs).logits[0, -1].argmax())
    prompt = model.generate_ids([inputs["input_ids"][0].tolist()], audio=[few], max_new_tokens=1)
    assert prompt == [[best]]


def test_every_kind_of_source(model, tmp_path):
    path = tmp_path / "sound.wav"
    samples = written(A, path)
    encoded = base64.b64encode(path.read_bytes()).decode()
    expected = model.chat([user(samples, "which?")], **GREEDY)
    text = {"type": "text", "text": "which?"}
    for part in (
        {"type": "audio", "audio": str(path)},
        {"type": "audio", "path": path},
        {"type": "audio", "audio": path.read_bytes()},
        {"type": "audio", "base64": encoded},
        {"type": "audio_url", "audio_url": {"url": f"data:audio/wav;base64,{encoded}"}},
        {"type": "input_audio", "input_audio": {"data": encoded, "format": "wav"}},
        {"type": "input_audio", "input_audio": encoded},
    ):
        assert model.chat([{"role": "user", "content": [part, text]}], **GREEDY) == expected
    for part in ({"type": "audio"}, {"type": "audio", "audio": {"array": [0.0], "sampling_rate": RATE}}):
        with pytest.raises(InputError, match="expected a sound, as its path or its bytes"):
            model.chat([{"role": "user", "content": [part, text]}])


def test_what_cannot_be_read_is_refused(model):
    prompt = f"{MARK} there"
    for audio, message in (
        (sound(LEAST - 1), "a sound has 320 samples, expected 321 or more"),
        (sound(RATE + 1), "a sound is 1.001 s long, expected at most 1 s; cut it"),
        ([A] * 10_000_000, "10,000,000 sounds would take"),
        ("https://example.com/a.wav", "remote addresses are not read"),
        ([A, C], "1 time, expected 2, one for each sound"),
    ):
        with pytest.raises(InputError, match=message):
            model.generate(prompt, audio=audio)
    with pytest.raises(InputError, match=r"images are given, and .* reads text with sounds"):
        model.generate(prompt, images=np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(InputError, match="a prompt has 1 token for sounds, expected 8 for 1 sound"):
        model.generate_ids([[4, model.bundle.image_token_id, 5]], audio=[A])


@pytest.mark.parametrize("settings", [{}, {"chat_template": "{{ messages[0].content + ':' }}"}])
def test_a_template_is_not_needed(settings, checkpoint, original, tmp_path):
    """Transformers' processor has one of its own for this family; the tokenizer's is for texts."""
    plain = tmp_path / "plain"
    shutil.copytree(checkpoint, plain)
    (plain / "chat_template.jinja").unlink()
    file = plain / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    txexport.export(plain, tmp_path / "out", only="native")
    model = txexport.load(tmp_path / "out", device="cpu", threads=1)
    messages = [{"role": "system", "content": "be brief"}, user(A, "what?"), user("more", C)]
    rows = [{**one, "content": [*map(_named, one["content"])]} for one in messages[1:]]
    text = original.processor.apply_chat_template(
        [messages[0], *rows],
        chat_template=original.processor.default_chat_template,
        add_generation_prompt=True,
        tokenize=False,
    )
    assert model.chat(messages, **GREEDY) == original(text, [A, C], **GREEDY)
    result = CliRunner().invoke(
        main, ["chat", str(tmp_path / "out"), "--max-new-tokens", "2"], input="what?\n"
    )
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("as_json", [False, True])
def test_a_template_may_look_for_the_key_of_a_sound(as_json, checkpoint, original, tmp_path):
    """Processors saved with transformers before 4.53 have such a template."""
    old = tmp_path / "old"
    shutil.copytree(checkpoint, old)
    template = (
        "{% for message in messages %}{% for part in message['content'] %}"
        "{% if 'audio' in part or 'audio_url' in part or message['type'] == 'audio' %}<|AUDIO|>"
        "{% elif 'text' in part %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
    )
    (old / "chat_template.jinja").write_text("none" if as_json else template)
    if as_json:  # which is the one that counts
        (old / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    txexport.export(old, tmp_path / "out", only="native")
    model = txexport.load(tmp_path / "out", device="cpu", threads=1)
    text = original.processor.apply_chat_template(
        [
            {
                "role": "user",
                "content": [{"type": "audio", "audio_url": "a.wav"}, {"type": "text", "text": "what?"}],
            }
        ],
        chat_template=template,
        tokenize=False,
    )
    assert model.chat([user(A, "what?")], **GREEDY) == original(text, [A], **GREEDY)
    report = txexport.verify(tmp_path / "out", cases="quick")
    assert report.ok
    conversations = [check for case in report.cases if case.name == SOUND_PROMPTS for check in case.checks]
    assert [check.elements for check in conversations] == [3, 3]


def test_commands(model, tmp_path):
    path = tmp_path / "sound.wav"
    samples = written(C, path)
    expected = model.generate(f"hear {TOKEN} now", audio=samples, **GREEDY)
    folder, options = str(model.bundle.folder), ["--max-new-tokens", "10", "--set", "do_sample=false"]
    arguments = ["generate", folder, f"hear {TOKEN} now", "--audio", str(path), *options]
    result = CliRunner().invoke(main, arguments)
    assert result.output == f"{expected}\n", result.output
    result = CliRunner().invoke(main, ["generate", folder, "one", "two", "--audio", str(path)])
    assert "--audio needs a single prompt" in result.output
    written(sound(RATE + 1), tmp_path / "long.wav")
    result = CliRunner().invoke(main, ["chat", folder, *options], input=f"/audio {tmp_path / 'long.wav'}\n")
    assert (result.exit_code, "expected at most 1 s" in result.stderr) == (2, True)
    lines = f"/audio {path}\nwhich?\n"
    result = CliRunner().invoke(main, ["chat", folder, "--json", *options], input=lines)
    assert result.exit_code == 0, result.output
    [line] = result.stdout.splitlines()
    expected = model.chat([user(samples, "which?")], **GREEDY)
    assert expected in json.dumps(json.loads(line), ensure_ascii=False).encode().decode("unicode_escape") or (
        expected in json.loads(line).values()
    )


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


def test_a_spectrogram_of_another_length_is_refused(checkpoint, tmp_path):
    txexport.export(checkpoint, tmp_path / "out", only="native")
    file = tmp_path / "out/processor_config.json"
    settings = json.loads(file.read_text())
    settings["feature_extractor"]["chunk_length"] = 2
    file.write_text(json.dumps(settings))
    model = txexport.load(relist(tmp_path / "out"), device="cpu", threads=1)
    with pytest.raises(InputError, match=r"a spectrogram is \(11, 200\), expected \(11, 100\)"):
        model.generate(MARK, audio=A)


def test_a_model_of_texts_alone_reads_no_sounds(checkpoint_of, tmp_path):
    txexport.export(checkpoint_of("qwen2"), tmp_path / "out", only="native")
    model = txexport.load(tmp_path / "out", device="cpu", threads=1)
    with pytest.raises(InputError, match=r"sounds are given, and .* reads text alone; leave them out"):
        model.generate("the cat", audio=A)


def test_a_model_whose_prompt_is_a_sound_takes_no_others(checkpoint_of, tmp_path):
    txexport.export(checkpoint_of("whisper"), tmp_path / "out", only="native")
    model = txexport.load(tmp_path / "out", device="cpu", threads=1)
    for answers in (model.generate, lambda *args, **options: list(model.stream(*args, **options))):
        with pytest.raises(InputError, match=r"sounds are given, and .* reads a sound as a prompt; leave"):
            answers(A, audio=[C])
