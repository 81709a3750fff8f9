"""onnxruntime-web opens a bundle's graph and its weights as bytes, without another library."""

import json
from functools import partial

import pytest
from helpers.client_rows import assert_outputs, assert_steps, forward_inputs, rows_of
from helpers.rows import FEATURES, GENERATE, LABEL

from txexport import bundle
from txexport.contracts import roles
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
    files = exported(row)
    graph = bundle.read(files.bundle).hub[roles.MODEL]
    assert_steps(row, files.checkpoint, graph, partial(web.run, files.bundle / graph.file))
