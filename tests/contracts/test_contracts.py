"""The contract with other programs that open a bundle's graphs: names, shapes, order, layouts."""

import pytest
from helpers.row import CONVERSE, Row

from txexport import bundle, contracts, parts
from txexport.contracts import cache_names, roles
from txexport.contracts.ecosystem import DECODER_INPUTS, LAYOUTS
from txexport.errors import SpecError
from txexport.spec import ModelSpec
from txexport.spec.serialization import from_dict

PARTS = ("decoder", "encoder")
QUESTIONS = Row("blip", "BlipForQuestionAnswering", CONVERSE)
BUNDLES = [
    ("bert", None),
    ("vit", None),
    ("clip", None),
    ("gpt2", "static"),
    ("gpt2", "dynamic"),
    ("t5", "static"),
    ("t5", "dynamic"),
    ("whisper", "static"),
    ("qwen2_audio", "static"),
    ("qwen2_audio", "dynamic"),
    ("voxtral", "static"),
    ("florence2", "static"),
    ("florence2", "dynamic"),
    ("layoutlm", None),
    ("layoutlmv3", None),
    ("lilt", None),
    (QUESTIONS, "static"),
    (QUESTIONS, "dynamic"),
    ("mllama", "static"),
    ("mllama", "dynamic"),
]


def declared(folder):
    manifest = bundle.read(folder)
    return manifest, from_dict(ModelSpec, manifest.spec)


def names(ports):
    return [port.name for port in ports]


@pytest.mark.parametrize(("model_type", "cache"), BUNDLES, ids=str)
def test_a_bundle_declares_what_its_contract_says(bundle_of, model_type, cache):
    manifest, spec = declared(bundle_of(model_type, cache))
    signatures = parts.signatures(spec, contracts.of_cache(cache))
    assert tuple(manifest.graphs) == tuple(signatures) == parts.roles_of(spec)
    for role, graph in manifest.graphs.items():
        assert graph.file == roles.native_path(role, cache)
        assert (graph.inputs, graph.outputs) == tuple(map(list, vars(signatures[role]).values()))


def test_names_of_a_decoder(bundle_of):
    _, spec = declared(bundle_of("gpt2", "static"))
    cache = [f"{{}}.{layer}.{kind}" for layer in range(2) for kind in ("key", "value")]
    past, present = ([name.format(kind) for name in cache] for kind in ("past_key_values", "present"))
    static, dynamic = (
        parts.signatures(spec, contract)["model"] for contract in (contracts.STATIC, contracts.DYNAMIC)
    )
    assert names(static.inputs) == ["input_ids", "cache_lengths", "logits_indices", *past]
    assert names(dynamic.inputs) == ["input_ids", "attention_mask", "position_ids", *past]
    assert names(static.outputs) == names(dynamic.outputs) == ["logits", *present]
    key = {port.name: port.shape for port in (*dynamic.inputs, *dynamic.outputs)}
    assert key["past_key_values.0.key"] == ["batch_size", 3, "past_sequence_length", 16]
    assert key["present.0.key"] == ["batch_size", 3, "total_sequence_length", 16]
    assert key["attention_mask"] == ["batch_size", "total_sequence_length"]


def test_a_decoder_alone_is_the_ecosystems(bundle_of):
    _, spec = declared(bundle_of("gpt2", "dynamic"))
    assert parts.signatures(spec, contracts.ECOSYSTEM) == parts.signatures(spec, contracts.DYNAMIC)


def test_a_shared_buffer_is_told_by_what_the_ecosystem_gives(bundle_of):
    """As onnxruntime-genai binds it: a mask over all tokens, past and present of one shape, all logits."""
    _, spec = declared(bundle_of("gpt2", "static"))
    assert parts.for_others(spec, roles.GENAI) == {
        roles.MODEL: contracts.ECOSYSTEM,
        roles.SHARED: contracts.SHARED,
    }
    static, shared = (
        parts.signatures(spec, contracts.STATIC)["model"],
        parts.signatures(spec, contracts.SHARED)["model_shared"],
    )
    cache = [name for name in names(static.inputs) if cache_names.is_past(name)]
    assert names(shared.inputs) == ["input_ids", "attention_mask", *cache]
    assert names(shared.outputs) == names(static.outputs)
    shapes = {port.name: port.shape for port in (*shared.inputs, *shared.outputs)}
    assert shapes["attention_mask"] == ["batch_size", "total_sequence_length"]
    assert shapes["logits"][:2] == ["batch_size", "sequence_length"]
    assert shapes["past_key_values.0.key"] == shapes["present.0.key"] == ["batch_size", 3, "capacity", 16]
    _, both = declared(bundle_of("t5"))
    with pytest.raises(SpecError, match="a shared buffer needs a decoder without an encoder"):
        parts.signatures(both, contracts.SHARED)


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "t5", "whisper", "clip"])
def test_graphs_for_other_clients_declare_what_the_ecosystem_expects(bundle_of, model_type):
    manifest, spec = declared(bundle_of(model_type))
    signatures = parts.signatures(spec, contracts.ECOSYSTEM)
    assert tuple(manifest.hub) == tuple(signatures)
    for role, graph in manifest.hub.items():
        assert graph.file == roles.hub_path(role)
        assert (graph.inputs, graph.outputs) == tuple(map(list, vars(signatures[role]).values()))


def test_the_ecosystems_encoder_decoder(bundle_of):
    """As optimum's exporter writes them: names, layer by layer, and a merged decoder for any past."""
    _, spec = declared(bundle_of("t5"))
    signatures = parts.signatures(spec, contracts.ECOSYSTEM)
    assert LAYOUTS[0] == (roles.ENCODER, roles.DECODER, roles.DECODER_WITH_PAST)
    assert tuple(signatures) == (*LAYOUTS[0], roles.DECODER_MERGED)
    cache = [f"{{}}.{i}.{part}.{kind}" for i in range(2) for part in PARTS for kind in ("key", "value")]
    own = [name for name in cache if ".decoder." in name]
    first, later, merged = (signatures[role] for role in ("decoder_model", *tuple(signatures)[2:]))
    given = ["input_ids", "encoder_hidden_states", "encoder_attention_mask"]
    assert names(signatures[roles.ENCODER].outputs) == ["last_hidden_state"]
    assert names(first.inputs) == given
    assert names(first.outputs) == ["logits", *(name.format("present") for name in cache)]
    past = [name.format("past_key_values") for name in cache]
    assert sorted(names(later.inputs)) == sorted(["input_ids", "encoder_attention_mask", *past])
    assert names(later.outputs) == ["logits", *(name.format("present") for name in own)]
    assert sorted(names(merged.inputs)) == sorted([*given, *past, "use_cache_branch"])
    assert names(merged.outputs) == names(first.outputs)
    shapes = {port.name: port.shape for port in merged.inputs}
    assert shapes["use_cache_branch"] == [1]
    for name in past:
        assert all(isinstance(dim, str) for dim in shapes[name])
        assert shapes[name][0] == "batch_size"  # by which transformers.js knows it
    read = {name for role in LAYOUTS[0][1:] for name in names(signatures[role].inputs)}
    assert {name for name in read if not cache_names.is_past(name)} <= DECODER_INPUTS


def test_the_ecosystems_sounds_and_pictures(bundle_of):
    """Sounds have no mask; texts and images are compared in one graph."""
    _, whisper = declared(bundle_of("whisper", "static"))
    decoder = parts.signatures(whisper, contracts.ECOSYSTEM)["decoder_model"]
    assert names(decoder.inputs) == ["input_ids", "encoder_hidden_states"]
    _, clip = declared(bundle_of("clip"))
    model = parts.signatures(clip, contracts.ECOSYSTEM)["model"]
    assert names(model.inputs) == ["input_ids", "attention_mask", "pixel_values"]
    assert names(model.outputs) == ["logits_per_image", "logits_per_text", "text_embeds", "image_embeds"]


@pytest.mark.parametrize("part", [None, "encoder", "decoder"])
def test_a_steps_outputs_are_the_next_ones_inputs(part):
    for past, present in zip(cache_names.past(3, part), cache_names.present(3, part), strict=True):
        assert (cache_names.to_present(past), cache_names.to_past(present)) == (present, past)
        assert (cache_names.is_past(past), cache_names.is_past(present)) == (True, False)
        assert cache_names.is_cross(past) == (part == "encoder")
        assert cache_names.layer_of(past) == 3


@pytest.mark.parametrize(
    "model_type", ["bert", "roberta", "gpt2", "llama", "bloom", "opt", "t5", "whisper", "clip"]
)
def test_a_port_has_one_name_when_a_runtime_has_dropped_what_does_nothing(bundle_of, model_type):
    """Else the name would be that of its input, and clients of OpenVINO would get either."""
    openvino = pytest.importorskip("openvino", reason="needs openvino")
    folder, core = bundle_of(model_type), openvino.Core()
    for role, graph in bundle.read(folder).hub.items():
        if role == roles.DECODER_MERGED:  # whose branches no client gives to OpenVINO
            continue
        compiled = core.compile_model(core.read_model(folder / graph.file), "CPU")
        assert [sorted(port.get_names()) for port in compiled.inputs] == [
            [port.name] for port in graph.inputs
        ]
        given = [sorted(port.get_names()) for port in compiled.outputs]
        assert all(port.name in names for port, names in zip(graph.outputs, given, strict=True))


def test_outputs_of_every_layer_have_the_names_of_transformers(bundle_of):
    """Names and shapes of transformers.js' Whisper and of transformers' own outputs."""
    _, spec = declared(bundle_of("t5", "static"))
    every = contracts.with_outputs(contracts.ECOSYSTEM, ("attentions", "hidden_states"))
    graphs = parts.signatures(spec, every)
    last = {role: {port.name: port.shape for port in graph.outputs} for role, graph in graphs.items()}
    heads = spec.decoder.layers[0].dense.num_heads
    batch, source, own = "batch_size", "encoder_sequence_length", "sequence_length"
    assert last["encoder_model"]["encoder_attentions.0"] == [batch, heads, source, source]
    assert last["encoder_model"]["encoder_hidden_states.1"] == [batch, source, spec.encoder.hidden_size]
    for role, keys in (
        ("decoder_model", own),
        ("decoder_with_past_model", "total_sequence_length"),
        ("decoder_model_merged", "total_sequence_length"),
    ):
        assert last[role]["decoder_attentions.0"] == [batch, heads, own, keys]
        assert last[role]["cross_attentions.1"] == [batch, heads, own, source]
        assert last[role]["decoder_hidden_states.0"] == [batch, own, spec.decoder.hidden_size]
    assert contracts.with_outputs(contracts.ECOSYSTEM, ()) is contracts.ECOSYSTEM
