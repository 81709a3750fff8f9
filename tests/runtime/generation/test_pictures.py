"""Prompts with images give the tokens of transformers' processor and model."""

import base64
import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers import pictured
from helpers.pictured import encoded, picture

import txexport
from txexport.cli.main import main
from txexport.errors import BundleError, InputError
from txexport.runtime.generation import image_memory

CACHES = ["static", "dynamic"]
GREEDY = {"max_new_tokens": 10, "do_sample": False}
IMAGES = [picture(*size) for size in [(31, 40), (64, 20), (25, 25), (100, 77), (24, 24), (13, 57), (1, 1)]]
A, B, C, D, E, F, DOT = IMAGES


def user(*content):
    parts = [
        {"type": "text", "text": one} if isinstance(one, str) else {"type": "image", "image": one}
        for one in content
    ]
    return {"role": "user", "content": parts}


def assistant(text):
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


CONVERSATIONS = {
    "no image": [user("hello there")],
    "text that is no list": [{"role": "user", "content": "the cat"}],
    "one image": [user(A, "the cat?")],
    "an image at the end": [user("who sat on", B)],
    "two images in one message": [user(C, "on", D, "the mat")],
    "three images side by side": [user(E, F, A)],
    "an image of one pixel": [user(DOT)],
    "an image in each turn": [user(A, "a cat"), assistant("on the mat"), user(B, "and here?")],
    "an image in the first turn": [user("see", F), assistant("dog"), user("no, the other one")],
    "one image twice": [user(A, "or", A)],
}
PROMPTS = ["<image>the cat sat", "the dog", "on <image>and<image> the mat", "the rug: <image>"]
OF_PROMPTS = [A, None, [B, C], [D]]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llava")
    pictured.save(folder)
    return folder


@pytest.fixture(scope="module", params=CACHES)
def model(request, checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle") / "out"
    txexport.export(checkpoint, folder, cache=request.param, only="native")
    return txexport.load(folder, device="cpu", threads=1)


@pytest.fixture(scope="module")
def original(checkpoint):
    """A function from inputs of the library's processor and options to new text."""
    processor = transformers.AutoProcessor.from_pretrained(checkpoint)
    network = transformers.AutoModelForImageTextToText.from_pretrained(checkpoint).eval()

    @torch.no_grad()
    def answer(inputs, **options):
        tokens = network.generate(**inputs, **options)[:, inputs["input_ids"].shape[1] :]
        return processor.batch_decode(tokens, skip_special_tokens=True)

    answer.processor, answer.network = processor, network
    return answer


def templated(original, messages):
    options = {"add_generation_prompt": True, "tokenize": True, "return_dict": True, "return_tensors": "pt"}
    return original.processor.apply_chat_template(messages, **options)


def of_prompt(original, number):
    images = OF_PROMPTS[number]
    return original.processor(images=images, text=[PROMPTS[number]], return_tensors="pt")


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_answers_equal_transformers(name, model, original):
    messages = CONVERSATIONS[name]
    inputs = templated(original, messages)
    [expected] = original(inputs, **GREEDY)
    assert model.chat(messages, **GREEDY) == expected
    assert "".join(model.stream_chat(messages, **GREEDY)) == expected
    beams = {"max_new_tokens": 8, "num_beams": 3, "do_sample": False}
    assert model.chat(messages, **beams) == original(inputs, **beams)[0]


def test_answers_depend_on_the_images(model):
    prompt = "<image>the cat sat"
    assert len({model.generate(prompt, images=image, **GREEDY) for image in IMAGES}) > 4


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"batch_tokens": 60}], ids=str)
def test_ragged_batches_equal_each_prompt(options, model, original):
    apart = {name: value for name, value in options.items() if name != "batch_tokens"}
    expected = [original(of_prompt(original, n), **GREEDY, **apart)[0] for n in range(len(PROMPTS))]
    assert model.generate(PROMPTS, images=OF_PROMPTS, **GREEDY, **options) == expected
    pieces = [""] * len(PROMPTS)
    if not apart:
        for place, piece in model.stream_many(PROMPTS, images=OF_PROMPTS, **GREEDY, **options):
            pieces[place] += piece
        assert pieces == expected


def test_samples_depend_on_the_seed_alone(model):
    options = {"max_new_tokens": 10, "do_sample": True, "temperature": 2.0, "top_k": 50}
    texts = [model.generate(PROMPTS, images=OF_PROMPTS, seed=seed, **options) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    greedy = model.generate(PROMPTS, images=OF_PROMPTS, **GREEDY)
    assert model.generate(PROMPTS, images=OF_PROMPTS, **options | {"top_k": 1}) == greedy


def test_drafts_change_no_token(model):
    expected = model.generate(PROMPTS, images=OF_PROMPTS, **GREEDY)
    assert model.generate(PROMPTS, images=OF_PROMPTS, prompt_lookup_num_tokens=3, **GREEDY) == expected


@pytest.mark.parametrize("kind", ["path", "text", "bytes", "pillow", "array", "data URL"])
def test_an_image_is_read_in_every_form(kind, model, tmp_path):
    data, path = encoded(D), tmp_path / "image.png"
    path.write_bytes(data)
    image = {
        "path": path,
        "text": str(path),
        "bytes": data,
        "pillow": D,
        "array": np.asarray(D),
        "data URL": f"data:image/png;base64,{base64.b64encode(data).decode()}",
    }[kind]
    expected = model.generate("<image>the cat", images=D, **GREEDY)
    assert model.generate("<image>the cat", images=image, **GREEDY) == expected
    assert "".join(model.stream("<image>the cat", images=[image], **GREEDY)) == expected
    messages = [{"role": "user", "content": [{"type": "image", "image": image}]}]
    assert model.chat(messages, **GREEDY) == model.chat([user(D)], **GREEDY)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "base64": "DATA"},
        {"type": "image", "url": "URL"},
        {"type": "image_url", "image_url": {"url": "URL"}},
        {"type": "image_url", "image_url": "URL"},
    ],
    ids=str,
)
def test_parts_of_other_libraries_are_read(part, model):
    data = base64.b64encode(encoded(D)).decode()
    part = json.loads(json.dumps(part).replace("URL", f"data:image/png;base64,{data}").replace("DATA", data))
    expected = model.chat([user(D, "x")], **GREEDY)
    assert (
        model.chat([{"role": "user", "content": [part, {"type": "text", "text": "x"}]}], **GREEDY) == expected
    )


def test_a_session_never_takes_another_image_for_one_that_it_knows(model, read):
    """Exchanged images, and one that differs in a single pixel, after a conversation about others."""
    session = model.session()
    pixels = np.array(E)  # 24 by 24 pixels, which no resizing blurs
    near = pixels.copy()
    near[-1, -1, -1] ^= 1
    for first, second in ((pixels, C), (C, pixels), (near, C), (pixels, C), (pixels, F)):
        messages = [user(first, "the cat", second, "on")]
        assert session.chat(messages, **GREEDY) == model.chat(messages, **GREEDY)
    messages = [user(pixels, "the cat", F, "on")]
    read.clear()
    session.chat(messages, max_new_tokens=1)
    assert read == [1]


def test_turns_of_a_session_read_what_is_new(model, original, read):
    session, messages = model.session(), [user(A, "the cat?")]
    for image in (B, C):
        answer = session.chat(messages, **GREEDY)
        assert answer == original(templated(original, messages), **GREEDY)[0]
        messages = [*messages, assistant(answer), user(image, "and")]
    read.clear()
    session.chat(messages, max_new_tokens=1)
    assert 0 < read[0] < 60  # the last turn has 16 vectors of an image


def test_a_generated_token_of_images_has_its_own_vector(model, original):
    """It stands for no image: the model reads it as any other token."""
    token = original.network.config.image_token_id

    def first(row, scores, prompt):
        if len(row) == prompt:
            scores[...] = -np.inf
            scores[..., token] = 0
        return scores

    class Forced(transformers.LogitsProcessor):
        def __call__(self, input_ids, scores):
            if input_ids.shape[1] == length:
                return torch.full_like(scores, -torch.inf).index_fill_(1, torch.tensor([token]), 0)
            return scores

    inputs = of_prompt(original, 0)
    length = inputs["input_ids"].shape[1]
    with torch.no_grad():
        expected = original.network.generate(**inputs, **GREEDY, logits_processor=[Forced()])[0, length:]

    def forced(tokens, scores):
        return np.stack([first(row, one, length) for row, one in zip(tokens, scores.copy(), strict=True)])

    ids = inputs["input_ids"].tolist()
    rows = model.generate_ids(ids, images=[A], logits_processor=forced, **GREEDY)
    assert rows == [expected.tolist()]
    assert rows[0][0] == token


def test_vectors_of_the_last_images_stay_up_to_a_size(model, monkeypatch):
    features = model.bundle.image_features
    features.clear()
    model.generate("<image>", images=picture(24, 24, 0), max_new_tokens=1)
    [first] = features.items()
    monkeypatch.setattr(image_memory, "MOST_BYTES", 5 * first[1].nbytes)
    for seed in (1, 2, 3, 4):
        model.generate("<image>", images=picture(24, 24, seed), max_new_tokens=1)
    assert len(features) == 5
    assert first[0] in features
    model.generate("<image>", images=picture(24, 24, 5), max_new_tokens=1)
    assert len(features) == 5
    assert first[0] not in features
    monkeypatch.setattr(image_memory, "MOST_BYTES", 1)
    last = list(features)[-3:]
    model.generate("<image>", images=picture(24, 24, 6), max_new_tokens=1)
    assert list(features)[:-1] == last  # the last ones, however large they are


MISTAKES = [
    ("the cat", {"images": A}, "a prompt has <image> 0 times, expected 1, one for each image"),
    ("<image><image>", {"images": A}, "a prompt has <image> 2 times, expected 1"),
    (["<image>", "cat"], {"images": [A]}, "expected a list with an entry for each of 2 prompts"),
    (["<image>"], {"images": A}, "expected a list with an entry for each of 1 prompts"),
    ("<image>", {"images": "https://example.org/a.png"}, "remote addresses are not read; fetch it first"),
    ("<image>", {"images": "data:image/png;base64,***"}, "an image is not valid base64"),
    ("<image>", {"images": "data:image/png,abc"}, "expected a data URL in base64"),
    ("<image>", {"images": b"no image"}, "image"),
    ("<image>", {"images": "no-such-file.png"}, "no-such-file.png"),
    ("<image>", {"images": 7}, "image"),
]


@pytest.mark.parametrize(("prompts", "options", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_one_line(prompts, options, message, model):
    with pytest.raises(InputError) as caught:
        model.generate(prompts, max_new_tokens=1, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"type": "image"}], "expected an image, as its path or its bytes"),
        ([{"type": "image", "url": "http://example.org/a.png"}], "remote addresses are not read"),
        ([{"type": "image", "base64": "?"}], "an image is not valid base64"),
        (
            [{"type": "text", "text": "<image>"}, {"type": "image", "image": A}],
            "a prompt has <image> 2 times",
        ),
    ],
    ids=["no image", "remote", "not base64", "twice"],
)
def test_a_mistake_in_a_message_is_one_line(content, message, model):
    with pytest.raises(InputError, match=message):
        model.chat([{"role": "user", "content": content}], max_new_tokens=1)


def test_ids_without_the_tokens_of_an_image_are_refused(model):
    token = model.bundle.image_token_id
    for row, message in (
        ([5, 6], "a prompt has 0 tokens for images, expected 16 for 1 image"),
        ([5, *[token] * 17], "a prompt has 17 tokens for images, expected 16"),
        ([token, 5, *[token] * 15], "the 16 tokens for image 1 of a prompt are not in one piece"),
    ):
        with pytest.raises(InputError, match=message):
            model.generate_ids([row], images=[A], max_new_tokens=1)


def test_a_model_of_text_refuses_images(bundle_of):
    text = txexport.load(bundle_of("gpt2", "static"), device="cpu", threads=1)
    with pytest.raises(InputError, match=r"reads text alone; leave them out"):
        text.generate("the cat", images=A, max_new_tokens=1)


def test_graphs_for_other_clients_alone_are_refused(checkpoint, tmp_path):
    txexport.export(checkpoint, tmp_path / "out", only="hub")
    assert txexport.verify(tmp_path / "out", cases="quick", reference="twin").ok
    with pytest.raises(BundleError, match="to run it, export without --only hub"):
        txexport.load(tmp_path / "out", device="cpu")


def test_a_command_reads_images(model, tmp_path):
    paths = [tmp_path / name for name in ("b.png", "c.png")]
    for path, image in zip(paths, (B, C), strict=True):
        image.save(path)
    prompt = "on <image>and<image> the mat"
    options = [part for path in paths for part in ("--image", str(path))]
    command = ["generate", str(model.folder), prompt, *options, "--max-new-tokens", "10"]
    result = CliRunner().invoke(main, command)
    assert (result.exit_code, result.exception) == (0, None), result.output
    assert result.output.strip() == model.generate(prompt, images=[B, C], **GREEDY).strip()
    for wrong, message in (
        ([*command[:2], "a", "b", *options], "--image needs a single prompt"),
        ([*command[:3], *options[:2]], "expected 1, one for each image"),
    ):
        result = CliRunner().invoke(main, wrong)
        assert result.exit_code == 2
        assert message in " ".join(result.output.split())


def test_a_tokenizer_without_the_token_is_refused(checkpoint, tmp_path):
    shutil.copytree(checkpoint, tmp_path / "in")
    config = json.loads((tmp_path / "in/config.json").read_text())
    (tmp_path / "in/config.json").write_text(json.dumps(config | {"image_token_index": 310}))
    txexport.export(tmp_path / "in", tmp_path / "out", only="native")
    with pytest.raises(BundleError, match=r"tokenizer\.json has no token 310"):
        txexport.load(tmp_path / "out", device="cpu").generate("<image>", images=A, max_new_tokens=1)
