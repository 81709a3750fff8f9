"""verify --layers is worth nothing unless it names what is wrong: these tests break parts on purpose."""

import json
import re
import shutil
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from helpers.bundle_edits import graph_path, tamper, weight_names
from helpers.graph_edits import constant, function, node, set_constant
from helpers.mutations import (
    ignore_mask,
    other_gelu,
    stale_cross_cache,
    swap_layers,
    swap_queries_and_keys,
    unscaled,
)
from helpers.reports import SCHEMA, valid
from helpers.rows import Row
from safetensors.numpy import load_file, save_file

from txexport.cli.main import main
from txexport.contracts import roles
from txexport.errors import InputError
from txexport.exporter import export
from txexport.verification import Report, reports, verify
from txexport.verification.layers.result import ComponentCheck, LayerReport

PADDED, STEPS = "three ragged rows, right padding", "two equal rows, several tokens a step"
MASKED = "two images, points and a mask each"
DEEP = Row("bert", "BertModel", "feature-extraction", "7 layers", {"num_hidden_layers": 7})


@pytest.fixture
def copy_of(bundle_of, tmp_path):
    """A function from a row, or a model_type, and a cache to a bundle of its own, to be broken."""

    def get(what: Row | str, cache: str | None = None) -> Path:
        shutil.rmtree(tmp_path / "bundle", ignore_errors=True)
        return shutil.copytree(bundle_of(what, cache), tmp_path / "bundle")

    return get


def found(folder: Path, case: str) -> LayerReport:
    report = verify(folder, reference="twin", cases=[case], layers=True)
    assert report.layers is not None
    return report.layers


# What is broken, and the place that must be named: stack, layer, part; where no layer, component alone.
WEIGHTS = [
    (DEEP, None, PADDED, "encoder.layers.5.attention.v.weight", ("encoder", 5, "attention.v")),
    (DEEP, None, PADDED, "encoder.layers.5.feed_forward.down.bias", ("encoder", 5, "feed_forward.down")),
    (DEEP, None, PADDED, "encoder.layers.5.attention_norm.weight", ("encoder", 5, "attention_norm")),
    (DEEP, None, PADDED, "pooler.dense.weight", (None, None, "pooler.dense")),
    ("bert", None, PADDED, "encoder.embedding.word.weight", (None, None, "encoder.embedding")),
    ("gpt2", "static", STEPS, "decoder.layers.1.attention.k.bias", ("decoder", 1, "attention.k")),
    ("gpt2", "dynamic", STEPS, "decoder.layers.0.feed_forward.up.weight", ("decoder", 0, "feed_forward.up")),
    ("gpt2", "static", STEPS, "decoder.final_norm.bias", (None, None, "decoder.final_norm")),
    ("llama", "static", STEPS, "decoder.layers.1.attention.o.weight", ("decoder", 1, "attention.o")),
    ("llama", "dynamic", STEPS, "decoder.layers.1.feed_forward.gate.weight",
     ("decoder", 1, "feed_forward.gate")),
    ("llama", "static", STEPS, "head.weight", (None, None, "head")),
    ("mixtral", "static", STEPS, "decoder.layers.1.feed_forward.experts.3.up.weight",
     ("decoder", 1, "feed_forward.experts.3.up")),
    ("mixtral", "static", STEPS, "decoder.layers.0.feed_forward.router.weight",
     ("decoder", 0, "feed_forward.router")),
    ("t5", "static", STEPS, "encoder.relative.weight", (None, None, "encoder.relative")),
    ("t5", "dynamic", STEPS, "decoder.layers.1.cross_attention.q.weight",
     ("decoder", 1, "cross_attention.q")),
    ("bart", "dynamic", STEPS, "cross.2.v.weight", ("decoder", 2, "cross.key_value.v")),
    ("bart", "static", STEPS, "decoder.layers.2.cross_attention_norm.bias",
     ("decoder", 2, "cross_attention_norm")),
    ("bart", "static", STEPS, "encoder.layers.1.attention.q.weight", ("encoder", 1, "attention.q")),
    ("lfm2", "static", STEPS, "decoder.layers.0.attention.project.weight",
     ("decoder", 0, "attention.project")),
    ("falcon_h1", "static", STEPS, "decoder.layers.1.beside.output.weight",
     ("decoder", 1, "beside.output")),
    ("mamba2", "dynamic", STEPS, "decoder.layers.1.attention.rate", ("decoder", 1, "attention")),
    ("gemma3n_text", "static", STEPS, "decoder.layers.1.streams.predict.weight",
     ("decoder", 1, "streams.predict")),
    ("gemma3n_text", "dynamic", STEPS, "decoder.layers.4.augmented_residual.up.weight",
     ("decoder", 4, "augmented_residual.up")),
    ("gemma3n_text", "static", STEPS, "decoder.merge.project.1.weight",
     (None, None, "decoder.merge.project.1")),
    ("ministral3", "static", STEPS, "decoder.layers.1.attention.q.weight", ("decoder", 1, "attention.q")),
    ("mistral4", "dynamic", STEPS, "decoder.layers.1.attention.q.weight", ("decoder", 1, "attention.q")),
    ("apertus", "static", STEPS, "decoder.layers.1.feed_forward.act.alpha_n",
     ("decoder", 1, "feed_forward.act")),
    ("vit", None, "one", "encoder.layers.1.attention.q.weight", ("encoder", 1, "attention.q")),
    ("vit", None, "one", "encoder.embedding.project.weight", (None, None, "encoder.embedding")),
    ("dinov2", None, "one", "encoder.embedding.position.weight", (None, None, "encoder.embedding")),
    ("depth_anything", None, "one", "head.neck.maps.1.project.weight", (None, None, "head.neck.maps.1")),
    ("depth_anything", None, "one", "head.halve.bias", (None, None, "head")),
    ("sam", None, MASKED, "vision.layers.1.attention.o.weight", ("vision", 1, "attention.o")),
    ("sam", None, MASKED, "mask_prompt.halve_again.weight", (None, None, "mask_prompt")),
    ("sam", None, MASKED, "decoder.vectors.2.1.bias", (None, None, "decoder.vectors.2.1")),
    ("sam2", None, MASKED, "vision.mergings.1.attention.k.weight",
     (None, None, "vision.mergings.1.attention.k")),
    ("sam2", None, MASKED, "neck.projects.2.weight", (None, None, "neck")),
    ("sam2", None, MASKED, "decoder.object.1.weight", (None, None, "decoder.object.1")),
    ("clip", None, "three ragged texts, two images", "vision.layers.2.feed_forward_norm.weight",
     ("vision", 2, "feed_forward_norm")),
    ("clip", None, "three ragged texts, two images", "text_projection.weight",
     (None, None, "text_projection")),
    ("deberta-v2", None, PADDED, "encoder.layers.1.attention.k.weight", ("encoder", 1, "attention.k")),
    ("deberta-v2", None, PADDED, "encoder.relative.norm.bias", (None, None, "encoder.relative.norm")),
    ("longformer", None, PADDED, "encoder.layers.2.attention.k_global.weight",
     ("encoder", 2, "attention.k_global")),
    ("modernbert", None, PADDED, "encoder.layers.4.attention.q.weight", ("encoder", 4, "attention.q")),
]  # fmt: skip


FIRST = {str(weight[0]): weight for weight in reversed(WEIGHTS)}  # of each family, in a run of every test


@pytest.mark.parametrize(
    ("what", "cache", "case", "weight", "place"),
    [
        pytest.param(
            *weight,
            id=f"{getattr(weight[0], 'model_type', weight[0])}-{weight[1]}-{weight[3]}",
            marks=[] if FIRST[str(weight[0])] is weight else [pytest.mark.slow],
        )
        for weight in WEIGHTS
    ],
)
def test_changed_weight_is_found_in_its_place_and_nowhere_else(what, cache, case, weight, place, copy_of):
    folder = copy_of(what, cache)
    assert found(folder, case).beyond == []
    tamper(folder, weight, lambda numbers: 1.5 * numbers)
    layers = found(folder, case)
    assert layers.first is not None
    assert (layers.first.stack, layers.first.layer, layers.first.part) == place
    assert {check.component for check in layers.beyond} == {layers.first.component}


def test_rounding_of_a_component_is_no_error_of_it(checkpoint_of, tmp_path):
    """Embeddings that are nearly equal leave a norm few of float32's bits."""
    source = shutil.copytree(checkpoint_of("bert"), tmp_path / "source")
    numbers = load_file(source / "model.safetensors")
    [positions] = [name for name in numbers if name.endswith("position_embeddings.weight")]
    numbers[positions] += 1000
    save_file(numbers, source / "model.safetensors", {"format": "pt"})
    export(source, tmp_path / "bundle")
    layers = found(tmp_path / "bundle", PADDED)
    assert layers.beyond == []
    [norm] = [check for check in layers.checks if check.error > 1e-4]
    assert (norm.component, norm.tolerance < 1e-2) == ("encoder.embedding.norm", True)
    tamper(tmp_path / "bundle", "encoder.embedding.norm.bias", lambda numbers: numbers + 0.2)
    assert found(tmp_path / "bundle", PADDED).first.component == "encoder.embedding.norm"


def test_what_a_weight_breaks_later_is_told_apart(copy_of):
    """Layer 6 is right by itself, and wrong in the whole graph."""
    folder = copy_of(DEEP)
    tamper(folder, "encoder.layers.5.attention.v.weight", lambda numbers: 1.5 * numbers)
    layers = found(folder, PADDED)
    ends = {check.layer: check for check in layers.checks if check.part == "block" and check.kind == "output"}
    assert list(ends) == list(range(7))
    assert [layer for layer, check in ends.items() if not check.ok] == []
    assert [layer for layer, check in ends.items() if check.accumulated > check.tolerance] == [5, 6]
    assert layers.summary.startswith(
        "first beyond its budget: layer 5 of the encoder, attention.v, output y: off by "
    )


def unequal_residual(model):
    """A layer's attention is added twice."""
    block = function(model, "encoder_block")
    add = node(block, "Add")
    add.input[0] = add.input[1]


def sines_for_cosines(model):
    """A turn's sines in the place of its cosines."""
    rotation = function(model, "rotation")
    cos = node(rotation, "Cos")
    cos.op_type = "Sin"


def other_rows(model):
    """The image's second vector in place of its first."""
    set_constant(constant(function(model, "pick"), 0), 1)


# What is done to the graph, and what must be named: component, kind, value.
GRAPHS = [
    ("bert", None, PADDED, roles.MODEL, ignore_mask, ("mask", "output", "mask")),
    ("bert", None, PADDED, roles.MODEL, other_gelu, ("encoder.layers.0.feed_forward", "inside", "wide")),
    ("bert", None, PADDED, roles.MODEL, unscaled, ("encoder.layers.0.attention", "inside", "mixed")),
    ("bert", None, PADDED, roles.MODEL, swap_layers, ("encoder.layers.0.attention.q", "output", "y")),
    ("bert", None, PADDED, roles.MODEL, swap_queries_and_keys,
     ("encoder.layers.0.attention.q", "output", "y")),
    ("bert", None, PADDED, roles.MODEL, unequal_residual, ("encoder.layers.0", "inside", "attended")),
    ("llama", "static", STEPS, roles.MODEL, sines_for_cosines, ("rotation", "output", "cos")),
    ("gpt2", "dynamic", "three ragged rows, left padding", roles.MODEL, ignore_mask,
     ("mask", "output", "mask")),
    ("bart", "static", STEPS, roles.DECODER, stale_cross_cache,
     ("decoder.layers.1", "input", "cross_k")),
    ("clip", None, "three ragged texts, two images", roles.VISION, other_rows,
     ("vision.pick", "output", "picked")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "cache", "case", "role", "change", "named"),
    GRAPHS,
    ids=[f"{g[0]}-{g[1]}-{g[4].__name__}" for g in GRAPHS],
)
def test_changed_mathematics_is_found_in_its_place(what, cache, case, role, change, named, copy_of):
    folder = copy_of(what, cache)
    file = graph_path(folder, role)
    model = onnx.load(file, load_external_data=False)
    change(model)
    onnx.save(model, file)
    first = found(folder, case).first
    assert first is not None
    assert (first.component, first.kind, first.value) == named
    assert first.graph == role


def test_older_operators_are_compared_too(checkpoint_of, tmp_path):
    export(checkpoint_of("gpt2"), tmp_path / "out", opset=17)
    assert found(tmp_path / "out", STEPS).first is None
    tamper(tmp_path / "out", "decoder.layers.1.attention.v.weight", lambda numbers: 1.5 * numbers)
    first = found(tmp_path / "out", STEPS).first
    assert first is not None
    assert first.component == "decoder.layers.1.attention.v"


def test_flat_graph_says_that_it_cannot_be_told_apart(checkpoint_of, tmp_path):
    export(checkpoint_of("bert"), tmp_path / "out", inline=True)
    layers = found(tmp_path / "out", PADDED)
    file = graph_path(tmp_path / "out").name
    said = f"{file} is flat, so its components cannot be told apart; export without --inline"
    assert (layers.checks, layers.skipped) == ([], said)
    assert layers.summary == f"components were not compared: {said}"


def test_layers_need_the_twin(bundle_of):
    with pytest.raises(InputError, match="layers are compared with the twin"):
        verify(bundle_of("bert"), reference="transformers", layers=True)


@pytest.mark.parametrize("cache", ["static", "dynamic"])
@pytest.mark.parametrize("model_type", ["whisper", "moonshine", "vision-encoder-decoder"])
def test_decoders_of_sounds_and_images(model_type, cache, bundle_of):
    """Whose cross-attention has no mask; Whisper has a graph with the weights of an alignment beside it."""
    report = verify(bundle_of(model_type, cache), reference="twin", cases=[STEPS], layers=True)
    assert report.ok
    assert report.layers is not None
    assert report.layers.beyond == []
    parts = {check.component for check in report.layers.checks}
    assert {f"decoder.layers.1.{part}" for part in ("attention", "cross_attention")} <= parts


@pytest.mark.parametrize("model_type", ["fnet", "squeezebert"])
def test_tables_and_groups(model_type, bundle_of):
    """Tables in float64, and parts whose groups are no calls."""
    report = verify(bundle_of(model_type), reference="twin", cases=[PADDED], layers=True)
    assert report.ok
    assert report.layers is not None
    assert report.layers.beyond == []


def test_every_component_with_parameters_is_compared(bundle_of):
    """A part that no call was found for would be right whatever it does."""
    for what, cache in (("bert", None), ("gpt2", "static"), ("t5", "dynamic"), ("clip", None), ("vit", None)):
        folder = bundle_of(what, cache)
        case = {"clip": "three ragged texts, two images", "vit": "one", "bert": PADDED}.get(what, STEPS)
        outputs = {check.component for check in found(folder, case).checks if check.kind == "output"}
        owners = {name.rpartition(".")[0] for name in weight_names(folder)}
        tables = r"\.(word|position|segment|project|tokens\.0)"  # which an embedding reads itself
        assert {re.sub(rf"(?<=embedding){tables}$", "", owner) for owner in owners} - outputs == set()


def test_reports_hold_the_layers(copy_of, tmp_path):
    folder = copy_of("bert")
    tamper(folder, "encoder.layers.1.attention.v.weight", lambda numbers: 1.5 * numbers)
    files = [tmp_path / f"report{suffix}" for suffix in reports.FORMS]
    arguments = ["verify", folder, "--reference", "twin", "--case", PADDED, "--layers"]
    result = CliRunner().invoke(
        main, [str(a) for a in arguments + [x for f in files for x in ("--report", f)]]
    )
    assert result.exit_code == 1
    assert "first beyond its budget: layer 1 of the encoder, attention.v" in " ".join(result.output.split())
    values = json.loads((tmp_path / "report.json").read_text())
    valid(values, SCHEMA)
    first = values["layers"]["checks"][values["layers"]["first"]]
    assert (first["stack"], first["layer"], first["part"], first["ok"]) == (
        "encoder",
        1,
        "attention.v",
        False,
    )
    assert Report.from_dict(values).to_dict() == values
    assert "layer 1 of the encoder, attention.v" in (tmp_path / "report.md").read_text()
    assert "layer 1 of the encoder, attention.v" in (tmp_path / "report.xml").read_text()
    page = (tmp_path / "report.html").read_text()
    plot = page.split("<h3>Errors by layer</h3>")[1].split("</svg>")[0]
    tracks = [
        line.split(">")[1].split("<")[0] for line in plot.splitlines() if line.startswith('<text x="0"')
    ]
    assert tracks == ["encoder.embedding", "order", "encoder 0", "mask", "encoder 1", "pooler"]
    [failed] = [line for line in plot.splitlines() if 'href="#failed"' in line]
    assert "encoder.layers.1.attention.v, output y" in failed


def test_not_finite_and_unknown_survive_json():
    check = ComponentCheck("model", "encoder.layers.3", "output", "y", 7, float("inf"), None, 1e-5, "c")
    values = LayerReport([check], "why").to_dict()
    assert (values["checks"][0]["error"], values["first"]) == (None, 0)
    valid(values, SCHEMA["$defs"]["layers"])
    assert LayerReport.from_dict(json.loads(json.dumps(values))) == LayerReport([check], "why")


def test_drift_that_is_not_finite_is_told_from_an_unknown_one_in_json():
    parts = "model", "encoder.layers.3", "output", "y", 7, 0.0
    drifts = [ComponentCheck(*parts, drift, 1e-5, "c") for drift in (float("inf"), None, 1.0, 0.0)]
    values = LayerReport(drifts).to_dict()
    valid(values, SCHEMA["$defs"]["layers"])
    records = [(record["accumulated"], record["drifted"]) for record in values["checks"]]
    assert records == [(None, True), (None, False), (1.0, True), (0.0, False)]
    assert LayerReport.from_dict(json.loads(json.dumps(values))) == LayerReport(drifts)
