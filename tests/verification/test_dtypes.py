"""verify proves each number format: exactly without rounding, what is lost within budgets, every byte."""

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from helpers.bundle_edits import graph_path
from helpers.integer_mutations import (
    OF_FILE,
    OF_GRAPH,
    SECOND,
    untied_head,
)
from helpers.saturation import skip_where_products_saturate

from txexport import bundle, families
from txexport.cli.main import main
from txexport.contracts import roles
from txexport.errors import InputError
from txexport.exporter import bundle_plan, export
from txexport.formats import FLOAT32_IN_OUT, int4, int8
from txexport.verification import verify
from txexport.verification.checks import FORMAT_LOSS, FORMAT_LOSS_UNSET
from txexport.verification.losses import BUDGETS
from txexport.verification.reports.repeat import repeat_command

GRAPHS, WEIGHTS, FILES = "exported graphs", "every weight", "manifest and copied files"
FEW = {  # what each family is tried by where few cases suffice
    "bert": ["three ragged rows, right padding"],
    "gpt2": ["one token, then steps"],
    "bart": ["one token, then steps"],
    "mixtral": ["one token, then steps"],
}
# Random models that lose more than the budgets: integers change the ranks of places, so that other queries
# are compared, the experts that a token chooses, or what a delta rule keeps.
RANKED = ["grounding-dino", "rt_detr", "d_fine", "lw_detr"]
RANKED += ["qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"]


def kinds_of(folder: Path) -> set[str]:
    """The kinds of graphs of a bundle in int8 and int4; not every family has graphs for other clients."""
    return {
        f"{kind} {name}"
        for name, graphs in bundle.read(folder).formats.items()
        for kind, files in (("native", graphs.native), ("hub", graphs.hub))
        if files
    }


@pytest.mark.parametrize(
    ("family", "cases"),
    [
        ("bert", "quick"),
        ("gpt2", [*FEW["gpt2"], "three ragged rows in chunks", "three ragged rows, left padding"]),
        ("bart", FEW["bart"]),
        ("mixtral", FEW["mixtral"]),
        *(
            pytest.param(f, "quick", marks=pytest.mark.slow)
            for f in sorted({*families.names()} - {"bert", *RANKED})
        ),
    ],
)
def test_integers_are_proved(family, cases, integers_of):
    """Both kinds of graphs against transformers, ours against our twin too, each as exactly as float32."""
    every = cases if isinstance(cases, str) else [GRAPHS, WEIGHTS, FILES, *cases]
    report, kinds = verify(integers_of(family), cases=every), kinds_of(integers_of(family))
    assert report.failed == []
    tried = [case for case in report.cases if case.runtime is not None and case.skipped is None]
    assert {(case.graphs, case.reference) for case in tried} == {
        *((graphs, "transformers") for graphs in kinds),
        *((graphs, "twin") for graphs in kinds if graphs.startswith("native")),
    }
    exact = [check for case in tried if not case.is_loss for check in case.checks]
    assert exact
    if isinstance(cases, list):
        assert max(check.error for check in exact) < 1e-5
    lost = [case for case in tried if case.name == FORMAT_LOSS]
    assert {case.graphs for case in lost} == kinds
    assert all(0 < check.error <= check.tolerance for case in lost for check in case.checks[:1])
    assert [case.name for case in report.cases[:3]] == [GRAPHS, WEIGHTS, FILES]


def test_integers_of_a_text_model_within_another_are_proved(checkpoint_of, tmp_path):
    """Qwen3.5's config.json is of texts and images; transformers' class of texts alone takes a part of it."""
    export(checkpoint_of("qwen3_5"), tmp_path / "out", dtype="int8", only="native")
    report = verify(tmp_path / "out", cases=["three ragged rows, then steps"])
    assert report.ok
    assert {case.reference for case in report.cases} == {"transformers", "twin"}


@pytest.mark.slow
@pytest.mark.parametrize("family", RANKED)
def test_integers_that_change_ranks_are_proved(family, integers_of):
    """The graphs are exact; the loss, which compares a random model's queries or tokens, is reported."""
    report, kinds = verify(integers_of(family), cases="quick"), kinds_of(integers_of(family))
    assert report.failed
    assert {case.name for case in report.failed} <= {FORMAT_LOSS, FORMAT_LOSS_UNSET}
    tried = [case for case in report.cases if case.runtime is not None and case.skipped is None]
    assert {case.graphs for case in tried if not case.is_loss} == kinds


@pytest.fixture(scope="module")
def made(checkpoint_of, tmp_path_factory):
    """A function from a family and a dtype to a bundle of our graph alone, and its files as they were."""
    folders: dict[tuple[str, str], Path] = {}

    def get(family: str, dtype: str) -> Path:
        key = family, dtype
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp("integers") / family
            export(checkpoint_of(family), folders[key], dtype=dtype, only="native")
        return folders[key]

    return get


@pytest.fixture
def copy_of(made, tmp_path):
    """A function from a family and a dtype to such a bundle of one's own."""
    return lambda family, dtype: Path(shutil.copytree(made(family, dtype), tmp_path / "copy"))


def failures(folder: Path, cases: list[str], **options) -> dict[str, list[str]]:
    """The cases that fail, with what fails in each, or why."""
    report = verify(folder, reference="transformers", cases=cases, **options)
    assert report.ok == (not report.failed)
    return {
        case.name: [str(case.exception)]
        if case.exception
        else [check.output for check in case.checks if not check.ok]
        for case in report.failed
    }


def test_losses_have_budgets(made):
    """The budget of a dtype is above its loss; where nothing is lost, any loss is too much."""
    for dtype in ("int8", "int4"):
        folder = made("bert", dtype)
        assert failures(folder, FEW["bert"]) == {}
        assert failures(folder, FEW["bert"], budget={"direction": 0.0}) == {
            FORMAT_LOSS: ["last_hidden_state: direction", "pooler_output: direction"]
        }
        assert failures(folder, FEW["bert"], budget={"probability": 0.0}) == {}  # which vectors have none of
        [case] = [
            c
            for c in verify(folder, reference="transformers", cases=FEW["bert"]).cases
            if c.name == FORMAT_LOSS
        ]
        shares = {check.output: check.error for check in case.checks}
        assert {check.tolerance for check in case.checks} == {BUDGETS[dtype]["direction"]}
        assert failures(folder, FEW["bert"], budget={"direction": max(shares.values())}) == {}
    folder = made("gpt2", "int8")
    assert failures(folder, FEW["gpt2"], budget={"probability": 0.0}) == {
        FORMAT_LOSS: ["logits: probability"]
    }
    assert failures(folder, FEW["gpt2"], budget={"choice": 0.0, "ranks": 1.0, "direction": 0.0}) in (
        {},
        {FORMAT_LOSS: ["logits: choice"]},
    )


def test_four_bits_lose_more_than_eight(made):
    shares = {}
    for dtype in ("int8", "int4", "int4-128"):
        report = verify(made("bert", dtype), reference="transformers", cases="quick")
        [case] = [case for case in report.cases if case.name == FORMAT_LOSS]
        shares[dtype] = case.checks[0].error
    assert 1e-6 < shares["int8"] < shares["int4"] / 10
    assert shares["int4"] < shares["int4-128"]


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (
            {"angle": 0.1},
            "budget 'angle' is not known; expected direction, probability, choice, ranks, perplexity, "
            "tokens, cosine, neighbours, answers",
        ),
        ({"cosine": 0.1}, "budget cosine is for losses on texts; give a file of texts"),
        ({"direction": 1.5}, "budget direction is 1.5, expected a share from 0 to 1"),
        ({"direction": -0.1}, "budget direction is -0.1, expected a share from 0 to 1"),
        ({"direction": float("nan")}, "budget direction is nan, expected a share from 0 to 1"),
    ],
)
def test_a_budget_that_is_none_is_told_in_a_line(budget, why, made):
    with pytest.raises(InputError) as error:
        verify(made("bert", "int8"), reference="transformers", cases=FEW["bert"], budget=budget)
    assert str(error.value) == why


IDS = [
    f"{one.dtype}-{one.part or 'integers'}-{one.change.__name__}-{number}"
    for number, one in enumerate(OF_FILE)
]


@pytest.mark.parametrize("change", OF_FILE, ids=IDS)
def test_a_changed_file_is_named(change, copy_of):
    """By its parameter; and where the numbers differ, by the cases alone."""
    folder = copy_of("bert", change.dtype)
    change(folder)
    wrong = failures(folder, [WEIGHTS, *FEW["bert"]])
    assert wrong.pop(WEIGHTS) == [change.parameter]
    assert ("last_hidden_state" in wrong.get(FEW["bert"][0], [])) == change.seen


def edit(path: Path, change: Callable) -> None:
    """Change a graph where it lies."""
    model = onnx.load(path, load_external_data=False)
    before = model.SerializeToString(deterministic=True)
    change(model)
    assert model.SerializeToString(deterministic=True) != before
    onnx.save(model, path)


@pytest.mark.parametrize("one", OF_GRAPH, ids=[f"{one.dtype}-{one.change.__name__}" for one in OF_GRAPH])
def test_a_changed_graph_is_named(one, copy_of):
    """As not the exported one, always; by the cases alone where numbers show it."""
    folder = copy_of("bert", one.dtype)
    edit(graph_path(folder), one.change)
    [why] = failures(folder, [GRAPHS])[GRAPHS]
    assert "is not the exported graph: first difference" in why
    if one.dtype == "int8" and not one.seen:
        skip_where_products_saturate()  # ONNX Runtime fails there to run it
    assert (failures(folder, FEW["bert"], allow_edited=True) != {}) == one.seen


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_a_head_that_is_not_tied_is_named(dtype, copy_of):
    """It reads another copy of the words."""
    folder = copy_of("gpt2", dtype)
    edit(graph_path(folder), untied_head)
    assert "is not the exported graph" in failures(folder, [GRAPHS])[GRAPHS][0]
    assert "logits" in failures(folder, FEW["gpt2"], allow_edited=True)[FEW["gpt2"][0]]


QUERIES = "decoder.layers.{}.attention.q.weight{}"


@pytest.mark.parametrize(
    ("dtype", "part"),
    [
        ("int4", ""),
        *(pytest.param(*row, marks=pytest.mark.slow) for row in (("int4", ".scale"), ("int8", ""))),
    ],
)
def test_a_merged_decoder_s_initialiser_over_another_layer_s_bytes(dtype, part, checkpoint_of, tmp_path):
    """Where it lies is not what it is called."""
    folder = tmp_path / "out"
    export(checkpoint_of("bart"), folder, dtype=dtype, only="hub")
    file = bundle.read(folder).formats[dtype].hub[roles.DECODER_MERGED].file

    def exchange(model):
        held = {one.name: one for one in model.graph.initializer}
        one, other = (held[QUERIES.format(layer, part)] for layer in (0, 1))
        for mine, theirs in zip(one.external_data, other.external_data, strict=True):
            mine.value, theirs.value = theirs.value, mine.value

    edit(folder / file, exchange)
    report = verify(folder, reference="transformers", cases=[GRAPHS, WEIGHTS])
    graphs, weights = report.failed
    assert f"{file} is not the exported graph" in graphs.exception
    wrong = [check.output for check in weights.checks if not check.ok]
    assert wrong == [QUERIES.format(layer, part) for layer in (0, 1)]
    failed = verify(folder, reference="transformers", cases=FEW["bart"], allow_edited=True).failed
    assert {(case.graphs, case.exception) for case in failed} == {(f"hub {dtype}", None)}


def scales_of_others(found):
    """Each block with the scale of another."""
    return lambda rows, block: (*(done := found(rows, block))[:2], np.roll(done[2], 1, axis=1))


def zeros_off(found):
    """Zero points off by one."""

    def make(rows, block):
        integers, zeros, scales = found(rows, block)
        return integers, (zeros + 1).clip(0, 15), scales

    return make


def reversed_inputs(found):
    """Inputs from the last to the first."""

    def make(rows, block):
        integers, zeros, scales = found(rows, block)
        return np.ascontiguousarray(integers[:, ::-1]), zeros, scales

    return make


def swapped_halves(found):
    """The first of two in the upper half of a byte."""
    return lambda integers: found(integers) >> 4 | found(integers) << 4


def swapped_reading(found):
    """The same when read, so that NumPy's own way there and back is right."""
    return lambda bytes_, shape: found(bytes_ >> 4 | bytes_ << 4, shape)


def scales_of_other_outputs(found):
    """Each output with the scale of another."""
    return lambda rows: ((done := found(rows))[0], np.roll(done[1], 1))


def exchanged_inputs(found):
    """Two inputs, each for the other."""

    def make(rows):
        integers, scales = found(rows)
        return integers[:, [1, 0, *range(2, integers.shape[1])]], scales

    return make


def one_more(found):
    """Integers one too high."""

    def make(rows):
        integers, scales = found(rows)
        return np.minimum(integers, 126) + np.int8(1), scales

    return make


def a_step_of_128(found):
    """Scales that would be those of 128 steps."""
    return lambda rows: ((done := found(rows))[0], done[1] * np.float32(127 / 128))


# What a format would make wrongly, in a dtype.
WRONG_FORMATS = [
    ("int4", [(int4, "packed", swapped_halves)]),
    ("int4", [(int4, "packed", swapped_halves), (int4, "unpacked", swapped_reading)]),
    ("int4", [(int4, "searched", reversed_inputs)]),
    ("int4", [(int4, "searched", scales_of_others)]),
    ("int4", [(int4, "searched", zeros_off)]),
    ("int8", [(int8, "quantized", scales_of_other_outputs)]),
    ("int8", [(int8, "quantized", exchanged_inputs)]),
    ("int8", [(int8, "quantized", one_more)]),
    ("int8", [(int8, "quantized", a_step_of_128)]),
]
NAMES = [f"{dtype}-{'-'.join(wrong.__name__ for *_, wrong in all_)}" for dtype, all_ in WRONG_FORMATS]


@pytest.mark.parametrize(("dtype", "wrong"), WRONG_FORMATS, ids=NAMES)
def test_a_format_that_is_wrong_is_caught(dtype, wrong, checkpoint_of, tmp_path, monkeypatch):
    """In the file; and in export and verify alike, since what is kept is held against the numbers."""
    for module, name, make in wrong:
        monkeypatch.setattr(module, name, make(getattr(module, name)))
    export(checkpoint_of("bert"), tmp_path / "out", dtype=dtype, only="native")
    alike = failures(tmp_path / "out", [WEIGHTS, GRAPHS, FILES, *FEW["bert"]])
    assert f"{SECOND}: rounding" in alike.get(WEIGHTS, []) or FORMAT_LOSS in alike
    monkeypatch.undo()
    found = failures(tmp_path / "out", [WEIGHTS, *FEW["bert"]])
    assert SECOND in found[WEIGHTS]
    assert "last_hidden_state" in found[FEW["bert"][0]]


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_a_layer_left_in_float32_is_caught(dtype, checkpoint_of, tmp_path, monkeypatch):
    """Nothing is lost by it, but the size that was promised."""
    right = bundle_plan.formats_of

    def left(weights, asked, dtype):
        formats = right(weights, asked, dtype)
        return {name: FLOAT32_IN_OUT if name == SECOND else one for name, one in formats.items()}

    monkeypatch.setattr(bundle_plan, "formats_of", left)
    export(checkpoint_of("bert"), tmp_path / "out", dtype=dtype, only="native")
    monkeypatch.undo()
    found = failures(tmp_path / "out", [WEIGHTS, GRAPHS, *FEW["bert"]])
    assert "its header is not the one that export writes" in found[WEIGHTS][0]
    assert "is not the exported graph: first difference" in found[GRAPHS][0]
    assert "last_hidden_state" in found[FEW["bert"][0]]


def test_graphs_exchanged_between_dtypes_are_named(copy_of, made, integers_of, tmp_path):
    """A bundle that says int4 and computes in int8 would be larger and lose less, and is not what it says."""
    folder = Path(shutil.copytree(integers_of("bert"), tmp_path / "both"))
    graphs = bundle.read(folder).formats
    one, other = (folder / graphs[dtype].native["model"].file for dtype in ("int8", "int4"))
    one.write_bytes(other.read_bytes())
    report = verify(folder, reference="transformers", cases=[GRAPHS, *FEW["bert"]])
    assert GRAPHS in {case.name for case in report.failed}
    assert "native int8" in {case.graphs for case in report.failed if case.name != GRAPHS}


def test_what_is_lost_is_told_how_to_repeat(integers_of):
    report = verify(integers_of("gpt2"), reference="transformers", cases="quick", budget={"choice": 0.0})
    [case] = [one for one in report.failed if one.graphs == "native int4"]
    words = shlex.split(repeat_command(report, case))
    assert words[:2] == ["txexport", "verify"]
    assert words[words.index("--cases") + 1] == "quick"
    assert "choice=0" in words
    assert CliRunner().invoke(main, words[1:]).exit_code == 3


def test_mutations_of_integers_are_many(capsys):
    kinds = {(one.dtype, one.part, one.change.__name__) for one in OF_FILE}
    kinds |= {(one.dtype, "graph", one.change.__name__) for one in OF_GRAPH}
    kinds |= {("", "format", name) for name in NAMES}
    seen = [one.seen for one in (*OF_FILE, *OF_GRAPH)] + [True for _ in WRONG_FORMATS]
    with capsys.disabled():
        print(f"\n{len(seen)} mutations of integers, {seen.count(True)} seen by cases alone")
    assert len(kinds) >= 35
    assert seen.count(False) <= 9
