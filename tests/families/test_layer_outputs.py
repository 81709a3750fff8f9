"""Attention weights and hidden states of every layer are those of transformers, from every graph."""

import json

import pytest
from helpers.rows import CLASSIFY, FEATURES, GENERATE, SOUNDS, Row
from helpers.rows import ROWS as FAMILY_ROWS

from txexport import bundle, families, verify
from txexport.contracts import OUTPUTS
from txexport.errors import UnsupportedError
from txexport.exporter import export
from txexport.spec import Cache

# Unusual kinds of attention, each with a cache and an opset.
ROWS = [
    ("bert", None, 24),
    ("roberta", None, 17),
    ("distilbert", None, 17),
    ("modernbert", None, 24),
    ("gpt2", "static", 24),
    ("gpt2", "dynamic", 17),
    ("llama", "static", 17),
    ("llama", "dynamic", 24),
    ("gemma2", "static", 24),
    ("gemma2", "dynamic", 17),
    ("bloom", "dynamic", 24),
    ("mpt", "static", 17),
    ("t5", "static", 24),
    ("t5", "dynamic", 17),
    ("bart", "dynamic", 24),
    ("whisper", "static", 17),
    ("audio-spectrogram-transformer", None, 17),
    ("vit", None, 24),
    ("clip", None, 17),
]
# The words of each refusal of OUTPUTS, and the families that it is for; all others are equal.
TASK, ALONE = "outputs of every layer are not supported for {}; leave them out", "ask for hidden_states alone"
PAIRLESS = (
    f"outputs attentions: the encoder has {{}}, which has no weights between all pairs of tokens; {ALONE}"
)
STATES = f"the decoder has layers with states in place of attention, which have no weights; {ALONE}"
GIVEN_BY_ORIGINAL = "outputs {}: the original returns {}; leave them out"
MAPS = "maps, not vectors, of the {}"
STREAMS = (
    "outputs hidden_states: between layers of the decoder a token has 3 vectors; ask for attentions alone"
)
BY_WORDS = {
    TASK.format("audio-text-to-text"): "audioflamingo3 qwen2_audio voxtral",
    TASK.format(
        "detection by queries"
    ): "conditional_detr d_fine dab-detr deformable_detr detr lw_detr rf_detr "
    "rt_detr rt_detr_v2 table-transformer",
    TASK.format("image-segmentation by texts"): "clipseg",
    TASK.format("image-text-to-text"): "gemma3 idefics3 internvl lfm2_vl llava llava_next llava_onevision "
    "mistral3 mllama paligemma qwen2_5_vl qwen2_vl qwen3_5 qwen3_5_moe qwen3_vl qwen3_vl_moe smolvlm",
    TASK.format("mask-generation"): "sam sam2 sam2_video",
    TASK.format("visual-document-retrieval"): "colpali colqwen2",
    TASK.format("zero-shot-object-detection"): "grounding-dino owlv2 owlvit",
    f"outputs attentions: {STATES}": "bamba falcon_mamba granitemoehybrid jamba kimi_linear lfm2 lfm2_moe "
    "lfm3 mamba mamba2 nemotron_h olmo_hybrid qwen3_5_moe_text qwen3_5_text qwen3_next "
    "recurrent_gemma rwkv zamba2",
    PAIRLESS.format("bottleneck attention"): "mobilebert",
    PAIRLESS.format("convolved attention"): "convbert",
    PAIRLESS.format("Fourier transforms"): "fnet",
    PAIRLESS.format("longformer attention"): "longformer",
    PAIRLESS.format("patchbias attention"): "beit data2vec-vision",
    PAIRLESS.format("window attention"): "donut-swin swin swinv2",
    STREAMS: "gemma3n gemma3n_text",
    GIVEN_BY_ORIGINAL.format("hidden_states", MAPS.format("audio")): "clap",
    GIVEN_BY_ORIGINAL.format("hidden_states", MAPS.format("encoder")): "convnext convnextv2 glpn mask2former "
    "maskformer resnet segformer upernet",
    GIVEN_BY_ORIGINAL.format("hidden_states", "them of the encoder in the order of its windows"): "hiera",
    GIVEN_BY_ORIGINAL.format(
        "attentions", "weights of attention without the sinks"
    ): "granite_swa granitemoe_swa",
    GIVEN_BY_ORIGINAL.format("attentions", "the mean of all heads in place of each head's"): "wavlm",
}
REFUSALS = {name: message for message, names in BY_WORDS.items() for name in names.split()}
REST = [name for name in families.names() if name not in {*REFUSALS, *(name for name, *_ in ROWS)}]
SHORT = ("blip", "omniasr_ctc", "speech_to_text", "yolos")  # of REST, in a run of every test
PAIRS = Row("bart", "BartForSequenceClassification", CLASSIFY, "5 labels", {"num_labels": 5})
DECODES = Row("gpt2", "GPT2ForSequenceClassification", CLASSIFY, "5 labels", {"num_labels": 5})


def check(folder):
    """Compare all outputs of the graphs with both originals."""
    report = verify(folder, cases="quick")
    assert [(case.name, case.exception, case.worst) for case in report.cases if not case.ok] == []
    assert report.references == ["checkpoint", "twin", "transformers"]
    manifest = bundle.read(folder)
    asked = {
        kind: {port.name for graph in graphs.values() for port in graph.outputs}
        for kind, graphs in (("native", manifest.native), ("hub", manifest.hub))
    }
    compared: dict[tuple, set[str]] = {}
    for case in report.cases:
        if case.reference != "checkpoint":
            compared.setdefault((case.graphs, case.reference), set()).update(
                check.output for check in case.checks
            )
    for (kind, reference), found in compared.items():
        without = (
            {"present"} if reference == "transformers" and manifest.model_type == "openai-gpt" else set()
        )
        assert {name for name in asked[kind] if name.split(".")[0] not in without} <= found, (kind, reference)
    return asked


OFTEN = ("bert", "gpt2", "t5", "gemma2", "whisper", "clip")  # in a run of every test


@pytest.mark.parametrize(
    ("model_type", "cache", "opset"),
    [pytest.param(*row, marks=[] if row[0] in OFTEN else [pytest.mark.slow]) for row in ROWS],
    ids=str,
)
def test_every_layer_equals_transformers(model_type, cache, opset, checkpoint_of, tmp_path):
    export(checkpoint_of(model_type), tmp_path / "out", cache=cache, opset=opset, outputs=OUTPUTS)
    asked = check(tmp_path / "out")
    layers = {name for name in asked["native"] if name.endswith(("attentions.1", "hidden_states.1"))}
    assert layers
    assert {name for name in asked["hub"] if name.endswith(".1")} >= layers


@pytest.mark.parametrize(
    "model_type", [pytest.param(one, marks=[] if one in SHORT else [pytest.mark.slow]) for one in REST]
)
def test_every_other_family_too(model_type, checkpoint_of, tmp_path):
    export(checkpoint_of(model_type), tmp_path / "out", outputs=OUTPUTS)
    check(tmp_path / "out")


@pytest.mark.parametrize("model_type", REFUSALS)
def test_the_other_families_are_refused_in_one_line(model_type, checkpoint_of, tmp_path):
    with pytest.raises(UnsupportedError) as refusal:
        export(checkpoint_of(model_type), tmp_path / "out", outputs=OUTPUTS)
    assert str(refusal.value) == REFUSALS[model_type]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("outputs", [OUTPUTS, ("attentions",), ("hidden_states",)], ids=str)
def test_labels_of_the_sum_of_all_layers(outputs, checkpoint_of, tmp_path):
    """The original returns hidden states, whether requested or not."""
    summed = {"use_weighted_layer_sum": True, "classifier_proj_size": 26}
    row = Row("whisper", "WhisperForAudioClassification", SOUNDS, "sum of all layers", summed)
    export(checkpoint_of(row), tmp_path / "out", outputs=outputs)
    asked = check(tmp_path / "out")
    assert {f"{kind}.1" for kind in outputs} <= asked["native"]


@pytest.mark.parametrize("row", [PAIRS, DECODES], ids=str)
def test_decoders_that_label(row, checkpoint_of, tmp_path):
    export(checkpoint_of(row), tmp_path / "out", task=row.task, outputs=OUTPUTS)
    check(tmp_path / "out")


def test_graphs_in_parts_say_which_component_is_off(checkpoint_of, tmp_path):
    """--layers compares weights as a component's outputs."""
    export(checkpoint_of("t5"), tmp_path / "out", only="native", outputs="attentions")
    report = verify(tmp_path / "out", cases=["three ragged rows in chunks"], layers=True, reference="twin")
    assert report.layers.skipped is None
    values = {(check.component, check.value) for check in report.layers.checks}
    assert ("decoder.layers.0.attention", "weights") in values
    assert ("decoder.layers.1", "cross_weights") in values
    assert report.layers.beyond == []


@pytest.mark.parametrize("outputs", ["attentions", "hidden_states"])
def test_one_kind_alone(outputs, checkpoint_of, tmp_path):
    manifest = export(checkpoint_of("bert"), tmp_path / "out", only="native", outputs=outputs)
    names = [port.name for port in manifest.native["model"].outputs]
    assert {name.partition(".")[0] for name in names} == {"last_hidden_state", "pooler_output", outputs}
    assert json.loads((tmp_path / "out/txexport.json").read_text())["form"]["outputs"] == [outputs]
    assert verify(tmp_path / "out", cases="quick").ok


@pytest.mark.parametrize(
    "model_type", ["granite_swa", pytest.param("granitemoe_swa", marks=pytest.mark.slow)]
)
def test_weights_that_the_original_returns_without_sinks(model_type, checkpoint_of, tmp_path):
    with pytest.raises(UnsupportedError, match="weights of attention without the sinks; leave them out"):
        export(checkpoint_of(model_type), tmp_path / "out", outputs=["attentions"])
    export(checkpoint_of(model_type), tmp_path / "out", outputs=["hidden_states"])
    assert verify(tmp_path / "out", cases="quick").ok


@pytest.mark.parametrize(
    ("model_type", "reason"),
    [("detr", "of every layer are not supported"), ("resnet", "attentions: the encoder has convolutions")],
)
def test_weights_alone_are_refused_too(model_type, reason, checkpoint_of, tmp_path):
    with pytest.raises(UnsupportedError, match=f"^outputs {reason}"):
        export(checkpoint_of(model_type), tmp_path / "out", outputs=["attentions"])


@pytest.mark.slow
def test_states_of_a_model_whose_weights_are_averaged(checkpoint_of, tmp_path):
    export(checkpoint_of("wavlm"), tmp_path / "out", outputs=["hidden_states"])
    assert "hidden_states.2" in check(tmp_path / "out")["native"]


def test_an_encoder_wider_than_its_decoder(checkpoint_of, tmp_path):
    """The reference runs the two apart, with a projection between them."""
    [row] = [row for row in FAMILY_ROWS if row.variant == "narrower decoder, untied"]
    export(checkpoint_of(row), tmp_path / "out", outputs=OUTPUTS)
    assert {"encoder_hidden_states.1", "encoder_attentions.1"} <= check(tmp_path / "out")["hub"]


def test_sparse_attention_has_no_weights(checkpoint_of, tmp_path):
    with pytest.raises(UnsupportedError, match="the encoder has longformer attention, which has no weight"):
        export(checkpoint_of("longformer"), tmp_path / "out", outputs=["attentions"])
    assert not (tmp_path / "out").exists()
    export(checkpoint_of("longformer"), tmp_path / "out", only="native", outputs=["hidden_states"])
    assert verify(tmp_path / "out", cases="quick").ok


@pytest.mark.parametrize(("cache", "opset"), [("static", 24), ("dynamic", 17)], ids=str)
def test_layers_with_states_have_no_weights(cache, opset, checkpoint_of, tmp_path):
    reason = "the decoder has layers with states in place of attention, which have no weights; ask for hidden"
    with pytest.raises(UnsupportedError, match=f"^outputs attentions: {reason}_states alone$"):
        export(checkpoint_of("lfm2"), tmp_path / "out", outputs=OUTPUTS)
    assert not (tmp_path / "out").exists()
    export(checkpoint_of("lfm2"), tmp_path / "out", cache=cache, opset=opset, outputs=["hidden_states"])
    outputs, layers = check(tmp_path / "out"), {f"hidden_states.{layer}" for layer in range(5)}
    assert outputs["native"] & layers == outputs["hub"] & layers == layers


@pytest.mark.parametrize(("cache", "opset"), [("static", 24), ("dynamic", 17)], ids=str)
def test_several_vectors_of_a_token_are_not_returned(cache, opset, checkpoint_of, tmp_path):
    reason = "between layers of the decoder a token has 3 vectors; ask for attentions alone"
    with pytest.raises(UnsupportedError, match=f"^outputs hidden_states: {reason}$"):
        export(checkpoint_of("gemma3n_text"), tmp_path / "out", outputs=OUTPUTS)
    export(checkpoint_of("gemma3n_text"), tmp_path / "out", cache=cache, opset=opset, outputs=["attentions"])
    assert {f"attentions.{layer}" for layer in range(5)} <= check(tmp_path / "out")["native"]


@pytest.mark.parametrize(
    ("model_type", "reason"),
    [
        *(
            (name, "the original returns maps, not vectors, of the encoder")
            for name in ("resnet", "convnext")
        ),
        ("hiera", "the original returns them of the encoder in the order of its windows"),
    ],
)
def test_states_of_another_order_are_not_returned(model_type, reason, checkpoint_of, tmp_path):
    with pytest.raises(UnsupportedError, match=reason):
        export(checkpoint_of(model_type), tmp_path / "out", outputs=["hidden_states"])


def test_weights_of_texts_too_short_for_blocks_are_those_of_full_attention(checkpoint_of, tmp_path):
    """The original with block-sparse attention returns no weights."""
    blocks = {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1}
    row = Row("big_bird", "BigBirdModel", FEATURES, "blocks", blocks)
    export(checkpoint_of(row), tmp_path / "out", outputs=OUTPUTS)
    asked = check(tmp_path / "out")
    assert {"attentions.0", "attentions.1"} <= asked["native"]


def test_hidden_states_of_two_widths_are_refused(checkpoint_of, tmp_path):
    """The original's last one has the width of its word embedding, so that the outputs have two widths."""
    row = Row("opt", "OPTForCausalLM", GENERATE, "narrow", {"word_embed_proj_dim": 20})
    with pytest.raises(UnsupportedError, match="the original's last one has size 20"):
        export(checkpoint_of(row), tmp_path / "out", outputs=["hidden_states"])
    export(checkpoint_of(row), tmp_path / "out", outputs=["attentions"])
    check(tmp_path / "out")


def test_weights_that_the_original_does_not_weigh_with_are_refused(checkpoint_of, tmp_path):
    biased = {"alibi": True, "parallel_attn": False, "multi_query": False}
    row = Row("falcon", "FalconForCausalLM", GENERATE, "biased", biased)
    with pytest.raises(UnsupportedError, match="adds its rounded biases twice"):
        export(checkpoint_of(row), tmp_path / "out", outputs=["attentions"])
    export(checkpoint_of(row), tmp_path / "out", outputs=["hidden_states"])
    check(tmp_path / "out")


def test_choices_have_none(checkpoint_of, tmp_path):
    row = Row("bert", "BertForMultipleChoice", "multiple-choice")
    with pytest.raises(UnsupportedError, match="not supported for multiple-choice"):
        export(checkpoint_of(row), tmp_path / "out", outputs=["hidden_states"])


@pytest.mark.parametrize("cache", Cache)
def test_nothing_changes_where_nothing_is_asked(cache, checkpoint_of, tmp_path):
    """A bundle without them is written as before: the fused operator, and no additional output."""
    export(checkpoint_of("llama"), tmp_path / "out", cache=cache)
    assert "outputs" not in json.loads((tmp_path / "out/txexport.json").read_text())["form"]
    graphs = (tmp_path / f"out/onnx/model_{cache}.onnx").read_bytes()
    assert b"Attention" in graphs
    assert b"masked_softmax" not in graphs
