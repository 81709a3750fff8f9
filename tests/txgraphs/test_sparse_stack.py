"""Encoders with sparse attention: a researcher who builds one relies on their graphs."""

import dataclasses
import json
import re
from functools import partial

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
import transformers
from helpers.rows import ROWS
from helpers.sparse import LENGTHS, SIZES, H, L, N, W, marks, padding, session_of
from helpers.twins import check, integers, random, seeded, stored
from txgraphs._graph import Graph
from txgraphs._lowering import NEWER
from txgraphs.block import encoder_block
from txgraphs.model import models
from txmodels.block import EncoderBlock
from txmodels.model import Transformer
from txmodels.model import model as transformer

from txexport import parts
from txexport.bundle.form import ExportOptions
from txexport.bundle.manifest import Graphs, Manifest, Source
from txexport.contracts import ONE_PASS
from txexport.errors import CheckpointError, InputError, SpecError
from txexport.exporter.bundle_plan import to_proto
from txexport.exporter.exporter import export
from txexport.runtime import load
from txexport.runtime.engines.onnxruntime import open_session
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    DecoderSpec,
    DualEncoderSpec,
    EmbeddingSpec,
    EncoderSpec,
    ExpertsSpec,
    Factored,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    LinformerAttentionSpec,
    LocalAttentionSpec,
    LongformerAttentionSpec,
    LowRankAttentionSpec,
    ModelSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PatchSpec,
    PerformerAttentionSpec,
    Pick,
    PositionKind,
    PositionSpec,
    RelativeSpec,
    Sharing,
    SignalStackSpec,
    StridedAttentionSpec,
    TextStackSpec,
    parameters,
)
from txexport.spec.serialization import from_dict, to_dict

V = 31
FULL = AttentionSpec(W, N, N, H, causal=False)
NORM, FEED = NormSpec(W, 1e-3), FeedForwardSpec(W, 50, Activation.GELU)
BLOCK = BlockSpec(FULL, FEED, NORM, NormPlacement.POST)
WORDS = EmbeddingSpec(V, W, PositionSpec(PositionKind.LEARNED, L), norm=NORM)
HEAD = HeadSpec(HeadKind.MASKED_LM, bias=True, activation=Activation.GELU, norm=NORM)


def masked_lm(*attentions, layers: int = 3, block: BlockSpec = BLOCK, **parts) -> EncoderSpec:
    """A masked LM of `layers` layers with `attentions` in turn."""
    blocks = tuple(dataclasses.replace(block, attention=attention) for attention in attentions)
    return EncoderSpec(
        encoder=TextStackSpec(**{"embedding": WORDS} | parts, blocks=blocks, num_layers=layers), head=HEAD
    )


PRE = {"block": dataclasses.replace(BLOCK, placement=NormPlacement.PRE), "final_norm": NORM}
MODELS = {
    "local": masked_lm(LocalAttentionSpec(*SIZES, 4)),
    "local causal": masked_lm(LocalAttentionSpec(*SIZES, 5, causal=True), **PRE),
    "strided": masked_lm(StridedAttentionSpec(*SIZES, 4), **PRE),
    "longformer": masked_lm(*(LongformerAttentionSpec(*SIZES, window) for window in (4, 10, 6))),
    "linformer": masked_lm(*(LinformerAttentionSpec(*SIZES, L, 5, sharing) for sharing in Sharing)),
    "low-rank": masked_lm(*(LowRankAttentionSpec(*SIZES, 3, factored) for factored in Factored)),
    "performer, full": masked_lm(PerformerAttentionSpec(*SIZES, 17), FULL),
    "local, full, longformer, window, linformer, low-rank": masked_lm(
        LocalAttentionSpec(*SIZES, 4, bias=False),
        FULL,
        LongformerAttentionSpec(*SIZES, 4),
        dataclasses.replace(FULL, window=3),
        LinformerAttentionSpec(*SIZES, L, 5),
        LowRankAttentionSpec(*SIZES, 3),
        layers=7,
    ),
    "strided, full, causal": masked_lm(
        StridedAttentionSpec(*SIZES, 3),
        dataclasses.replace(FULL, causal=True),
        LocalAttentionSpec(*SIZES, 4, causal=True),
        LowRankAttentionSpec(*SIZES, 3, causal=True),
        layers=4,
        **PRE,
    ),
}


def graph_of(spec: EncoderSpec, module: Transformer) -> Graph:
    parameters = stored(module.named_parameters())
    return models(spec, ONE_PASS, lambda role: parameters)["model"]


def inputs_of(spec: EncoderSpec, mask: torch.Tensor) -> dict[str, torch.Tensor]:
    inputs = {"input_ids": integers(V, *mask.shape), "attention_mask": mask}
    if spec.stack.global_tokens:
        inputs["global_attention_mask"] = marks(mask.shape[1])
    return inputs


def run(session, inputs: dict[str, torch.Tensor]) -> np.ndarray:
    return session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})[0]


@pytest.mark.parametrize("opset", [24, 17])
@pytest.mark.parametrize("name", MODELS)
def test_graph_equals_module(name, opset):
    spec = MODELS[name]
    module = seeded(transformer(spec))
    model = ir.to_proto(graph_of(spec, module).model("test", opset))
    used = {node.op_type for part in (model.graph, *model.functions) for node in part.node}
    assert not used & {operator for operator, first in NEWER.items() if first > opset}
    session = session_of(model)
    for length in LENGTHS:
        inputs = inputs_of(spec, padding(length))
        with torch.no_grad():
            expected = module.encode(**inputs)["logits"].numpy()
        assert np.abs(run(session, inputs) - expected).max() <= 1e-5, length


@pytest.mark.parametrize("name", MODELS)
def test_a_row_padded_on_the_right_is_what_it_is_alone(name):
    """Left padding changes it: blocks, strides and sums of tokens begin at a row's first position."""
    spec = MODELS[name]
    session = session_of(ir.to_proto(graph_of(spec, seeded(transformer(spec))).model("test")))
    lengths = 13, 1, 6
    inputs = inputs_of(spec, (torch.arange(13) < torch.tensor(lengths)[:, None]).long())
    found = run(session, inputs)
    for row, length in enumerate(lengths):
        alone = run(session, {key: value[row : row + 1, :length] for key, value in inputs.items()})
        assert np.abs(found[row, :length] - alone[0]).max() <= 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_of_the_pytorch_model(name):
    declared = {key: tuple(value.shape) for key, value in transformer(MODELS[name]).named_parameters()}
    assert list(declared.items()) == list(parts.parameters(MODELS[name]).items())


@pytest.mark.parametrize("name", MODELS)
def test_survives_json(name):
    assert from_dict(ModelSpec, json.loads(json.dumps(to_dict(MODELS[name])))) == MODELS[name]


@pytest.mark.parametrize("wide", [LocalAttentionSpec(*SIZES, L), LongformerAttentionSpec(*SIZES, 2 * L)])
def test_a_window_wider_than_the_text_is_full_attention(wide):
    """In one layer of three, so that every layer must get its own mask."""
    near, mask = dataclasses.replace(FULL, window=3), padding(21)
    sparse, full = seeded(transformer(masked_lm(near, wide, FULL))), transformer(masked_lm(near, FULL, FULL))
    state = sparse.state_dict()
    full.load_state_dict({name: state[name] for name in full.state_dict()})
    inputs = {"input_ids": integers(V, 3, 21), "attention_mask": mask}
    with torch.no_grad():
        expected = full.encode(**inputs)["logits"]
        found = sparse.encode(**inputs, global_attention_mask=0 * mask)["logits"]
    assert (found - expected)[mask.bool()].abs().max() <= 1e-5


EXPERTS = ExpertsSpec(FeedForwardSpec(W, 50, Activation.SILU, bias=False, gated=True), 5, 2)
SWITCHES = [(kind, {}) for kind in NormPlacement] + [
    ("pre", {"skip_attention_norm": True}),
    ("sandwich", {"layer_scale": True}),
    ("pre", {"feed_forward": EXPERTS}),
]


@pytest.mark.parametrize(("placement", "switches"), SWITCHES)
def test_encoder_block(placement, switches):
    block = BlockSpec(LongformerAttentionSpec(*SIZES, 4), FEED, NORM, NormPlacement(placement))
    spec = dataclasses.replace(block, norm=NormSpec(W, 1e-3, NormKind.RMS), **switches)
    module = EncoderBlock(spec)
    assert {key: tuple(p.shape) for key, p in module.named_parameters()} == parameters.block(spec)
    masks = {"attention_mask": padding(9), "global_attention_mask": marks(9)}
    check(module, partial(encoder_block, spec, False), random(3, 9, W), **masks)


def test_a_stack_without_full_attention_has_no_mask_of_pairs():
    """Such a mask is quadratic in the length, which these stacks are built to avoid."""
    names = {
        name: {node.name for node in graph_of(spec, seeded(transformer(spec))).graph}
        for name, spec in MODELS.items()
    }
    masked = {name for name in MODELS if "full" in name}
    assert {name for name in MODELS if "mask" in names[name]} == masked


def test_layers_share_their_functions():
    short, long = (masked_lm(LongformerAttentionSpec(*SIZES, 4), FULL, layers=n) for n in (2, 24))
    assert set(graph_of(short, transformer(short)).functions) == set(
        graph_of(long, transformer(long)).functions
    )


@pytest.mark.parametrize("name", MODELS)
def test_only_longformers_take_global_tokens(name):
    graph = graph_of(MODELS[name], transformer(MODELS[name])).graph
    assert [value.name for value in graph.inputs] == [
        "input_ids",
        "attention_mask",
        *(["global_attention_mask"] if "longformer" in name else []),
    ]


CAUSAL = dataclasses.replace(BLOCK, attention=LocalAttentionSpec(*SIZES, 4, causal=True))


@pytest.mark.parametrize(
    ("message", "make"),
    {
        "has no cache, so it stands in an encoder only": lambda: DecoderSpec(
            decoder=TextStackSpec(WORDS, (CAUSAL,), 2), head=HeadSpec(HeadKind.CAUSAL_LM)
        ),
        "attention takes up to 30 tokens, expected the limit of the positions, 40": lambda: masked_lm(
            LinformerAttentionSpec(*SIZES, 30, 5)
        ),
        "attention takes up to 40 tokens, expected the limit of the positions, None": lambda: masked_lm(
            LinformerAttentionSpec(*SIZES, L, 5),
            embedding=EmbeddingSpec(V, W, PositionSpec(PositionKind.NONE)),
        ),
        "either every layer is causal or none": lambda: masked_lm(FULL, StridedAttentionSpec(*SIZES, 4)),
        "expected True exactly if relative is given": lambda: masked_lm(
            LocalAttentionSpec(*SIZES, 4), relative=RelativeSpec(8, 20, True)
        ),
        "expected none of them over images and sounds": lambda: SignalStackSpec(
            PatchSpec(W, (8, 8), 4), (dataclasses.replace(BLOCK, attention=LocalAttentionSpec(*SIZES, 4)),), 2
        ),
        "neither encoder takes global tokens": lambda: DualEncoderSpec(
            masked_lm(LongformerAttentionSpec(*SIZES, 4)).stack,
            SignalStackSpec(PatchSpec(W, (8, 8), 4), (BLOCK,), 2),
            12,
            Pick.ARGMAX_ID,
        ),
        "FeedForwardSpec is 24 wide, attention 12": lambda: masked_lm(LocalAttentionSpec(12, N, H, 4)),
    }.items(),
)
def test_a_stack_that_contradicts_itself_is_refused(message, make):
    with pytest.raises(SpecError, match=re.escape(message)):
        make()


def test_linformer_refuses_a_longer_text_in_one_line(tmp_path):
    spec = MODELS["linformer"]
    model = graph_of(spec, seeded(transformer(spec))).model("0", 24)
    onnx.save(to_proto(model), tmp_path / "model.onnx")
    manifest = Manifest(
        model_type="own",
        task="fill-mask",
        form=ExportOptions(None, 24),
        formats={"float32": Graphs({}, {})},
        data={},
        limits=parts.limits(spec),
        spec=to_dict(spec),
        source=Source("", {}),
        companions={},
        versions={},
        stages={"native": [], "hub": parts.stages(spec, ONE_PASS)},
    )
    sessions = {"model": open_session(tmp_path / "model.onnx", "cpu", 1)}
    model = LoadedBundle(tmp_path, manifest, "cpu", sessions)
    ids = np.ones((1, L), np.int64)
    assert model.run(input_ids=ids, attention_mask=ids)["logits"].shape == (1, L, V)
    longer = np.ones((1, L + 1), np.int64)
    with pytest.raises(
        InputError, match=r"^an input of 41 tokens is longer than the model's 40; shorten it$"
    ):
        model.run(input_ids=longer, attention_mask=longer)


CHOSEN = {
    "LongformerModel": ("AutoModel", "none"),
    "LongformerForMaskedLM": ("AutoModelForMaskedLM", "none"),
    "LongformerForTokenClassification": ("AutoModelForTokenClassification", "none"),
    "LongformerForSequenceClassification": ("AutoModelForSequenceClassification", "first"),
    "LongformerForQuestionAnswering": ("AutoModelForQuestionAnswering", "before"),
    "LongformerForMultipleChoice": ("AutoModelForMultipleChoice", "after"),
}


@pytest.mark.parametrize("architecture", CHOSEN)
def test_global_tokens_that_the_original_chooses(architecture, checkpoint_of, bundle_of):
    """longformer.py documents the defaults of the original."""
    [row] = [row for row in ROWS if row.architecture == architecture and row.variant in ("", "5 labels")]
    auto, rule = CHOSEN[architecture]
    ids = integers(300, 2, 14) + 5
    ids[:, [4, 5, 13]] = 2  # a question, two separators, a text, one more
    places = torch.arange(14).expand(2, 14)
    told = {"none": places < 0, "first": places < 1, "before": places < 4, "after": places > 5}[rule]
    if rule == "after":
        ids, told = ids[None], told[None]
    original = getattr(transformers, auto).from_pretrained(checkpoint_of(row)).eval()
    with torch.no_grad():
        expected = original(input_ids=ids, attention_mask=torch.ones_like(ids))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "global_attention_mask": told.long()}
    found = load(bundle_of(row)).run(**{name: value.numpy() for name, value in inputs.items()})
    for name, array in found.items():
        assert np.abs(array - expected[name].numpy()).max() <= 1e-5


def test_embed_chooses_no_global_tokens(checkpoint_of, bundle_of):
    texts = ["the cat sat on the mat and the dog lay on the rug", "the dog"]
    model = load(bundle_of("longformer"))
    vectors = model.embed(texts, pooling="mean")
    original = transformers.AutoModel.from_pretrained(checkpoint_of("longformer")).eval()
    for text, vector in zip(texts, vectors, strict=True):
        with torch.no_grad():
            hidden = original(input_ids=torch.tensor([model.text.encode([text])[0].ids])).last_hidden_state
        assert np.abs(hidden[0].mean(0).numpy() - vector).max() <= 1e-5


def windowed(checkpoint, folder, window):
    """A copy of a checkpoint with another attention_window."""
    folder.mkdir()
    for file in checkpoint.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text()) | {"attention_window": window}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_one_window_serves_all_layers(checkpoint_of, tmp_path):
    checkpoint = windowed(checkpoint_of("longformer"), tmp_path / "checkpoint", 6)
    spec = from_dict(ModelSpec, export(checkpoint, tmp_path / "out").spec)
    assert [block.attention.window for block in spec.stack.layers] == [6, 6, 6]


@pytest.mark.parametrize("window", [[4, 4], [4, 4, "4"], [4, 4, True], "4"], ids=str)
def test_windows_that_are_not_one_a_layer_are_refused(window, checkpoint_of, tmp_path):
    checkpoint = windowed(checkpoint_of("longformer"), tmp_path / "checkpoint", window)
    with pytest.raises(CheckpointError, match="'attention_window' is "):
        export(checkpoint, tmp_path / "out")
