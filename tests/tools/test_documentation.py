"""The documentation builds from its sources: links hold, and referenced code exists."""

import functools
import re
import shlex
import shutil
import threading
from dataclasses import fields
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import pytest
from documentation import api, figures, layout, pages
from documentation.__main__ import build
from documentation.mathematics import Mathematics
from documentation.meanings import meaning, of_command
from documentation.sources import DocumentError, source
from helpers.chromium import MISSING, chromium
from helpers.documents import blocks
from helpers.project import ROOT
from markdown import Markdown

from txexport.cli.main import main
from txexport.contracts.stage import GraphFacts

DOCS = ROOT / "docs"
pytestmark = pytest.mark.xdist_group("documentation")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built pages; the build fails on any warning, such as a dead link."""
    folder = tmp_path_factory.mktemp("documentation")
    build(folder)
    return folder / "site"


def test_every_page_is_built_and_in_the_navigation(site):
    names = {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")}
    assert {name for name in names if not (site / f"{name}.html").is_file()} == set()
    listed = re.findall(r'"([\w/-]+)\.md"', (DOCS / "zensical.toml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(names)


def test_pages_need_nothing_from_elsewhere(site):
    """No script, font or style of another host: they are readable without a network."""
    for path in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|link|img)[^>]+(?:src|href)=\"?(https?:[^\"\s>]+)", path.read_text("utf-8")
        )
        assert [url for url in loaded if "canonical" not in url] == [], path


def test_nothing_is_left_as_it_was_written(site):
    """Neither directives nor dollar signs around formulas."""
    for path in site.rglob("*.html"):
        text = re.sub(r"<(pre|code|script)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"\{\{ \w+|\$\$|\$\\|&amp;lt;", text), path
        cells = re.findall(r"<td>.*?</td>", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert [cell for cell in cells if "\\|" in cell] == [], path
    assert (site / "transformer/attention.html").read_text(encoding="utf-8").count("<math") > 5


def copied(folder: Path, monkeypatch) -> Path:
    """The sources in a folder that a test may modify."""
    shutil.copytree(DOCS, folder / "docs")
    for module in ("documentation.pages", "documentation.__main__"):
        monkeypatch.setattr(f"{module}.DOCS", folder / "docs")
    return folder / "docs"


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (
            "[a](guides/nowhere.md) and [b](guides/export.md#no-such-part)",
            r"(?s)page does not exist\s.*quickstart.md.*anchor does not exist\s.*quickstart.md",
        ),
        (
            "{{ twin attention NoSuch }}",
            r"docs/quickstart.md: models/txmodels/attention.py has no NoSuch; it has",
        ),
        ("{{ sing }}", "no directive 'sing'; there are aliases, api"),
        ("{{ figure none }}", "no figure 'none'"),
        ("{{ api Model._secret }}", "Model._secret is not public"),
        ("{{ file no/such.txt }}", "there is no no/such.txt"),
    ],
)
def test_what_is_not_there_stops_the_build(added, message, tmp_path, monkeypatch):
    page = copied(tmp_path, monkeypatch) / "quickstart.md"
    page.write_text(page.read_text(encoding="utf-8") + f"\n{added}\n", encoding="utf-8")
    with pytest.raises(DocumentError, match=message):
        build(tmp_path / "built")


def directives(folder: str = "") -> list[list[str]]:
    texts = [path.read_text(encoding="utf-8") for path in (DOCS / folder).rglob("*.md")]
    return [[m.group(1), *m.group(2).split()] for text in texts for m in pages.LINE.finditer(text)]


def test_api_is_shown_whole_each_name_once():
    assert sorted(name for kind, *names in directives() if kind == "api" for name in names) == sorted(
        api.public()
    )


def test_signatures_and_errors_are_those_of_the_code():
    text = api.entry("load")
    assert "txexport.load(" in text
    assert '| `device` | `str | None` | `None` | `device` is "cpu", ' in text
    generates = api.entry("Model.ask_image")
    assert "| `images` | `Source | Sequence[Source]` | required | An image file, " in generates
    assert "| `batch_tokens` | `int` | `8192` | `batch_tokens` is the most tokens of a batch" in generates
    assert "[`BundleError`](errors.md#BundleError), [`InputError`](errors.md#InputError)" in text


def test_options_of_generation_are_all_there():
    rows = re.findall(r"^\| `(\w+)` \|", api.generation_options(), re.MULTILINE)
    assert rows == list(api.RULES)


def test_every_command_has_its_section(site):
    text = (site / "reference/commands.html").read_text(encoding="utf-8")
    for name in main.commands:
        assert f'id="{name}"' in text
    for section in main.sections:
        assert f">{section}<" in text
    assert "<td><code>BUNDLE</code></td>" in text
    assert "<td>The folder that <code>export</code> wrote.</td>" in text


def test_every_command_has_an_example_after_its_section():
    """Those that tests run have their output; the others at least have arguments and options that exist."""
    text = (DOCS / "reference/commands.md").read_text(encoding="utf-8")
    parts = text.split("{{ command ")[1:]
    assert [part.split()[0] for part in parts] == [name for names in main.sections.values() for name in names]
    assert [line[3:] for line in text.splitlines() if line[:3] == "## "][: len(main.sections)] == [
        *main.sections
    ]
    run = 0
    for part in parts:
        name = part.split()[0]
        [block] = [one for one in blocks(part.partition("\n## ")[0]) if f"txexport {name} " in one.text]
        run += block.runs
        if not block.runs:
            _, command, *arguments = shlex.split(block.text)
            parser = main.commands[command].make_parser(click.Context(main.commands[command]))
            parser.parse_args(arguments)
    assert run >= 19


def test_what_looks_like_a_tag_or_emphasis_is_shown(site):
    commands, python = (
        (site / f"reference/{name}.html").read_text(encoding="utf-8") for name in ("commands", "python")
    )
    assert "such as &lt;image&gt;; repeatable." in commands
    assert "such as '*.layers.0.*'; repeatable." in commands
    assert "such as &lt;image&gt;: one or a list" in " ".join(python.split())
    assert 'for example "*.layers.0.*", stay float32' in " ".join(python.split()).replace("&quot;", '"')


def test_an_argument_without_a_meaning_stops_the_build():
    def secret(page):
        """Read something. Raises nothing."""

    with pytest.raises(DocumentError, match=r"no docstring explains `page` of .*secret"):
        meaning("page", secret)
    with pytest.raises(DocumentError, match=r"does not tell what the argument SCROLLS\.\.\. is"):
        of_command("SCROLLS...")


def test_every_fact_of_a_graph_is_explained():
    text = (DOCS / "reference/bundle.md").read_text(encoding="utf-8")
    assert [one.name for one in fields(GraphFacts) if f"`{one.name}`" not in text] == []


def test_literature_shows_both_halves_of_every_component():
    """All files but those that combine other components, or that other components call."""
    shown = {arguments[0] for kind, *arguments in directives("transformer") if kind == "twin"}
    folder = ROOT / "models/txmodels"
    paths = [path for part in ("", "inputs", "heads") for path in (folder / part).glob("*.py")]
    files = {str(path.relative_to(folder).with_suffix("")) for path in paths if path.stem[0] != "_"}
    stacks = {"stack", "encoder_stack", "decoder_stack", "staged_stack"}
    composed = {"blocks", "heads/none", "heads/pick", "linear", "map_stack", "model", *stacks}
    assert files - shown == composed


def test_sources_are_quoted_as_they_stand():
    code = source(Path("models/txmodels/norm.py"), "Norm.forward")
    assert code.startswith("def forward(self, x: Tensor) -> Tensor:\n    ")
    assert code in "\n".join(
        line.removeprefix("    ") for line in (ROOT / "models/txmodels/norm.py").read_text().splitlines()
    )


def test_formulas_become_mathml_and_prices_do_not():
    convert = Markdown(extensions=[Mathematics(), "pymdownx.superfences"]).convert
    assert "<math" in convert("so $x_i^2$ is")
    assert "<math" not in convert("it costs $5 and $6, or `$x$`")
    assert '<div class="formula"><math' in convert("$$\nx\n$$")
    assert "<math" not in convert("```\n$$\nx\n$$\n```")


def test_packages_stand_above_what_they_import():
    imports = layout.allowed()
    rows = layout.levels(imports)
    heights = {name: number for number, row in enumerate(rows) for name in row}
    assert len(heights) > 15
    assert all(heights[area] > heights[name] for area, names in imports.items() for name in names)


@pytest.mark.parametrize("name", figures.FIGURES)
def test_drawings_stay_on_their_sheets(name):
    """Every point of a drawing is within its width and height."""
    drawing = figures.FIGURES[name]()
    html = drawing.html
    assert f'viewBox="0 0 {drawing.width:g} {drawing.height:g}"' in html
    points = [
        tuple(map(float, pair.split(",")))
        for path in re.findall(r'points="([^"]+)"', html)
        for pair in path.split()
    ]
    points += [tuple(map(float, m)) for m in re.findall(r'<(?:rect|text) x="([^"]+)" y="([^"]+)"', html)]
    assert len(points) > 5
    assert all(0 <= x <= drawing.width and 0 <= y <= drawing.height for x, y in points)


@pytest.fixture(scope="module")
def address(site):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_pages_fit_a_telephone_and_a_desk(address):
    """Nothing is wider than the window, and no script fails."""
    names = ("index", "transformer/attention", "reference/families", "reference/python", "architecture")
    names += ("reference/commands", "reference/bundle")
    with chromium() as page:
        for width in (390, 1280):
            for name in names:
                page.open(f"{address}/{name}.html", width=width)
                page.until("document.readyState === 'complete' && document.querySelector('h1') !== null")
                assert page.value("document.documentElement.scrollWidth") <= width, (name, width)
        assert page.errors == []
