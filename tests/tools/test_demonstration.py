"""The demonstration: its scenes run as they are, and its page shows what they printed, by itself."""

import re
import shutil

import pytest
from demonstration import scenes
from demonstration.__main__ import demonstrate
from demonstration.page import Message, Run, Step, page
from helpers.chromium import MISSING, chromium
from helpers.project import ROOT

SCENE = {scene.name: scene for scene in scenes.SCENES}


def ran(name: str, verdict: str = "demo/a: equal to twin", **more) -> Run:
    steps = [
        Step("txexport export", "demo/a"),
        Step("txexport verify", f"{verdict}\nx"),
        Step("run", "one <two>\n"),
    ]
    return Run(SCENE[name], steps, f"reports/{name}.html", 3.2, **more)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the picture that a scene draws; the checkout is the current one."""
    monkeypatch.chdir(ROOT)
    shutil.copy(ROOT / "tests/data/pages/page.png", tmp_path / "page-found.png")
    return tmp_path


def test_the_page_holds_its_pictures_and_sounds_and_links_to_each_report(folder):
    chat = [Message("user", "Hello & goodbye"), Message("assistant", "<tool_call>")]
    html = page([ran("listener"), ran("finder"), ran("reader"), ran("chat", messages=chat)], folder)
    assert "4 of 4 models: equal" in html
    sources = re.findall(r'src="([^"]{0,22})', html)
    assert sources == ["data:audio/wav;base64,", *["data:image/png;base64,"] * 2]
    links = set(re.findall(r'href="([^"#]+)"', html))
    assert links == {f"reports/{name}.html" for name in ("listener", "finder", "reader", "chat")}
    assert html.count("<blockquote>one &lt;two&gt;</blockquote>") == 2
    assert '<li class="user"><b>user</b>Hello &amp; goodbye</li>' in html
    assert '<li class="assistant"><b>assistant</b>&lt;tool_call&gt;</li>' in html
    assert "not equal" not in html


def test_a_verdict_that_is_not_equal_is_shown_as_such(folder):
    html = page(
        [ran("translator"), ran("tagger", "demo/tagger: NOT equal to twin: 1 of 9 cases failed")], folder
    )
    assert "1 of 2 models: equal" in html
    assert html.count('<span class="badge fail">not equal</span>') == 2  # in the table and in its section


@pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_its_window(width, dark, folder):
    """Commands and their outputs are wrapped, however long."""
    chat = [Message("user", "word " * 60), Message("tool", "x" * 300)]
    (folder / "index.html").write_text(
        page(
            [ran("finder"), ran("encoder", "demo/a: equal to " + "y z" * 200), ran("chat", messages=chat)],
            folder,
        )
    )
    with chromium() as browser:
        browser.open((folder / "index.html").as_uri(), width=width, dark=dark)
        browser.until("document.readyState == 'complete' && document.images.length > 0")
        assert browser.value("document.documentElement.scrollWidth") <= width
        blocks = "[...document.querySelectorAll('details[open] pre')]"
        assert browser.value(f"{blocks}.every(one => one.scrollWidth <= one.clientWidth)")
        assert browser.value(f"{blocks}.length") > 0
        assert browser.value("document.images[0].decode().then(() => document.images[0].naturalWidth)") > 100
        assert browser.errors == []


def test_a_scene_is_exported_proved_and_run(tmp_path, monkeypatch, capsys):
    """With the checkpoints of this repository; the output is what the commands print."""
    monkeypatch.chdir(ROOT)
    demonstrate([SCENE["translator"]], tmp_path)
    html = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "1 of 1 models: equal" in html
    assert "quatre cent quatre-vingt-sept mille quatre-vingt-onze" in html
    assert (tmp_path / "reports/translator.html").is_file()
    printed = capsys.readouterr().out
    assert "\n$ txexport generate " in printed
    assert "all equal to their originals" in printed
