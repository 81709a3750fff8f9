"""tract runs a bundle's graphs unchanged, with fixed shapes: outputs are those of transformers."""

from functools import partial

import numpy as np
import pytest
from helpers.client_rows import (
    DECODERS,
    ENCODER_HEADS,
    SEQ2SEQ,
    WHISPER,
    assert_outputs,
    assert_steps,
    forward_inputs,
    rows_of,
)
from helpers.rows import ANSWER, CLASSIFY, FEATURES, FILL, GENERATE, LABEL, MATCH, TAG, TRANSLATE

from txexport import bundle
from txexport.contracts import cache_names, roles
from txexport.verification.clients.process import Call, Process

CLIENT = "tract"
HEADS = (FEATURES, FILL, CLASSIFY, TAG, ANSWER)
ENCODERS = [*rows_of(ENCODER_HEADS, HEADS), *rows_of(("vit",), (LABEL,)), *rows_of(("clip",), (MATCH,))]


def run(process: Process, folder, task: str, role: str, inputs: dict) -> dict[str, np.ndarray]:
    """The outputs of a graph by name."""
    graph = bundle.read(folder).hub[role]
    feeds = {port.name: inputs[port.name] for port in graph.inputs}
    [answer] = process.ask(folder, task, [Call("forward", feeds, {"file": graph.file})])
    return {port.name: answer[str(i)] for i, port in enumerate(graph.outputs)}


@pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row.id)
def test_outputs_equal_transformers(row, exported, process, record):
    record(row, "outputs, with fixed input shapes")
    files, inputs = exported(row), forward_inputs(row)
    assert_outputs(row, files.checkpoint, inputs, run(process, files.bundle, row.task, roles.MODEL, inputs))


@pytest.mark.parametrize("row", rows_of(DECODERS, (GENERATE,)), ids=lambda row: row.id)
def test_steps_over_a_past_equal_transformers(row, exported, process, record):
    record(row, "outputs, with fixed input shapes")
    files = exported(row)
    graph = bundle.read(files.bundle).hub[roles.MODEL]
    assert_steps(row, files.checkpoint, graph, partial(run, process, files.bundle, row.task, roles.MODEL))


@pytest.mark.parametrize("row", [*rows_of(SEQ2SEQ, (TRANSLATE,)), WHISPER], ids=lambda row: row.id)
def test_encoder_and_both_decoders_equal_transformers(row, exported, process, record):
    record(row, "outputs, with fixed input shapes")
    files, inputs = exported(row), forward_inputs(row)
    ids, first = inputs["decoder_input_ids"], 3
    encoded = run(process, files.bundle, row.task, roles.ENCODER, inputs)
    given = {"encoder_hidden_states": encoded["last_hidden_state"]}
    if "attention_mask" in inputs:
        given["encoder_attention_mask"] = inputs["attention_mask"]
    start = run(process, files.bundle, row.task, roles.DECODER, {**given, "input_ids": ids[:, :first]})
    past = {cache_names.to_past(name): array for name, array in start.items() if name != "logits"}
    step = {**given, **past, "input_ids": ids[:, first:]}
    later = run(process, files.bundle, row.task, roles.DECODER_WITH_PAST, step)
    logits = np.concatenate([start["logits"], later["logits"]], axis=1)
    assert_outputs(row, files.checkpoint, inputs, {"logits": logits})
