"""The page of examples/browser, in Chromium with the shipped models, shows transformers' results."""

import json
import subprocess
import sys

import pytest
import torch
import transformers
from helpers import chromium
from helpers.project import ROOT

from txexport.exporter import export
from txexport.verification.clients.transformers_js import PACKAGE
from txexport.verification.runtimes import npm, web

EXAMPLE, MODELS = ROOT / "examples/browser", ("number-translator", "python-completer")
MODULES = npm.find(PACKAGE)
WHY = chromium.MISSING or npm.missing(PACKAGE)
pytestmark = pytest.mark.skipif(WHY is not None, reason=str(WHY))
READY = "document.querySelectorAll('button.main:enabled').length === 2"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The URL where serve.py shows the page with freshly exported bundles."""
    bundles = tmp_path_factory.mktemp("bundles")
    for model in MODELS:
        export(ROOT / "models/pretrained" / model, bundles / model, client="web")
    command = [sys.executable, str(EXAMPLE / "serve.py"), str(bundles), "--port", "0"]
    command += ["--modules", str(MODULES.parents[1])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.fixture(scope="module")
def page(url):
    """The page, once both models are loaded and the first number is translated."""
    with chromium.chromium() as page:
        page.open(url)
        page.until(READY)
        page.until("document.querySelector('.french .made').textContent && !document.querySelector('.going')")
        yield page
        assert page.errors == []


def model_of(name: str):
    """The tokenizer and the model in transformers."""
    folder = ROOT / "models/pretrained" / name
    kind = "MarianMTModel" if name == "number-translator" else "LlamaForCausalLM"
    model = getattr(transformers, kind).from_pretrained(folder, dtype=torch.float32).eval()
    return transformers.PreTrainedTokenizerFast.from_pretrained(folder), model


def translated(page: chromium.Page, text: str) -> tuple[str, str]:
    """The page's translation of a number: English words and French ones."""
    page.value(
        f"document.querySelector('#number').value = {json.dumps(text)};"
        "document.querySelector('#translator form').requestSubmit()"
    )
    page.until("!document.querySelector('#translator .going')")
    shown = "['.english', '.french .made'].map((name) => document.querySelector(name).textContent)"
    english, french = page.value(shown)
    return english, french


def test_numbers_become_french(page):
    path = ROOT / "models/pretrained/number-translator/heldout.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[:4]]
    tokenizer, model = model_of("number-translator")
    for row in rows:
        tokens = model.generate(**tokenizer(row["english"], return_tensors="pt"), max_new_tokens=90)
        assert translated(page, row["english"])[1] == tokenizer.decode(tokens[0], skip_special_tokens=True)


@pytest.mark.parametrize(
    ("number", "english"),
    [
        ("0", "zero"),
        ("71", "seventy-one"),
        ("800", "eight hundred"),
        ("80,091", "eighty thousand and ninety-one"),
        ("1,496,015", "one million, four hundred and ninety-six thousand and fifteen"),
        ("200,000,119", "two hundred million, one hundred and nineteen"),
    ],
)
def test_digits_are_read_as_the_model_was_taught(page, number, english):
    num2words = pytest.importorskip("num2words").num2words
    assert english == num2words(int(number.replace(",", "")))
    assert translated(page, number)[0] == english


def test_code_goes_on_token_by_token(page):
    tokenizer, model = model_of("python-completer")
    page.value(
        "globalThis.seen = new Set();"
        "new MutationObserver(() => seen.add(document.querySelector('.code .made').textContent)).observe("
        "document.querySelector('.code'), { childList: true, subtree: true, characterData: true });"
        "document.querySelector('#completer form').requestSubmit()"
    )
    page.until("!document.querySelector('#completer .going')")
    code, made, seen = page.value(
        "[document.querySelector('#code').value, document.querySelector('.code .made').textContent,"
        " [...seen]]"
    )
    inputs = tokenizer(code, return_tensors="pt", add_special_tokens=False)
    tokens = model.generate(**inputs, max_new_tokens=48, do_sample=False)[0, inputs["input_ids"].shape[1] :]
    assert made == tokenizer.decode(tokens, skip_special_tokens=True)
    assert len(seen) > len(tokens) / 2
    assert all(made.startswith(text.rstrip("�")) for text in seen)
    assert "tokens" in page.value("document.querySelector('#completer .state').textContent")


def test_generation_can_be_stopped(page):
    page.value("document.querySelector('#completer form').requestSubmit()")
    page.until("document.querySelector('.code .made').textContent")
    page.value("document.querySelector('.stop').click()")
    page.until("!document.querySelector('#completer .going')")
    count = page.value("parseInt(document.querySelector('#completer .state').textContent)")
    assert 0 < count < 48


def test_sizes_are_those_of_the_files(page):
    rows = page.value(
        "Object.fromEntries([...document.querySelectorAll('#sizes tr')].map((row) =>"
        "[row.cells[0].textContent, parseFloat(row.cells[1].textContent)]))"
    )
    assert set(rows) == {*MODELS, "ONNX Runtime", "transformers.js", "together"}
    runtime = (MODULES.parents[1] / "onnxruntime-web/dist/ort-wasm-simd-threaded.wasm").stat().st_size
    assert rows["ONNX Runtime"] == pytest.approx(runtime / 1e6, abs=0.2)
    assert rows["python-completer"] == pytest.approx(2_755_008 * 4 / 1e6, rel=0.2)
    assert rows["together"] == pytest.approx(sum(rows.values()) - rows["together"], abs=0.3)


@pytest.mark.parametrize(
    ("gpu", "where"),
    [
        (web.SOFTWARE_GPU, "on the GPU, which answers as the processor does"),
        (web.NO_GPU, "on the processor: there is no GPU for WebGPU"),
    ],
    ids=["adapter", "none"],
)
def test_the_gpu_is_asked_first_and_otherwise_the_processor_computes(gpu, where, url):
    with chromium.chromium(gpu) as page:
        page.open(f"{url}?device=webgpu")
        page.until(READY, 300)
        assert page.until("document.querySelector('.french .made').textContent")
        ready = "document.querySelector('#completer .state').textContent"
        assert page.until(f"{ready}.startsWith('ready') && {ready}", 300).endswith(where)
        assert page.errors == []


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_page_fits_its_window(width, url):
    with chromium.chromium() as page:
        page.open(url, width)
        page.until(READY)
        assert page.value("document.documentElement.scrollWidth") == width
        assert page.errors == []
