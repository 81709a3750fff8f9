"""onnxruntime-web opens a bundle's graph and its weights as bytes, with no library over it."""

import json

import numpy as np
import pytest
import torch
from helpers.client_rows import TOLERANCE, assert_outputs, forward_inputs, ids_of, original, rows_of
from helpers.rows import FEATURES, GENERATE, LABEL

from txexport import bundle
from txexport.contracts import cache_names, roles
from txexport.verification.clients import onnxruntime_web as web
from txexport.verification.runtimes import npm

pytestmark = pytest.mark.skipif(web.missing() is not None, reason=str(web.missing()))
ENCODERS = [*rows_of(("bert", "roberta"), (FEATURES,)), *rows_of(("vit",), (LABEL,))]
DECODERS = rows_of(("gpt2", "llama", "qwen2"), (GENERATE,))


@pytest.fixture(autouse=True)
def _noted(request, record_property):
    row = request.node.callspec.params["row"]
    what = "graph and weights from bytes, in Node"
    for name, value in (("family", row.model_type), ("task", row.task), ("what", what)):
        record_property(name, value)
    record_property("versions", json.dumps({web.PACKAGE: npm.version(web.PACKAGE)}))


@pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row.id)
def test_outputs_equal_transformers(row, exported):
    files, inputs = exported(row), forward_inputs(row)
    assert_outputs(row, files.checkpoint, inputs, web.run(files.bundle / roles.hub_path(roles.MODEL), inputs))


@pytest.mark.parametrize("row", DECODERS, ids=lambda row: row.id)
def test_steps_over_a_past_equal_transformers(row, exported):
    """A prompt over a past of no tokens, and one token more over what that gave; a row has padding."""
    files, ids = exported(row), ids_of((2, 8))
    graph = bundle.read(files.bundle).hub[roles.MODEL]
    mask, before = np.ones(ids.shape, np.int64), ids.shape[1] - 1
    mask[1, :3] = 0
    positions = np.maximum(mask.cumsum(axis=1) - 1, 0)
    past = {
        port.name: np.zeros((len(ids), port.shape[1], 0, port.shape[3]), np.float32)
        for port in graph.inputs
        if cache_names.is_past(port.name)
    }
    logits = []
    for start, end in ((0, before), (before, before + 1)):
        step = {
            "input_ids": ids[:, start:end],
            "attention_mask": mask[:, :end],
            "position_ids": positions[:, start:end],
        }
        outputs = web.run(files.bundle / graph.file, {**step, **past})
        logits.append(outputs["logits"])
        past = {name: outputs[cache_names.to_present(name)] for name in past}
    with torch.no_grad():
        tensors = (torch.from_numpy(array) for array in (ids, mask, positions))
        expected = original(row, files.checkpoint)(
            **dict(zip(("input_ids", "attention_mask", "position_ids"), tensors, strict=True))
        ).logits.numpy()
    found = np.concatenate(logits, axis=1)
    np.testing.assert_allclose(found[mask == 1], expected[mask == 1], rtol=0, atol=TOLERANCE)
