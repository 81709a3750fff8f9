"""Images in chat completions: bytes that the request holds, and nothing that would have to be fetched."""

import base64

import httpx
import openai
import pytest
from helpers import pictured
from helpers.pictured import encoded, picture
from helpers.serving import running

from txexport.exporter import export
from txexport.server.served import Limits

LIMITS = Limits(
    cache_tokens=4096, max_new_tokens=50, max_waiting=9, max_body=30_000, timeout=60, max_text=3_000
)
IMAGES = [picture(31, 40), picture(64, 20)]


def url(image, kind="png"):
    data = image if isinstance(image, bytes) else encoded(image)
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def user(*parts):
    content = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": url(part)}}
        for part in parts
    ]
    return [{"role": "user", "content": content}]


def with_url(address):
    return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": address}}]}]


@pytest.fixture(scope="module")
def seeing(tmp_path_factory, folders):
    """The address of a server of a model that reads images and one that does not, and the first."""
    root = tmp_path_factory.mktemp("seeing")
    pictured.save(root / "checkpoint")
    export(root / "checkpoint", root / "llava", only="native")
    with running({"llava": root / "llava", "chatter": folders["chatter"]}, LIMITS) as (address, served):
        yield address, served["llava"].model


@pytest.fixture(scope="module")
def completions(seeing):
    return openai.OpenAI(base_url=f"{seeing[0]}/v1", api_key="any", max_retries=0).chat.completions


def test_answers_are_those_of_the_model(seeing, completions):
    _, model = seeing
    first, second = IMAGES
    for parts in ((first, "the cat?"), ("on", first, "and", second), ("no image",)):
        content = [
            {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "image": part}
            for part in parts
        ]
        options = {"max_tokens": 9, "temperature": 0}
        expected = model.chat([{"role": "user", "content": content}], max_new_tokens=9, do_sample=False)
        answer = completions.create(model="llava", messages=user(*parts), **options)
        assert answer.choices[0].message.content == expected
        chunks = completions.create(model="llava", messages=user(*parts), stream=True, **options)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == expected
    vectors = 16
    assert completions.create(model="llava", messages=user(first), max_tokens=1).usage.prompt_tokens > vectors


def test_an_exchanged_image_is_never_taken_for_the_one_before(seeing, completions):
    """The server keeps prefixes of prompts for all requests."""
    _, model = seeing
    for image in (*IMAGES, *IMAGES, IMAGES[0]):
        messages = [{"role": "user", "content": [{"type": "image", "image": image}]}]
        answer = completions.create(model="llava", messages=user(image), max_tokens=9, temperature=0)
        expected = model.chat(messages, max_new_tokens=9, do_sample=False)
        assert answer.choices[0].message.content == expected


WRONG = [
    (with_url("https://example.org/a.png"), "expected a data URL; this server fetches nothing"),
    (with_url(url(b"no image at all")), "image"),
    (with_url("data:image/png;base64,@@"), "an image is not valid base64"),
    (with_url("data:text/plain,abc"), "expected a data URL in base64"),
    (with_url(None), "expected a data URL"),
    ([{"role": "user", "content": [{"type": "image_url"}]}], "expected a data URL"),
    ([{"role": "user", "content": [{"type": "input_audio"}]}], "expected text or image_url"),
    (user(IMAGES[0], "<image>"), "a prompt has <image> 2 times, expected 1"),
    (user(*[picture(2, 2)] * 30), "an input of 528 tokens is longer than the model's 400"),
]


@pytest.mark.parametrize(("messages", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_no_image_is_refused_in_one_line(messages, message, seeing):
    answer = httpx.post(f"{seeing[0]}/v1/chat/completions", json={"model": "llava", "messages": messages})
    assert answer.status_code == 400, answer.text
    text = answer.json()["error"]["message"]
    assert message in text
    assert answer.json()["error"]["param"] == "messages"
    assert "\n" not in text


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (["AAAA"], "image images[0] cannot be read: it is in no format that Pillow knows"),
        ("@@", "images[0] is not valid base64; send its bytes in base64"),
    ],
)
def test_a_task_names_the_image_that_it_cannot_read(images, message, seeing):
    body = {"model": "llava", "images": images, "question": "What is it?"}
    answer = httpx.post(f"{seeing[0]}/v1/tasks/ask_image", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == message
    assert answer.json()["error"]["param"] == "images"


def test_methods_are_those_that_are_served(seeing):
    [llava, _] = httpx.get(f"{seeing[0]}/v1/models").json()["data"]
    assert llava["methods"] == ["generate", "ask_image", "chat"]


def test_an_image_in_a_file_of_the_server_is_not_read(seeing, tmp_path):
    """A valid one, which reading it would not refuse."""
    path = tmp_path / "secret.png"
    IMAGES[0].save(path)
    native = [{"role": "user", "content": [{"type": "image", "image": str(path)}]}]
    for messages, message in (
        (with_url(path.as_uri()), "expected a data URL; this server fetches nothing"),
        (with_url(str(path)), "expected a data URL; this server fetches nothing"),
        (native, "expected text or image_url"),
    ):
        answer = httpx.post(f"{seeing[0]}/v1/chat/completions", json={"model": "llava", "messages": messages})
        assert answer.status_code == 400, answer.text
        assert message in answer.json()["error"]["message"]


def test_sizes_are_limited(seeing):
    """Images count towards the whole body alone, texts towards the limit of texts."""
    address = f"{seeing[0]}/v1/chat/completions"
    image = picture(40, 60)
    assert 3_000 < len(url(image)) < 30_000
    for messages, status, message in (
        (user(image, "the cat"), 200, ""),
        (user(picture(100, 100)), 413, "the body has more than 30,000 bytes"),
        (
            user(image, "the cat " * 500),
            413,
            "without its images and sounds, and this server reads 3,000",
        ),
        (
            user("the cat " * 500),
            413,
            "without its images and sounds, and this server reads 3,000",
        ),
    ):
        answer = httpx.post(address, json={"model": "llava", "messages": messages, "max_tokens": 1})
        assert answer.status_code == status, answer.text
        assert message in answer.text


def test_a_model_of_text_refuses_images(completions):
    with pytest.raises(openai.BadRequestError, match='a message\'s part is "image_url", expected text only'):
        completions.create(model="chatter", messages=user(IMAGES[0], "x"))
