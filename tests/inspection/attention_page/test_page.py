"""The page of attention weights in Chromium: rendering, touch and keyboard, on a desktop and a phone."""

import json

import numpy as np
import pytest
from helpers import chromium

from txexport.inspection.attention_page import render

pytestmark = pytest.mark.skipif(chromium.MISSING is not None, reason=str(chromium.MISSING))
TOKENS = ["Use", " it", "</script><script>throw 1</script>", "\n", "<b>&amp;", "e\u202end"]
SOURCE = ["four", "hundred", "</s>"]
HOSTILE = 'a </script><img src=x onerror="throw 2"> & "b"'


def softmax(*shape: int) -> list:
    numbers = np.exp(2 * np.random.default_rng(sum(shape)).standard_normal(shape))
    return np.round(numbers / numbers.sum(axis=-1, keepdims=True), 5).tolist()


def attention(name: str, queries: list[str], keys: list[str]) -> dict:
    return {"name": name, "queries": queries, "keys": keys, "weights": softmax(3, 4, len(queries), len(keys))}


OWN = {"model": "bert", "task": HOSTILE, "text": HOSTILE, "maps": [attention("attentions", TOKENS, TOKENS)]}
BOTH = {
    "model": "marian",
    "task": "text2text-generation",
    "text": "four hundred",
    "maps": [attention("encoder_attentions", SOURCE, SOURCE), attention("cross_attentions", TOKENS, SOURCE)],
}
ASKING = "[...document.querySelectorAll('button.token')]"
ANSWERING = "[...document.querySelectorAll('span.token')]"


@pytest.fixture(scope="module")
def browser():
    with chromium.chromium() as page:
        yield page


@pytest.fixture
def opened(browser, tmp_path):
    """A function that shows a document."""

    def show(document: dict, width: int = 1280, dark: bool = False):
        file = tmp_path / "page.html"
        file.write_text(render(document), encoding="utf-8")
        browser.errors.clear()
        browser.open(file.as_uri(), width, 900, dark)
        browser.until(f"document.readyState === 'complete' && {ASKING}.length > 0", 20)
        return browser

    yield show
    assert browser.errors == []


def shown(page) -> list[str]:
    return page.value(f"{ANSWERING}.map((one) => one.querySelector('small').textContent)")


def percents(row: np.ndarray) -> list[str]:
    return [f"{100 * one:.{1 if one < 0.0995 else 0}f}%" for one in row]


def test_tokens_stay_text(opened):
    page = opened(OWN)
    assert page.value(f"{ASKING}.map((one) => one.textContent)") == [
        "Use",
        "it",
        TOKENS[2],
        "⏎",
        "<b>&amp;",
        "e\ufffdnd",
    ]
    assert page.value("document.querySelector('h1').textContent") == HOSTILE
    assert page.value("document.querySelectorAll('img, b').length") == 0


def test_a_token_that_is_touched_or_focused_lights_up_what_it_attends_to(opened):
    page = opened(OWN)
    mean = np.array(OWN["maps"][0]["weights"])[0].mean(axis=0)
    assert shown(page) == percents(mean[0])
    page.value(f"{ASKING}[2].focus()")
    assert shown(page) == percents(mean[2])
    shades = page.value(f"{ANSWERING}.map((one) => Number(one.style.getPropertyValue('--weight')))")
    assert shades == pytest.approx(np.sqrt(mean[2]), abs=1e-3)
    page.value(f"{ASKING}[4].dispatchEvent(new PointerEvent('pointerenter'))")
    assert shown(page) == percents(mean[4])
    assert page.value(f"{ASKING}.map((one) => one.getAttribute('aria-pressed')).indexOf('true')") == 4


def test_keys_walk(opened):
    page = opened(OWN)
    page.value(f"{ASKING}[0].focus()")
    press = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true}))"
    for key, place in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 5), ("Home", 0)):
        page.value(press % key)
        assert page.value(f"{ASKING}.indexOf(document.activeElement)") == place
    assert page.value(f"{ASKING}.filter((one) => one.tabIndex === 0).length") == 1


def test_heads_and_layers_are_chosen(opened):
    page = opened(OWN)
    weights = np.array(OWN["maps"][0]["weights"])
    assert page.value("document.querySelectorAll('.head').length") == 4
    assert page.value("document.querySelectorAll('.small').length") == 12
    page.value("document.querySelector('[aria-label=\"layer 3, head 2\"]').click()")
    assert shown(page) == percents(weights[2, 1, 0])
    assert page.value("[...document.querySelectorAll('.bar select')].map((one) => one.value)") == ["2", "1"]
    page.value("document.querySelectorAll('.head')[3].click()")
    assert shown(page) == percents(weights[2, 3, 0])
    title = page.value("document.querySelectorAll('.matrix tbody td')[7].title")
    assert title == f"it → it: {percents(weights[2, 3, 1])[1]}"


def test_pictures_are_of_the_weights(opened):
    """A canvas has a dot per weight, darker for larger ones."""
    page = opened(OWN)
    read = "document.querySelectorAll('.head canvas')[1].getContext('2d').getImageData(0, 0, 6, 6).data"
    alpha = np.array(page.value(f"[...{read}].filter((_, i) => i % 4 === 3)")).reshape(6, 6)
    expected = 255 * np.sqrt(np.array(OWN["maps"][0]["weights"])[0, 1])
    assert np.abs(alpha - expected).max() <= 1


def test_an_alignment_has_rows_of_one_text_and_columns_of_another(opened):
    page = opened(BOTH)
    average = np.array(BOTH["maps"][1]["weights"]).mean(axis=(0, 1))
    assert shown(page) == percents(average[0])
    heads = "[...document.querySelectorAll('.matrix %s')].map((one) => one.textContent)"
    assert page.value(heads % "thead th") == SOURCE
    assert len(page.value(heads % "tbody th")) == len(TOKENS)
    page.value(
        "document.querySelectorAll('.matrix tbody tr')[3].dispatchEvent(new PointerEvent('pointerenter'))"
    )
    assert shown(page) == percents(average[3])
    page.value(
        "{ const one = document.querySelector('.bar select'); one.value = '1';"
        " one.dispatchEvent(new Event('change')); }"
    )
    own = np.array(BOTH["maps"][0]["weights"])[0].mean(axis=0)
    assert shown(page) == percents(own[0])
    assert page.value(f"{ASKING}.map((one) => one.textContent)") == SOURCE


@pytest.mark.parametrize("document", [OWN, BOTH], ids=["own", "both"])
def test_a_phone_shows_it_whole(document, opened):
    page = opened(document, width=390)
    assert page.value("document.documentElement.scrollWidth") <= 390
    sizes = page.value(f"{ASKING}.map((one) => one.getBoundingClientRect().height)")
    assert min(sizes) >= 36  # a finger's


def test_dark_is_dark(opened):
    light = opened(OWN).value("getComputedStyle(document.body).backgroundColor")
    dark = opened(OWN, dark=True).value("getComputedStyle(document.body).backgroundColor")
    assert light == "rgb(255, 255, 255)"
    assert dark == "rgb(20, 23, 28)"


def test_everything_has_a_name(opened):
    page = opened(BOTH)
    unnamed = "[...document.querySelectorAll('button, [role=region], [role=group]')]"
    unnamed += ".filter((one) => !(one.getAttribute('aria-label') || one.textContent.trim())).length"
    assert page.value(unnamed) == 0
    assert page.value("[...document.querySelectorAll('select')].every((one) => one.labels.length)")


def test_it_asks_for_nothing():
    """One file: without URLs, and with a policy that allows none."""
    text = render(OWN)
    assert "http://" not in text
    assert "https://" not in text
    assert "default-src 'none'" in text
    assert len(text) - len(json.dumps(OWN)) < 30_000
