"""Quantised weights that run as floats are slow, and only these tests notice."""

import json
import warnings
from pathlib import Path

import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from helpers.saturation import skip_where_products_saturate
from onnx import helper

import txexport
from txexport.cli.main import main
from txexport.errors import BundleError, InputError
from txexport.runtime.engines.kernels import kernels

DTYPES = ("float32", "int8", "int4")


@pytest.fixture(scope="module")
def flat(checkpoint_of, tmp_path_factory):
    """A function from a family to a bundle of flat graphs in every dtype, which no test may change."""
    made: dict[str, Path] = {}

    def get(family: str) -> Path:
        if family not in made:
            made[family] = tmp_path_factory.mktemp("kernels") / family
            txexport.export(
                checkpoint_of(family), made[family], dtype=DTYPES, inline=True, only="native", force=True
            )
        return made[family]

    return get


def hide(graph: Path, matrix: str) -> None:
    """Put nodes between a matrix's numbers and its product that no rewriting of ONNX Runtime removes."""
    model = onnx.load(graph, load_external_data=False)
    reader = next(node for node in model.graph.node if node.input and node.input[0] == matrix)
    place, numbers = list(model.graph.node).index(reader), reader.output[0]
    reader.output[0] = "numbers"
    for kind, before, after in (("Neg", "numbers", "negative"), ("Neg", "negative", numbers)):
        place += 1
        model.graph.node.insert(place, helper.make_node(kind, [before], [after]))
    onnx.save(model, graph)


@pytest.mark.parametrize("family", ["bert", "gpt2", "marian", "llama", "vit", "whisper"])
def test_every_product_is_fast(family, flat):
    result = txexport.inspect(flat(family), kernels=True)
    assert result.bundle.kernels
    assert {name: one.slow for name, one in result.bundle.kernels.items() if one.slow} == {}
    assert min(one.fast for one in result.bundle.kernels.values()) >= 12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype in DTYPES:
            txexport.load(flat(family), dtype=dtype)


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_product_that_is_slow_is_named(dtype, checkpoint_of, tmp_path):
    if dtype == "int8":
        skip_where_products_saturate()
    out = tmp_path / "out"
    txexport.export(checkpoint_of("bert"), out, dtype=dtype, inline=True, only="native")
    graph = out / txexport.inspect(out, kernels=True).bundle.kernels.popitem()[0]
    every = kernels(graph).fast
    matrix = "encoder.layers.1.feed_forward.up.weight"
    hide(graph, matrix)
    assert kernels(graph) == type(kernels(graph))(every - 1, [matrix])
    message = f"1 of {every} quantised products of {graph.name} run as float ones.*: {matrix}; .*--kernels"
    with pytest.warns(UserWarning, match=message):
        model = txexport.load(out, check=False)
    assert model.run(**{port.name: [[1, 1]] for port in model.sessions["model"].inputs.values()})
    listed = CliRunner().invoke(main, ["inspect", str(out), "--kernels", "--json"])
    assert json.loads(listed.output)["bundle"]["kernels"] == {
        str(graph.relative_to(out)): {"fast": every - 1, "slow": [matrix]}
    }
    shown = CliRunner().invoke(main, ["inspect", str(out), "--kernels"], env={"COLUMNS": "300"})
    assert f"as floats, which is slow: {matrix}" in shown.output


def test_float32_is_not_looked_at(bundle_of, monkeypatch):
    made, options = [], onnxruntime.SessionOptions
    monkeypatch.setattr(onnxruntime, "SessionOptions", lambda: made.append(options()) or made[-1])
    txexport.load(bundle_of("bert"))
    assert [one.enable_profiling for one in made] == [False]


def test_nothing_is_left_behind(flat, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with txexport.load(flat("bert"), dtype="int8"):
        txexport.inspect(flat("bert"), kernels=True)
    assert list(tmp_path.iterdir()) == []


def test_kernels_are_of_bundles_that_load(checkpoint_of, tmp_path):
    with pytest.raises(InputError, match="is a checkpoint and has no graphs; --kernels is for bundles"):
        txexport.inspect(checkpoint_of("bert"), kernels=True)
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    with pytest.raises(BundleError, match=r"broken.onnx cannot be loaded"):
        kernels(tmp_path / "broken.onnx")
