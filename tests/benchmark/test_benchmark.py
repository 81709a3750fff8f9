"""Choice of engine, dtype, precision and threads: the recommendation exists, is right, and is the fastest."""

import json
import sys
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from helpers.project import loaded_after

import txexport
from txexport.benchmark import Candidate, bench, benchmark
from txexport.benchmark.judgement import wrong_of
from txexport.cli.main import main
from txexport.dtype_comparison.accuracy import CHANGE, COSINE, ENTITIES, GREEDY, SAME
from txexport.errors import InputError

TEXTS = ["The cat sat on the mat.", "Where was Ada born?", "He sold three of them.", "It rains."]
FIRST = Candidate("onnxruntime", "float32", "float32", 1)
EXACT = Candidate("openvino", "float32", "float32", 1)
BRIEF = Candidate("openvino", "float32", "bfloat16", 1)
INT8 = Candidate("openvino", "int8", "float32", 1)


@pytest.fixture
def openvino():
    pytest.importorskip("openvino")
    return pytest.importorskip("txexport.runtime.engines.openvino")


def test_every_way_is_tried_and_the_fastest_right_one_is_chosen(checkpoint_of, openvino, tmp_path):
    txexport.export(checkpoint_of("gpt2"), tmp_path / "out", dtype=["int8", "float32", "int4"])
    result = bench(tmp_path / "out", texts=TEXTS, threads=1, rounds=1, max_new_tokens=4, loss=1)
    ways = [one.candidate for one in result.candidates]
    assert ways[0] == FIRST
    precisions = ["float32", "bfloat16"] if BRIEF in ways else ["float32"]
    assert {(one.engine, one.dtype, one.precision) for one in ways} == {
        *(("onnxruntime", dtype, "float32") for dtype in ("float32", "int8", "int4")),
        *(("openvino", dtype, precision) for dtype in ("float32", "int8") for precision in precisions),
    }
    lacking = [name for name in result.left_out if name.startswith("openvino int4")]
    assert "cannot load" in result.left_out[lacking[0]]  # its rows of 100 are no whole blocks
    assert list(result.works) == ["one text", "all texts", "prompt", "token"]
    assert set(result.candidates[0].speedup.values()) == {1.0}
    for one in result.candidates:
        assert one.accuracy.keys() == result.measures.keys() >= {GREEDY, CHANGE}
        assert one.seconds.keys() == one.speedup.keys() == result.works.keys()
        assert min(one.seconds.values()) > 0
    right = [one for one in result.candidates if one.wrong is None]
    assert {FIRST, EXACT} <= {one.candidate for one in right}
    assert result.chosen == max(right, key=lambda one: one.mean_speedup).candidate
    assert (result.texts, result.built_in, result.threads) == (4, False, [])
    model = eval(result.call, {"txexport": txexport})  # users copy this line
    assert model.generate_ids([[5, 6]], max_new_tokens=1)


def test_fewer_threads_are_tried_of_the_best_alone(bundle_of, monkeypatch):
    monkeypatch.setattr(benchmark, "available", lambda: 5)
    result = bench(bundle_of("bert"), texts=TEXTS, rounds=1)
    assert {one.candidate.threads for one in result.candidates} == {5}
    assert [one.candidate.threads for one in result.threads] == [5, 1, 2, 4]
    assert result.processors == 5
    fastest = max(result.threads, key=lambda one: one.mean_speedup)
    assert result.chosen == fastest.candidate
    [best] = [one for one in result.candidates if one.candidate == result.threads[0].candidate]
    assert result.threads[0].speedup == pytest.approx(best.speedup)  # of one reference in both tables


def test_an_engine_that_is_not_installed_is_left_out(bundle_of, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    monkeypatch.delitem(sys.modules, "txexport.runtime.engines.openvino", raising=False)
    result = bench(bundle_of("bert"), texts=TEXTS, rounds=1, threads=1)
    assert [one.candidate for one in result.candidates] == [FIRST] == [result.chosen]
    assert result.left_out.keys() == {"openvino"}
    assert "pip install '.[openvino]'" in result.left_out["openvino"]


def test_an_engine_that_computes_in_less_than_it_says_is_named_and_not_chosen(
    bundle_of, openvino, monkeypatch
):
    """However fast: the test makes it the fastest."""
    if "BF16" not in openvino.openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip("the processor has no bfloat16")
    monkeypatch.setitem(openvino.HINTS, "float32", "bf16")
    timed = benchmark.timed

    def faster(models, works, rounds):
        seconds, _ = timed(models, works, rounds)
        return seconds, {
            name: {work: 9.0 if name.startswith("openvino") else 1.0 for work in works} for name in seconds
        }

    monkeypatch.setattr(benchmark, "timed", faster)
    result = bench(bundle_of("bert"), texts=TEXTS, rounds=1, threads=1)
    wrong = {one.candidate: one.wrong for one in result.candidates}
    assert wrong[FIRST] is None
    assert "which loses more than" in str(wrong[EXACT])
    assert wrong[BRIEF] == "openvino is wrong in float32"
    assert result.chosen == FIRST


GOOD = {COSINE: 1.0}
JUDGED = [
    ({}, GOOD, GOOD, {}),
    ({COSINE: 1 - 2e-6}, GOOD, GOOD, {EXACT, BRIEF, INT8}),  # a wrong float32 excludes all of its engine
    ({}, {COSINE: 0.9989}, {COSINE: 0.9991}, {BRIEF}),
    ({SAME: 0.998}, {SAME: 0.9995}, {SAME: 0.998}, {EXACT, BRIEF, INT8}),
    ({ENTITIES: 1.0}, {ENTITIES: 0.9995}, {ENTITIES: 0.998}, {INT8}),
    ({CHANGE: -2e-4}, {CHANGE: 0.0}, {CHANGE: 0.0}, {EXACT, BRIEF, INT8}),  # better is not the same
    ({CHANGE: 1e-6}, {CHANGE: -0.5}, {CHANGE: 0.002}, {INT8}),
    ({CHANGE: 0.0}, {CHANGE: float("nan")}, {CHANGE: 0.0}, {BRIEF}),
    ({GREEDY: 0.99, SAME: 0.5}, {GREEDY: 1.0}, {GREEDY: 1.0}, {EXACT, BRIEF, INT8}),  # a cache is wrong
    ({GREEDY: 1.0, SAME: 1.0}, {GREEDY: 0.5, SAME: 0.2}, {GREEDY: 1.0}, {}),
]


@pytest.mark.parametrize(("exact", "brief", "int8", "expected"), JUDGED)
def test_what_is_wrong_is_named(exact, brief, int8, expected):
    ways = {FIRST: GOOD, EXACT: exact, BRIEF: brief, INT8: int8}
    found = wrong_of(list(ways), {one.name: measured for one, measured in ways.items()}, 1e-3)
    assert {one for one in ways if found[one.name] is not None} == set(expected)


def test_command_prints_a_table_json_and_a_plot(bundle_of, tmp_path):
    plot, texts = tmp_path / "bench.svg", tmp_path / "texts"
    texts.write_text("\n".join(TEXTS))
    options = ["bench", str(bundle_of("bert")), "--texts", str(texts), "--rounds", "1", "--threads", "1"]
    shown = CliRunner().invoke(main, [*options, "--plot", str(plot)], catch_exceptions=False)
    assert shown.exit_code == 0
    for word in ("onnxruntime float32, 1 thread", "take this", "x1.00", "take txexport.load(", "4 texts"):
        assert word in shown.output
    told = json.loads(CliRunner().invoke(main, [*options, "--json"]).stdout)
    ways, works = told["candidates"], told["works"]
    assert ways[0]["candidate"] == {
        "engine": "onnxruntime",
        "dtype": "float32",
        "precision": "float32",
        "threads": 1,
    }
    drawn = ElementTree.parse(plot).getroot()
    assert len(drawn.findall("{http://www.w3.org/2000/svg}rect")) == len(ways) * len(works)
    wrong = CliRunner().invoke(main, [*options, "--plot", str(tmp_path / "a.png")])
    assert (wrong.exit_code, "does not end in .svg" in wrong.output) == (2, True)


def test_refusals_are_one_line(bundle_of):
    for options, said in (({"loss": 1.5}, "loss is 1.5, expected a share"), ({"rounds": 0}, "rounds is 0")):
        with pytest.raises(InputError, match=said):
            txexport.bench(bundle_of("bert"), **options)
    with pytest.raises(InputError, match="compared on texts or images, but the bundle is for transcribe"):
        txexport.bench(bundle_of("whisper"), threads=1)


def test_needs_neither_pytorch_nor_an_engine_before_it_runs():
    loaded = loaded_after("from txexport.benchmark import bench")
    assert not loaded & {"torch", "transformers", "onnx", "onnxruntime", "openvino", "rich", "click"}
