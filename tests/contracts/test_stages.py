"""The order in which a client runs the graphs of a bundle, and the source of each input."""

import numpy as np
import pytest

import txexport
from txexport import bundle, contracts, parts
from txexport.contracts.stage import MEDIA, SOURCES, GraphFacts
from txexport.spec import ModelSpec
from txexport.spec.serialization import from_dict

ENCODER_DECODER = [("encoder_model", "once"), ("decoder_model", "step")]
ORDER = {
    "bert": [("model", "once")],
    "vit": [("model", "once")],
    "clip": [("text_model", "once"), ("vision_model", "once"), ("similarity_model", "once")],
    "gpt2": [("model", "step")],
    "t5": ENCODER_DECODER,
    "whisper": [*ENCODER_DECODER, ("alignment_model", "after")],
}


@pytest.mark.parametrize("model_type", ORDER)
def test_graphs_are_listed_in_running_order(bundle_of, model_type):
    manifest = bundle.read(bundle_of(model_type))
    assert [(stage.role, stage.when) for stage in manifest.running_order] == ORDER[model_type]
    earlier = set(SOURCES)
    for stage in manifest.running_order:
        graph = manifest.graphs[stage.role]
        assert [*stage.inputs] == [port.name for port in graph.inputs]
        assert {*stage.inputs.values()} <= earlier
        earlier |= {f"{stage.role}.{port.name}" for port in (*graph.inputs, *graph.outputs)}


@pytest.mark.parametrize(
    ("model_type", "first", "ids", "media"),
    [
        ("gpt2", "tokens", "tokens", set()),
        ("t5", "tokens", "generated", set()),
        ("whisper", None, "generated", {"sound"}),
        ("vit", None, None, {"image"}),
    ],
)
def test_sources_of_prompts(bundle_of, model_type, first, ids, media):
    stages = bundle.read(bundle_of(model_type)).running_order
    assert (stages[0].ids_source, stages[-1].ids_source) == (first, ids)
    assert {source for stage in stages for source in stage.inputs.values()} & MEDIA == media


def test_a_step_takes_the_encoders_keys_and_values_and_its_mask(bundle_of):
    _, step = bundle.read(bundle_of("t5")).running_order
    assert step.inputs["encoder_attention_mask"] == "encoder_model.attention_mask"
    assert step.inputs["past_key_values.1.encoder.value"] == "encoder_model.present.1.encoder.value"
    assert step.inputs["past_key_values.1.decoder.value"] == step.inputs["cache_lengths"] == "cache"


def test_other_clients_have_two_decoders_or_one_of_both(bundle_of):
    manifest = bundle.read(bundle_of("t5"))
    first, start, later, merged = manifest.stages["hub"]
    assert [stage.when for stage in (first, start, later, merged)] == ["once", "once", "step", "step"]
    assert merged.instead_of == [start.role, later.role]
    assert not later.instead_of
    assert start.inputs["encoder_hidden_states"] == "encoder_model.last_hidden_state"
    assert later.inputs["past_key_values.0.encoder.key"] == "decoder_model.present.0.encoder.key"
    assert merged.inputs["past_key_values.0.encoder.key"] == merged.inputs["use_cache_branch"] == "cache"


def test_facts_are_those_of_the_architecture(bundle_of):
    facts = {}
    for model_type in ORDER:
        for stage in bundle.read(bundle_of(model_type)).running_order:
            facts[model_type, stage.role] = stage.facts
    config = bundle.read_json(bundle_of("bert") / "config.json")
    assert facts["bert", "model"] == GraphFacts(config["vocab_size"], "encoder")
    assert facts["vit", "model"] == GraphFacts(limit="encoder", prefix_tokens=1)
    assert facts["whisper", "encoder_model"] == GraphFacts(limit="encoder")
    assert facts["t5", "decoder_model"].limit == "decoder"
    assert facts["clip", "similarity_model"] == GraphFacts()
    clip = bundle.read_json(bundle_of("clip") / "config.json")["text_config"]
    assert facts["clip", "text_model"].vocab_size == clip["vocab_size"]


@pytest.mark.parametrize("contract", [contracts.STATIC, contracts.DYNAMIC, contracts.ECOSYSTEM])
def test_a_shared_contract_changes_sources_of_inputs_alone(bundle_of, contract):
    spec = from_dict(ModelSpec, bundle.read(bundle_of("gpt2")).spec)
    [stage] = parts.stages(spec, contract)
    assert (stage.role, stage.when, stage.ids_source) == ("model", "step", "tokens")
    [shared] = parts.stages(spec, contracts.SHARED)
    assert (shared.role, shared.instead_of, shared.facts) == ("model_shared", ["model"], stage.facts)


def test_the_runtime_reads_the_stages_and_not_names_of_roles(bundle_of):
    with txexport.load(bundle_of("t5"), device="cpu") as model:
        assert model.bundle.is_encoder_decoder
        assert model.bundle.prompt_kind == "tokens"
        assert model.bundle.step.role == "decoder_model"
        assert model.bundle.reader.role == "encoder_model"
        with pytest.warns(DeprecationWarning, match=r'use model.manifest.task == "automatic-speech-'):
            assert model.is_speech is False
    with txexport.load(bundle_of("whisper"), device="cpu") as model:
        assert model.bundle.is_encoder_decoder
        assert model.bundle.prompt_kind == "sound"
        with pytest.warns(DeprecationWarning, match="is_speech is deprecated"):
            assert model.is_speech is True
        shape = model.sessions["encoder_model"].inputs["input_features"].shape[1:]
        rows = model.generate_ids([np.zeros(shape, np.float32)], max_new_tokens=2)
        assert len(rows[0]) >= 1
    with txexport.load(bundle_of("gpt2"), device="cpu") as model:
        assert not model.bundle.is_encoder_decoder
        assert model.bundle.once == []
