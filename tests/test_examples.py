"""The examples do what they say."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from txexport.runtime import load

EXAMPLES = Path(__file__).parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES / "web"))
from service import service  # noqa: E402


@pytest.fixture
def model(bundle_of):
    return load(bundle_of("gpt2", "static"), device="cpu", threads=1)


def test_service_streams_and_answers(model):
    client = TestClient(service(model))
    asked = {"prompt": "the cat", "max_new_tokens": 12}
    with client.stream("POST", "/stream", json=asked) as response:
        pieces = list(response.iter_text())
    text = model.generate("the cat", max_new_tokens=12)
    assert response.status_code == 200
    assert "".join(pieces) == text
    asked = {"prompts": ["the cat", "a dog"], "max_new_tokens": 12, "num_beams": 2}
    expected = model.generate(["the cat", "a dog"], max_new_tokens=12, num_beams=2)
    assert client.post("/generate", json=asked).json() == {"texts": expected}


@pytest.mark.parametrize(
    ("path", "asked", "said"),
    [
        ("/stream", {"prompt": "the cat", "num_beam": 2}, "no option 'num_beam'"),
        ("/generate", {"prompts": [3]}, "a text is int, expected str"),
        ("/generate", {"prompts": ["a"], "max_new_tokens": 10_000}, "expected at most 512"),
        ("/generate", [1], "no JSON object"),
    ],
)
def test_service_refuses_in_one_line(path, asked, said, model):
    response = TestClient(service(model)).post(path, json=asked)
    assert response.status_code == 400
    assert said in response.text
    assert response.text.count("\n") == 1


def node_runtime() -> bool:
    """Whether Node is there with onnxruntime-node beside the example."""
    return shutil.which("node") is not None and (EXAMPLES / "node/node_modules/onnxruntime-node").is_dir()


@pytest.mark.skipif(not node_runtime(), reason="needs Node and `npm install` in examples/node")
@pytest.mark.parametrize("cache", ["dynamic"])
def test_node_generates_the_same_tokens(cache, bundle_of):
    folder = bundle_of("gpt2", cache)
    command = ["node", str(EXAMPLES / "node/generate.mjs"), str(folder), "5,6,7", "10"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = load(folder, device="cpu").generate_ids([[5, 6, 7]], max_new_tokens=10, eos_token_id=None)
    assert [int(token) for token in done.stdout.split(",")] == expected[0]
