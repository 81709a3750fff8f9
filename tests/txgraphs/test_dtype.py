"""A graph built in float16 has no node in float32 by accident."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from helpers.rows import CLASSIFY, Row
from txgraphs._nodes import Parameter
from txgraphs.model import models

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import DYNAMIC, ECOSYSTEM, ONE_PASS, SHARED, STATIC
from txexport.contracts.names import USE_CACHE_BRANCH
from txexport.formats import FLOAT32
from txexport.spec import DecoderSpec

# Between them they have every component: rotary, slopes, buckets, experts, caps, windows, patches.
MODELS = (
    *("albert", "bert", "esm", "deit", "dinov2", "longformer", "clip", "gpt2", "llama", "gemma2", "mixtral"),
    *("bloom", "mistral", "t5", "whisper", Row("bart", "BartForSequenceClassification", CLASSIFY)),
)


@pytest.mark.parametrize("opset", [24, 17])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_numbers_of_a_graph_are_of_its_type(model, opset, checkpoint_of):
    resolved = families.resolve(Checkpoint(checkpoint_of(model)), None)
    contracts = (STATIC, DYNAMIC, ECOSYSTEM) if resolved.spec.generates else (ONE_PASS, ECOSYSTEM)
    contracts += (SHARED,) if isinstance(resolved.spec, DecoderSpec) else ()
    stored = {
        name: Parameter(FLOAT32, {"": ir.tensor(np.zeros(weight.shape, np.float16), name=name)})
        for name, weight in resolved.weights.items()
    }
    for contract in contracts:
        for graph in models(resolved.spec, contract, lambda role: stored, ir.DataType.FLOAT16).values():
            proto = ir.to_proto(graph.model("test", opset))
            onnx.checker.check_model(proto, full_check=True)
            ports = [
                port for port in (*proto.graph.input, *proto.graph.output) if port.name != USE_CACHE_BRANCH
            ]
            kinds = {port.type.tensor_type.elem_type for port in ports}
            assert kinds <= {onnx.TensorProto.FLOAT16, onnx.TensorProto.INT64}
