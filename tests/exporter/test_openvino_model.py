"""A decoder in OpenVINO's own format: its variables hold the caches that the bundle's graph returns."""

import json

import numpy as np
import onnxruntime
import pytest
import tiny_checkpoint
from click.testing import CliRunner
from helpers.saturation import skip_where_products_saturate

import txexport
from txexport import bundle
from txexport.cli.main import main
from txexport.contracts import cache_names
from txexport.errors import BundleError, UnsupportedError
from txexport.exporter import export
from txexport.exporter.openvino_model import MODEL

openvino = pytest.importorskip("openvino")

MODEL_TYPES = (
    *("llama", "gemma2", "deepseek_v3", "lfm2", "granitemoehybrid", "mamba2", "qwen3_5_text", "rwkv"),
    *("kimi_linear", "bloom"),
)
SHORTEST = 3  # tokens of the prompt whose row is padded
ORDERS = ([0, 1, 2], [2, 0, 0], [1, 2, 0])  # of rows, as beams are chosen
CLOSE = 1e-5  # of the largest logit
EXACT = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}


def steps() -> list[dict[str, np.ndarray]]:
    """The inputs of a prompt (3,8) with left padding and of a step with each of ORDERS, without caches."""
    ids = np.random.default_rng(0).integers(5, 90, (3, 8 + len(ORDERS)))
    mask = np.ones_like(ids)
    mask[1, : 8 - SHORTEST] = 0
    positions, calls = np.maximum(mask.cumsum(axis=1) - 1, 0), []
    bounds = [(0, 8), *((end - 1, end) for end in range(9, ids.shape[1] + 1))]
    for (start, end), order in zip(bounds, [[0, 1, 2], *ORDERS], strict=True):
        mask, positions = mask[order], positions[order]
        calls.append(
            {
                "input_ids": ids[:, start:end],
                "attention_mask": mask[:, :end],
                "position_ids": positions[:, start:end],
                "beam_idx": np.array(order, np.int32),
            }
        )
    return calls


def by_graph(path) -> list[np.ndarray]:
    """The logits of `steps` by the bundle's graph on ONNX Runtime."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = {port.name: port.shape[1:] for port in session.get_inputs()}
    outputs = [port.name for port in session.get_outputs()]
    caches = {
        name: np.zeros((3, *(size if isinstance(size, int) else 0 for size in shape)), np.float32)
        for name, shape in names.items()
        if cache_names.is_past(name)
    }
    logits = []
    for call in steps():
        caches = {name: array[call["beam_idx"]] for name, array in caches.items()}
        feeds = {name: array for name, array in call.items() if name in names}
        result = dict(zip(outputs, session.run(None, feeds | caches), strict=True))
        logits.append(result["logits"])
        caches = {name: result[cache_names.to_present(name)] for name in caches}
    return logits


def by_variables(folder) -> list[np.ndarray]:
    """The same by OpenVINO's model."""
    request = openvino.Core().compile_model(folder / MODEL, "CPU", EXACT).create_infer_request()
    names = {port.get_any_name() for port in request.get_compiled_model().inputs}
    calls = [{name: array for name, array in call.items() if name in names} for call in steps()]
    return [request.infer(call)["logits"].copy() for call in calls]


def assert_close(logits: np.ndarray, expected: np.ndarray) -> None:
    """Assert equality but for rounding of float32."""
    largest = float(np.abs(expected).max())
    assert largest > 0.01
    np.testing.assert_allclose(logits, expected, rtol=0, atol=CLOSE * largest)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_logits_are_those_of_the_graph(model_type, checkpoint_of, tmp_path):
    """With padding, and rows that continue other rows, as beams do."""
    export(checkpoint_of(model_type), tmp_path / "bundle", client="openvino")
    txexport.to_openvino(tmp_path / "bundle", tmp_path / "model")
    logits, expected = by_variables(tmp_path / "model"), by_graph(tmp_path / "bundle/model.onnx")
    for one in (logits, expected):
        one[0] = np.concatenate([one[0][[0, 2]].reshape(-1, one[0].shape[2]), one[0][1, -SHORTEST:]])
    for pair in zip(logits, expected, strict=True):
        assert_close(*pair)


def test_a_folder_has_what_a_client_opens(checkpoint_of, tmp_path):
    export(checkpoint_of("llama"), tmp_path / "bundle", dtype=["float32", "int8"])
    done = CliRunner().invoke(main, ["to-openvino", str(tmp_path / "bundle"), str(tmp_path / "model")])
    assert (
        done.output
        == f"{tmp_path}/model: openvino_model.xml, openvino_model.bin (optimum-intel, OpenVINO GenAI)\n"
    )
    copied = bundle.read(tmp_path / "bundle").companions.keys() - {"genai_config.json"}
    assert {path.name for path in (tmp_path / "model").iterdir()} == {MODEL, "openvino_model.bin", *copied}
    assert {"config.json", "generation_config.json", "tokenizer.json"} <= copied


@pytest.mark.parametrize(("dtype", "size"), [("int4", 0), ("int4-fast", 32)])
def test_activations_are_rounded_as_the_dtype_says(dtype, size, tmp_path):
    """Caches never are. Without these settings OpenVINO may round both to 8 bits."""
    sizes = {"hidden_size": 64, "head_dim": 16, "intermediate_size": 96}  # whole blocks of 32
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    tiny_checkpoint.save(tmp_path / "checkpoint", "llama", "LlamaForCausalLM", **sizes, **heads)
    export(tmp_path / "checkpoint", tmp_path / "bundle", dtype=dtype)
    txexport.to_openvino(tmp_path / "bundle", tmp_path / "model", dtype=dtype)
    model = openvino.Core().compile_model(tmp_path / "model" / MODEL, "CPU")
    assert model.get_property("KV_CACHE_PRECISION") == openvino.Type.f32
    assert model.get_property("DYNAMIC_QUANTIZATION_GROUP_SIZE") == size


def test_integers_are_those_of_the_graph(checkpoint_of, tmp_path):
    skip_where_products_saturate()  # in OpenVINO
    export(checkpoint_of("llama"), tmp_path / "bundle", dtype="int8", client="openvino")
    txexport.to_openvino(tmp_path / "bundle", tmp_path / "model")
    [graph] = bundle.read(tmp_path / "bundle").hub.values()
    logits, expected = by_variables(tmp_path / "model")[-1], by_graph(tmp_path / "bundle" / graph.file)[-1]
    assert_close(logits, expected)


REFUSED = [
    (
        "bert",
        {},
        UnsupportedError,
        "is for feature-extraction; only text-generation becomes OpenVINO's format",
    ),
    ("zamba2", {}, UnsupportedError, "optimum-intel leaves out the mask that zamba2 needs"),
    (
        "llama",
        {"only": "native"},
        BundleError,
        "lacks the graph for other clients; export without --only native",
    ),
    ("qwen3_next", {}, BundleError, "has If nodes; OpenVINO .*; export with --for openvino"),
]


@pytest.mark.parametrize(("model_type", "form", "error", "message"), REFUSED)
def test_other_bundles_are_refused(model_type, form, error, message, checkpoint_of, tmp_path):
    export(checkpoint_of(model_type), tmp_path / "bundle", **form)
    with pytest.raises(error, match=message):
        txexport.to_openvino(tmp_path / "bundle", tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_nothing_is_replaced(checkpoint_of, tmp_path):
    export(checkpoint_of("llama"), tmp_path / "bundle")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").write_text("kept")
    with pytest.raises(BundleError, match="exists and is not a bundle; choose another folder"):
        txexport.to_openvino(tmp_path / "bundle", tmp_path / "model")
    with pytest.raises(BundleError, match="is within the bundle"):
        txexport.to_openvino(tmp_path / "bundle", tmp_path / "bundle" / "model")
    config = json.loads((tmp_path / "bundle" / "config.json").read_text())
    (tmp_path / "bundle" / "config.json").write_text(json.dumps(config | {"vocab_size": 7}))
    with pytest.raises(BundleError, match="is not the file that was exported"):
        txexport.to_openvino(tmp_path / "bundle", tmp_path / "other")
