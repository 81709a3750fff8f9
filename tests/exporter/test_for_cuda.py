"""export --for cuda: graphs that CUDA graphs can capture, and whose float16 computes in float16."""

import re
from shutil import copytree

import numpy as np
import onnx
import pytest
import tiny_checkpoint
from safetensors.numpy import load_file, save_file

import txexport
from txexport import export, verify
from txexport.bundle import read
from txexport.errors import InputError, UnsupportedError
from txexport.inspection.table import placement_line
from txexport.verification.checks import RANGE
from txexport.verification.reports.facts import facts_line

SOME = ["gpt2", "llama", "gemma2", "mistral", "t5", "bart", "bert", "vit"]
# Decoders that read a prompt in another way than a step, in branches: those of states.
BRANCHING = {
    *(
        "qwen3_next",
        "qwen3_5_text",
        "qwen3_5_moe_text",
        "qwen3_5",
        "qwen3_5_moe",
        "granitemoehybrid",
        "bamba",
    ),
    *("bamba", "falcon_h1", "mamba2", "mamba", "falcon_mamba", "nemotron_h", "jamba", "olmo_hybrid"),
    "kimi_linear",
    "recurrent_gemma",
    "rwkv",
    "zamba2",
}
# Those that copy a few sizes of vectors a step, Gemma 3n, or how many rows each expert has.
COPYING = {"as_long_as", "beyond", "sizes"}


@pytest.fixture(scope="module")
def for_cuda(checkpoint_of, tmp_path_factory):
    """A function from a model_type and a dtype to a bundle for CUDA."""
    bundles: dict[tuple[str, str], object] = {}

    def get(model_type: str, dtype: str = "float32"):
        if (model_type, dtype) not in bundles:
            out = tmp_path_factory.mktemp("cuda") / "out"
            export(checkpoint_of(model_type), out, client="cuda", dtype=dtype)
            bundles[model_type, dtype] = out
        return bundles[model_type, dtype]

    return get


def placed(folder):
    """The placement of each graph by file."""
    return txexport.inspect(folder, provider="cuda").bundle.placements


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("model_type", SOME)
def test_graphs_can_be_captured_and_are_equal(model_type, dtype, for_cuda):
    folder = for_cuda(model_type, dtype)
    assert {file: one.captured for file, one in placed(folder).items()} == dict.fromkeys(placed(folder), True)
    report = verify(folder, cases="quick")
    assert report.ok, facts_line(report)


DECODERS = [
    *(
        "biogpt",
        "bloom",
        "codegen",
        "cohere",
        "cohere2",
        "cwm",
        "ernie4_5",
        "exaone4",
        "falcon",
        "glm",
        "glm4",
    ),
    *("gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "granite", "helium", "mpt", "nemotron", "olmo", "olmo2"),
    *("opt", "phi", "phi3", "qwen2", "qwen3", "smollm3", "stablelm", "starcoder2", "vaultgemma", "youtu"),
    *("marian", "mbart", "pegasus", "m2m_100", "mt5", "blenderbot"),
]


@pytest.mark.slow
@pytest.mark.parametrize("model_type", DECODERS)
def test_every_dense_decoder_can_be_captured_in_float16(model_type, for_cuda):
    folder = for_cuda(model_type, "float16")
    assert all(one.captured for one in placed(folder).values())
    report = verify(folder)
    assert report.ok, facts_line(report)


@pytest.mark.parametrize(
    "model_type",
    [
        pytest.param(one, marks=[] if one in ("mamba", "qwen3_next", "qwen2_vl") else [pytest.mark.slow])
        for one in tiny_checkpoint.FAMILIES
    ],
)
def test_a_step_runs_on_the_device_alone(model_type, for_cuda):
    for file, one in placed(for_cuda(model_type)).items():
        if file.startswith(("onnx/model_static", "onnx/target_static")):
            assert not one.missing
            assert (one.branches > 0) == (model_type in BRANCHING)
            assert all(any(name in copied for name in COPYING) for copied in one.copies), one.copies
            assert len(one.copies) <= 8


@pytest.mark.parametrize(
    ("model_type", "steps"),
    [("llama", {"model"}), ("t5", {"decoder_model"}), ("mixtral", set()), ("mamba", set()), ("bert", set())],
)
def test_a_manifest_tells_which_steps_are_captured(model_type, steps, for_cuda):
    """A runtime without onnx reads it; experts wait for the processor, states branch, BERT has no steps."""
    graphs = read(for_cuda(model_type)).graphs
    assert {role for role, graph in graphs.items() if graph.captured} == steps
    files = placed(for_cuda(model_type))
    assert all(files[graph.file].captured for graph in graphs.values() if graph.captured)


SPELLED = [("mamba", "float32"), ("owlvit", "float32"), ("owlvit", "float16")]


@pytest.mark.parametrize(("model_type", "dtype"), SPELLED)
def test_operators_without_kernels_are_spelled_and_equal(model_type, dtype, for_cuda):
    assert not any(one.missing for one in placed(for_cuda(model_type, dtype)).values())
    report = verify(for_cuda(model_type, dtype), cases="quick")
    assert report.ok, facts_line(report)


@pytest.mark.parametrize("model_type", ["llama", "t5"])
def test_numbers_in_float16_are_half_as_long(model_type, for_cuda):
    """The weights, the caches and what is computed; texts and logits are as they were."""
    folder = for_cuda(model_type, "float16")
    kinds = {
        port.name: port.dtype
        for graph in read(folder).native.values()
        for port in (*graph.inputs, *graph.outputs)
    }
    halves = {name for name, kind in kinds.items() if kind == "float16"}
    assert halves == {name for name in kinds if name.startswith(("past_key_values", "present"))}
    assert kinds["logits"] == "float"
    for graph in read(folder).native.values():
        model = onnx.load(folder / graph.file, load_external_data=False)
        stored = {one.data_type for one in model.graph.initializer} - {onnx.TensorProto.INT64}
        assert stored == {onnx.TensorProto.FLOAT16}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("model_type", ["gpt2", "llama", "t5"])
def test_generation_is_that_of_the_default_bundle(model_type, dtype, for_cuda, bundle_of):
    """Ragged rows, beams and sampling, over caches of float16 too."""
    texts = ["a small house", "the"]
    ours, usual = txexport.load(for_cuda(model_type, dtype)), txexport.load(bundle_of(model_type))
    for options in ({}, {"num_beams": 3}, {"do_sample": True, "seed": 3}):
        answers = [one.generate(texts, max_new_tokens=6, **options) for one in (ours, usual)]
        if dtype == "float32":
            assert answers[0] == answers[1]
        assert len(answers[0]) == 2
    scores = [one.score(texts, texts) if model_type == "t5" else one.score(texts) for one in (ours, usual)]
    for computed, expected in zip(*scores, strict=True):
        np.testing.assert_allclose(computed.total, expected.total, rtol=1e-5 if dtype == "float32" else 2e-2)


def test_what_is_told_of_float16(for_cuda):
    assert "graphs of float16 compute in it: each number within 3e-02" in facts_line(
        verify(for_cuda("gpt2", "float16"), cases="quick")
    )
    assert "compute in it" not in facts_line(verify(for_cuda("gpt2"), cases="quick"))


@pytest.mark.parametrize(
    ("model_type", "options", "kind", "message"),
    [
        ("gpt2", {"only": "hub"}, InputError, "'cuda' is for native graphs, and hub graphs are for other"),
        ("gpt2", {"single_file": True}, InputError, "'cuda' is for native graphs, and a single file is"),
        ("gpt2", {"cache": "dynamic"}, InputError, "a dynamic cache cannot be captured"),
        ("gpt2", {"dtype": "float16", "keep": ["*.q.*"]}, InputError, "compute in float16 alone"),
        (
            "fnet",
            {"dtype": "float16"},
            UnsupportedError,
            "fnet cannot: its sums over all tokens exceed float16",
        ),
        ("mamba", {"dtype": "float16"}, UnsupportedError, "mamba cannot: its states stay float32"),
        ("mixtral", {"dtype": "float16"}, UnsupportedError, "mixtral cannot: a rounding error selects other"),
    ],
)
def test_what_graphs_for_cuda_cannot_be_is_said(model_type, options, kind, message, checkpoint_of, tmp_path):
    with pytest.raises(kind, match=message):
        export(checkpoint_of(model_type), tmp_path / "out", client="cuda", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "int4"])
def test_other_dtypes_compute_in_float32_as_ever(dtype, for_cuda):
    folder = for_cuda("llama", dtype)
    assert all(one.captured for one in placed(folder).values())
    report = verify(folder, cases="quick")
    assert report.ok, facts_line(report)


def test_a_bundle_of_two_dtypes_tells_the_bound_of_each(checkpoint_of, bundle_of, tmp_path):
    """verify, its repetition from stored answers, and a comparison with another bundle."""
    export(checkpoint_of("llama"), tmp_path / "out", client="cuda", dtype=["float16", "float32"])
    both = "each within 1e-05 (native float16: 3e-02) or float32's own rounding"
    assert both in facts_line(verify(tmp_path / "out", cases="quick"))
    assert both in facts_line(txexport.verify_here(tmp_path / "out"))
    compared = txexport.compare(tmp_path / "out", bundle_of("llama"))
    assert compared.ok, facts_line(compared)
    assert txexport.inspect(tmp_path / "out").cache.per_token == 128
    assert txexport.inspect(bundle_of("llama")).cache.per_token == 256


@pytest.mark.parametrize("model_type", ["llama", "t5"])
def test_attention_of_float16_is_that_of_float32(model_type, checkpoint_of, tmp_path):
    options = {"client": "cuda", "dtype": ["float16", "float32"], "outputs": ["attentions"]}
    export(checkpoint_of(model_type), tmp_path / "out", **options)
    half, single = (txexport.load(tmp_path / "out", dtype=one) for one in options["dtype"])
    texts = ["a small house"] * (2 if model_type == "t5" else 1)
    maps, expected = (model.attention(*texts) for model in (half, single))
    assert maps.keys() == expected.keys()
    for name, one in expected.items():
        np.testing.assert_allclose(maps[name].weights, one.weights, atol=2e-3)


def test_layers_of_float16_are_refused(for_cuda):
    with pytest.raises(InputError, match="graphs of float16 compute in it"):
        verify(for_cuda("gpt2", "float16"), layers=True)


def test_experts_wait_for_the_processor(for_cuda):
    """Twice in each layer: for the rows, and for how many each expert has."""
    [one] = placed(for_cuda("mixtral")).values()
    assert (one.branches, len(one.copies), one.waits) == (0, 2, 2)
    assert not one.captured
    assert "2 nodes that the processor waits for; cannot be captured" in placement_line(one)


def test_a_layer_whose_numbers_float16_cannot_hold_is_named(checkpoint_of, tmp_path):
    """A feed-forward of weights that float16 holds, whose outputs it does not."""
    folder = tmp_path / "in"
    copytree(checkpoint_of("llama"), folder)
    weights = load_file(folder / "model.safetensors")
    for name in ("up_proj", "down_proj", "gate_proj"):
        weights[f"model.layers.1.mlp.{name}.weight"] *= 100
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    export(folder, tmp_path / "out", client="cuda", dtype="float16")
    report = verify(tmp_path / "out", cases="quick")
    [failed] = [case for case in report.failed if case.name == RANGE]
    pattern = r"float16 ends at 65504, and decoder\.layers\.1\.feed_forward\S* reaches \S+, and 3 more "
    assert re.match(pattern, str(failed.exception)), failed.exception


def test_numbers_within_the_range_are_told_by_the_largest(for_cuda):
    [case] = [one for one in verify(for_cuda("llama", "float16"), cases="quick").cases if one.name == RANGE]
    [check] = case.checks
    assert check.ok
    assert 0 < check.error < 0.01
    assert RANGE not in {one.name for one in verify(for_cuda("llama"), cases="quick").cases}
