"""Graphs that compute in float16 or bfloat16, and the parts of them that need float32."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import tiny_checkpoint
from helpers.rows import CLASSIFY, Row
from txgraphs._graph import Graph
from txgraphs._nodes import Parameter
from txgraphs.doubled import doubled
from txgraphs.edges import edge_distances
from txgraphs.grounded_stack import place_points
from txgraphs.inputs.convnext import response_norm
from txgraphs.inputs.naflex import position_shares
from txgraphs.inputs.patches import resized
from txgraphs.mask_decoder import stable_first
from txgraphs.model import models
from txgraphs.packed import grid_positions
from txgraphs.position import patch_rotation
from txgraphs.query_stack import sine_positions

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import DYNAMIC, ECOSYSTEM, ONE_PASS, SHARED, STATIC
from txexport.contracts.cache_names import is_past, is_present
from txexport.formats import FLOAT32
from txexport.spec import DecoderSpec, PatchSpec, RotarySpec, StabilitySpec

HALF, BRAIN = ir.DataType.FLOAT16, ir.DataType.BFLOAT16
# Between them they have every component of text: rotary, slopes, buckets, experts, caps, windows, patches.
MODELS = (
    *("albert", "bert", "esm", "deit", "dinov2", "longformer", "clip", "gpt2", "llama", "gemma2", "mixtral"),
    *("bloom", "mistral", "t5", "whisper", Row("bart", "BartForSequenceClassification", CLASSIFY)),
)
CASES = [
    *(
        pytest.param(model, HALF, opset, id=f"{model}-float16-{opset}")
        for model in MODELS
        for opset in (24, 17)
    ),
    *(pytest.param(model, BRAIN, 24, id=f"{model}-bfloat16-24") for model in tiny_checkpoint.FAMILIES),
    *(
        pytest.param(model, HALF, opset, id=f"{model}-float16-{opset}", marks=pytest.mark.slow)
        for model in tiny_checkpoint.FAMILIES
        for opset in (24, 17)
        if model not in MODELS
    ),
]


@pytest.mark.parametrize(("model", "dtype", "opset"), CASES)
def test_numbers_of_a_graph_are_of_its_type(model, dtype, opset, checkpoint_of):
    """No ONNX Runtime loads a graph that mixes types, so the model could not be had in half precision."""
    resolved = families.resolve(Checkpoint(checkpoint_of(model)), None)
    contracts = (STATIC, DYNAMIC, ECOSYSTEM) if resolved.spec.generates else (ONE_PASS, ECOSYSTEM)
    contracts += (SHARED,) if isinstance(resolved.spec, DecoderSpec) else ()
    stored = {
        name: Parameter(FLOAT32, {"": ir.tensor(np.zeros(weight.shape, dtype.numpy()), name=name)})
        for name, weight in resolved.weights.items()
    }
    for contract in contracts:
        for graph in models(resolved.spec, contract, lambda role: stored, dtype).values():
            proto = ir.to_proto(graph.model("test", opset))
            onnx.checker.check_model(proto, full_check=True)
            kinds = {port.type.tensor_type.elem_type for port in (*proto.graph.input, *proto.graph.output)}
            others = {onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL}
            assert kinds <= {int(dtype)} | others
            caches = {
                port.type.tensor_type.elem_type
                for port in (*proto.graph.input, *proto.graph.output)
                if is_past(port.name) or is_present(port.name)
            }
            assert caches <= {int(dtype)}


RANDOM = np.random.default_rng(0)
PIXELS, TABLE = RANDOM.random((2, 3, 300, 420), np.float32), RANDOM.random((16, 8), np.float32)
MAPS, SIDES = RANDOM.random((2, 40, 60, 8), np.float32), np.array([[20, 29], [31, 7]])
PLACES = np.stack([np.arange(580) // 29, np.arange(580) % 29])[:, None]  # (2, 1, N), of one image of SIDES
SPAN = np.full((2, 1, 580), [[[20]], [[29]]])
TURNS = RotarySpec(tuple(0.7**n for n in range(4)))
COMPUTED = {  # in float32 within a graph of float16, by the function of a graph's type, and its arguments
    "patch_rotation": (lambda kind: patch_rotation(PatchSpec(8, (12, 19), 4), TURNS, kind), [PIXELS]),
    "sine_positions": (lambda kind: sine_positions(8, kind), [np.ones((1, 90, 70), bool)]),
    "position_shares": (lambda kind: position_shares(9), [SIDES, np.array([600])]),
    "grid_positions": (lambda kind: grid_positions(4), [PLACES, SPAN, TABLE]),
    "antialiased": (lambda kind: resized((4, 4), kind, antialias=True), [TABLE, np.array([3, 9])]),
    "response_norm": (lambda kind: response_norm, [20 * MAPS, MAPS[0, 0, 0], MAPS[1, 0, 0]]),
    "place_points": (lambda kind: place_points, [np.ones((1, 150, 70), bool), MAPS]),
    "edge_distances": (
        lambda kind: edge_distances(32),
        [np.array([3.7], np.float32), np.array([0.4], np.float32)],
    ),
    "doubled": (lambda kind: doubled, [MAPS]),
    "stable_first": (
        lambda kind: stable_first(StabilitySpec(0.1, 0.4)),
        [MAPS[:, None].transpose(0, 1, 4, 2, 3) - 0.3, MAPS[:, :1, 0]],
    ),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_numbers_of_float16_are_those_of_float32(name):
    """Rounded inputs and outputs account for the error: no angle and no sum was computed in float16."""
    function, arguments = COMPUTED[name]
    results = []
    for kind in (HALF, ir.DataType.FLOAT):
        graph, feeds = Graph("one", {}, kind), {}
        for number, argument in enumerate(arguments):
            floats = argument.dtype == np.float32
            feeds[f"x{number}"] = argument.astype(np.float16).astype(kind.numpy()) if floats else argument
        values = [
            graph.input(
                key, ir.DataType.from_numpy(value.dtype), [f"{key}_{axis}" for axis in range(value.ndim)]
            )
            for key, value in feeds.items()
        ]
        outputs = graph.call(function(kind), *values)
        for number, output in enumerate([outputs] if isinstance(outputs, ir.Value) else outputs):
            single = name in ("position_shares", "edge_distances")
            graph.output(output, f"y{number}", ir.DataType.FLOAT if single else kind, [])
            output.shape = None
        model = ir.to_proto(graph.model("test")).SerializeToString()
        session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        results.append([y.astype(np.float64) for y in session.run(None, feeds)])
    for half, single in zip(*results, strict=True):
        assert np.isfinite(half).all()
        assert np.abs(half - single).max() <= 2**-9 * np.abs(single).max()
