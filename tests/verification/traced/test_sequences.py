"""Encoder-decoders, traced: two graphs that `load` runs, proved beside the class."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import transformers
from onnx import numpy_helper

import txexport
from txexport import bundle
from txexport.verification.checks import IDENTITY
from txexport.verification.traced import sequences
from txexport.verification.traced.originals import original


@pytest.fixture(scope="module")
def sequence(tmp_path_factory, checkpoint_of):
    """A checkpoint, and its traced bundle, which no test may change."""
    source, out = checkpoint_of("t5"), tmp_path_factory.mktemp("sequence") / "out"
    txexport.export_traced(source, out)
    return source, out


def test_is_loaded_as_any_bundle_and_writes_what_the_class_writes(sequence):
    source, out = sequence
    manifest = bundle.read_manifest(out)
    assert (manifest.task, manifest.traced) == ("text2text-generation", "T5ForConditionalGeneration")
    assert sorted(manifest.data) == ["onnx/source_dynamic.onnx_data", "onnx/target_dynamic.onnx_data"]
    judge = transformers.AutoModelForSeq2SeqLM.from_pretrained(source).eval()
    prompts = [[5, 9, 4, 7], [11, 8, 23, 42, 6, 19, 31, 2]]
    with txexport.load(out, device="cpu") as model:
        written = model.generate_ids(prompts, max_new_tokens=6)
    for prompt, tokens in zip(prompts, written, strict=True):
        expected = judge.generate(torch.tensor([prompt]), max_new_tokens=6, do_sample=False)
        assert tokens == expected[0, 1:].tolist()


@pytest.mark.slow
def test_is_verified_with_ragged_sources_steps_and_beams(sequence):
    _, out = sequence
    report = txexport.verify(out)
    assert report.verdict == "equal"
    assert {case.name for case in report.cases} > {
        "encoder, ragged",
        "ragged sources, in steps",
        "tokens of three beams",
        IDENTITY,
    }
    outputs = {check.output for case in report.cases for check in case.checks}
    assert outputs > {"last_hidden_state", "logits", "present.1.decoder.key", "present.1.encoder.value"}


def test_each_graph_that_is_wrong_is_found(sequence, tmp_path):
    """A weight of the step dropped, and the mask of the source ignored by the encoder."""
    source, out = sequence
    judge = original(source)

    def wrong(edit, file: str) -> set[str]:
        folder = Path(shutil.copytree(out, tmp_path / edit.__name__))
        graph = onnx.load(folder / file)
        edit(graph)
        onnx.save(graph, folder / file)
        with txexport.load(folder, device="cpu", check=False) as model:
            checks = sequences.sequence_checks(judge, model)
            return {name for name, run in checks.items() if not all(check.ok for check in run())}

    def drop_a_weight(graph):
        largest = max(graph.graph.initializer, key=lambda tensor: int(np.prod(tensor.dims)))
        largest.CopyFrom(numpy_helper.from_array(np.zeros(list(largest.dims), np.float32), largest.name))

    def ignore_mask(graph):
        ones = numpy_helper.from_array(np.array(1), "one")
        graph.graph.initializer.append(ones)
        node = onnx.helper.make_node("Max", ["attention_mask", "one"], ["every"])
        for one in graph.graph.node:
            one.input[:] = ["every" if name == "attention_mask" else name for name in one.input]
        graph.graph.node.insert(0, node)

    assert {"one pass", "steps"} <= wrong(drop_a_weight, "onnx/target_dynamic.onnx")
    failed = wrong(ignore_mask, "onnx/source_dynamic.onnx")
    assert {"encoder, ragged", "ragged sources, in steps", "nine rows"} <= failed
    assert not {"one pass", "steps", "pieces"} & failed


@pytest.mark.slow
def test_a_type_without_a_family_is_a_sequence_too(tmp_path):
    """LongT5: local attention in the encoder, which is no family here."""
    config = transformers.LongT5Config(
        vocab_size=97,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        local_radius=4,
        decoder_start_token_id=0,
        eos_token_id=1,
    )
    model = transformers.LongT5ForConditionalGeneration(config).eval()
    model.save_pretrained(tmp_path / "model")
    manifest = txexport.export_traced(tmp_path / "model", tmp_path / "out")
    assert manifest.traced == "LongT5ForConditionalGeneration"
    assert txexport.verify(tmp_path / "out", cases="quick").verdict == "equal"
