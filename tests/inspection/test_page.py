"""The page of an inspection: its numbers are the inspection's, and it fits phones and desktops."""

import dataclasses
import re
import shutil

import pytest
import tiny_checkpoint
from click.testing import CliRunner
from helpers.chromium import MISSING, chromium
from helpers.pages import LAYOUT, OVERLAPS, Page, check_alone

import txexport
from txexport.cli.main import main
from txexport.formats import DTYPES
from txexport.inspection import drawing
from txexport.inspection.inspection import Inspection
from txexport.inspection.page import render

MODELS = ["bert", "gpt2", "t5", "mixtral", "clip", "whisper", "vit", "gemma2", "gptj", "dinov2", "longformer"]


def parts(found: Inspection) -> list:
    return [part for stack in found.parts for part in drawing.parts_of(stack)]


@pytest.mark.parametrize("model_type", tiny_checkpoint.FAMILIES)
def test_parts_add_up_to_what_is_counted(model_type, checkpoint_of):
    found = txexport.inspect(checkpoint_of(model_type), batch=3)
    assert sum(part.parameters for part in parts(found)) == found.parameters.total
    for stack in found.parts:
        work = found.prefill.get(stack.name) or found.step
        assert sum(part.operations for part in drawing.parts_of(stack)) == stack.operations == work.total
        layers = sorted(number for group in stack.groups for number in group.numbers)
        assert layers == list(range(found.spec.stacks[stack.name].num_layers))
    sizes = found.cache
    cache = 0 if sizes is None else sizes.total + sizes.cross_total + sizes.states
    assert sum(part.cache for part in parts(found)) == cache
    norms = sum(group.norms.parameters for stack in found.parts for group in stack.groups)
    without = model_type in (
        "nanochat",  # whose norms have no weights
        "detr",
        "table-transformer",
        "conditional_detr",
        "deformable_detr",
        "rt_detr",
        "rt_detr_v2",
        *("d_fine", "dab-detr", "lw_detr", "rf_detr"),
        *("resnet", "convnext", "convnextv2", "upernet"),
    )  # whose layers are no blocks
    assert norms <= found.parameters.components["norms"]
    assert (norms == 0) == without


@pytest.mark.parametrize("model_type", ["bert", "t5", "mixtral"])
def test_bytes_of_dtypes_are_those_of_a_bundle_in_them(model_type, checkpoint_of, integers_of):
    told = txexport.inspect(checkpoint_of(model_type)).weights.dtypes
    written = txexport.inspect(integers_of(model_type)).weights.dtypes
    assert told.keys() == {name for name, dtype in DTYPES.items() if not dtype.stored}
    assert written == {name: told[name] for name in ("int8", "int4")}


def test_costs_by_length_are_those_of_an_inspection_of_that_length(checkpoint_of):
    found = txexport.inspect(checkpoint_of("t5"))
    assert [costs.length for costs in found.by_length][-3:] == [8192, 16384, 32768]
    for costs in found.by_length[::5]:
        alone = txexport.inspect(checkpoint_of("t5"), length=costs.length)
        assert (costs.prefill, costs.step, costs.cache) == (alone.prefill, alone.step, alone.cache)
    found = txexport.inspect(checkpoint_of("gpt2"), length=9, batch=2)
    assert [costs.length for costs in found.by_length] == [1, 2, 4, 8, 9, 16, 32, 40]
    assert txexport.inspect(checkpoint_of("vit")).by_length == []


def rows_of(text: str) -> list[list[str]]:
    """The cells of every row, without their markup."""
    rows = re.findall(r"<tr>(.*?)</tr>", text.replace("<wbr>", ""), re.S)
    return [
        [re.sub("<[^>]+>", "", cell) for cell in re.findall(r"<td>(.*?)</td>", row, re.S)] for row in rows
    ]


@pytest.mark.parametrize("model_type", MODELS)
def test_page_has_the_inspection_s_numbers(model_type, checkpoint_of):
    found = txexport.inspect(checkpoint_of(model_type), batch=2)
    text = render(found)
    check_alone(text, Page(text))
    rows = rows_of(text)
    for part in parts(found):
        numbers = [f"{size:,}" if size else "" for size in (part.parameters, part.operations, part.cache)]
        assert any(row[0].startswith(drawing.title(part)) and row[2:] == numbers for row in rows if row)
    for costs in found.by_length:
        works = [*costs.prefill.values(), *([costs.step] if costs.step else [])]
        numbers = [f"{n:,}" for work in works for n in (work.matrices, work.attention, work.head)]
        if costs.cache is not None:
            numbers.append(f"{costs.cache.total + costs.cache.cross_total:,}")
        assert [f"{costs.length:,}", *numbers] in rows
    for name, size in found.weights.dtypes.items():
        assert [name, f"{size:,}"] in rows
    for name, size in found.parameters.components.items():
        cells = [row[1:] for row in rows if row and row[0] == drawing.TITLES.get(name, name)]
        assert size == 0 or [f"{size:,}", f"{size / found.parameters.total:.1%}"] in cells
    assert ["parameters", f"{found.parameters.total:,}"] in rows


@pytest.mark.parametrize("model_type", MODELS)
def test_bars_are_as_long_as_their_shares(model_type, checkpoint_of):
    found = txexport.inspect(checkpoint_of(model_type))
    page = Page(render(found))
    shown = [attributes for tag, attributes in page.tags if tag == "rect" and attributes.get("height") == "8"]
    widths = sorted(float(bar["width"]) for bar in shown if bar["class"] == "parameters")
    sizes = sorted(part.parameters for part in parts(found) if part.name != "norms" and part.parameters)
    expected = [max(1.0, drawing.LONGEST * size / found.parameters.total) for size in sizes]
    assert widths == pytest.approx(expected, abs=0.051)
    cached = sum(part.cache > 0 for part in parts(found))
    assert sum(bar["class"] == "cache" for bar in shown) == cached
    drawings = [tag for tag, attributes in page.tags if tag == "svg" and attributes.get("role") == "img"]
    assert len([tag for tag, _ in page.tags if tag == "desc"]) == len(drawings) >= len(found.parts) + 2
    sums = sum(len(group.sublayers) for stack in found.parts for group in stack.groups)
    assert len(page.of_class("sum")) == sums


def test_names_are_no_markup(checkpoint_of, tmp_path):
    folder = tmp_path / "<b>&'\"x<svg>"
    shutil.copytree(checkpoint_of("bert"), folder)
    found = dataclasses.replace(txexport.inspect(folder), model_type="<i>", task="</style><script>")
    text = render(found)
    check_alone(text, Page(text))
    assert "<b>&" not in text
    assert "<i>" not in text


def test_command_writes_the_page_beside_its_other_answers(bundle_of, checkpoint_of, tmp_path):
    def invoke(*arguments):
        return CliRunner().invoke(main, ["inspect", *map(str, arguments)])

    result = invoke(bundle_of("bert"), "--html", tmp_path / "page.html", "--json")
    assert result.exit_code == 0
    assert result.output.startswith("{")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == render(txexport.inspect(bundle_of("bert")))
    for place, said in (
        (bundle_of("bert") / "page.html", "would be inside a bundle"),
        (checkpoint_of("bert") / "config.json", "would replace config.json, a file of a checkpoint"),
        (tmp_path / "page.html" / "page.html", "is not a folder"),
    ):
        result = invoke(checkpoint_of("bert"), "--html", place)
        assert result.exit_code == 2
        assert result.output.startswith("error: ")
        assert said in result.output


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_page_fits_a_phone_and_a_desk(checkpoint_of, tmp_path):
    backs = set()
    with chromium() as page:
        for model_type in MODELS:
            (tmp_path / "page.html").write_text(
                render(txexport.inspect(checkpoint_of(model_type))).replace("<details>", "<details open>"),
                encoding="utf-8",
            )
            for width, dark in ((390, False), (1280, True)):
                page.open((tmp_path / "page.html").as_uri(), width=width, dark=dark)
                layout = page.until(LAYOUT)
                backs.add(layout.pop("back"))
                assert layout == {"width": width, "scroll": width, "beyond": [], "scrolled": [], "broken": []}
                assert page.value(OVERLAPS) == []
    assert len(backs) == 2
    assert page.errors == []
