"""Checkpoints that name code of their own are exported, and equal the library's model."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny_tokenizers
import torch
import transformers
from helpers import published
from helpers.encoder_rows import WITHOUT_LIBRARY
from safetensors.numpy import load_file, save_file

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import TxexportError
from txexport.exporter import export
from txexport.exporter.adding import quantize
from txexport.runtime import load
from txexport.verification import verify

LENGTHS = (17, 5, 1)
NTK = {"rope_scaling": {"type": "ntk", "factor": 8.0}}
NEW = [
    ("NewModel", "feature-extraction", NTK),
    ("NewModel", "feature-extraction", {"prefix": "", "type_vocab_size": 0}),
    ("NewForTokenClassification", "token-classification", NTK | {"num_labels": 1}),
    ("NewForSequenceClassification", "text-classification", NTK | {"num_labels": 1}),
    ("NewForMaskedLM", "fill-mask", {"rope_scaling": {"type": "ntk", "factor": 2.0}, "rope_theta": 5e3}),
]


def ragged() -> dict[str, np.ndarray]:
    """Rows of different lengths, right-padded."""
    ids = np.random.default_rng(5).integers(5, 300, (len(LENGTHS), max(LENGTHS)))
    mask = (np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]).astype(np.int64)
    return {"input_ids": np.where(mask, ids, 1), "attention_mask": mask}


def apart(out: Path, model: Callable) -> float:
    """The largest difference of the bundle's outputs and the model's, without padding."""
    inputs, bundle = ragged(), load(out, device="cpu")
    (graph,) = bundle.manifest.native.values()
    names = {port.name for port in graph.inputs}
    zeros = {"token_type_ids": np.zeros_like(inputs["input_ids"])} if "token_type_ids" in names else {}
    ours = bundle.run(**inputs, **zeros)
    with torch.inference_mode():
        theirs = model(**{name: torch.from_numpy(array) for name, array in inputs.items()})
    worst = []
    for name, array in ours.items():
        tokens = inputs["attention_mask"].astype(bool) if array.ndim == 3 else slice(None)
        worst.append(np.abs(array - theirs[name].numpy())[tokens].max())
    return float(max(worst))


@pytest.mark.parametrize(("architecture", "task", "config"), NEW, ids=str)
def test_new_equals_gte(architecture, task, config, tmp_path):
    model = published.new(tmp_path / "in", architecture, **config)
    export(tmp_path / "in", tmp_path / "out", task=task)
    assert apart(tmp_path / "out", model) < 1e-5
    report = verify(tmp_path / "out")
    assert report.ok
    assert report.references == ["checkpoint", "twin", "transformers"]
    assert report.model_type == "gte"


@pytest.mark.parametrize("factor", [2.0, 8.0])
def test_ntk_of_new_is_what_its_code_computes(factor, tmp_path):
    """As in Alibaba-NLP/new-impl: a larger base, and frequencies divided by factor^(2 / head_dim)."""
    published.new(
        tmp_path / "in", "NewModel", hidden_size=192, rope_scaling={"type": "ntk", "factor": factor}
    )
    (block,) = families.resolve(Checkpoint(tmp_path / "in")).spec.encoder.blocks
    exponents = np.arange(0, 64, 2) / 64
    expected = (300.0 * factor) ** -exponents / factor ** (2 / 64)
    assert np.array(block.attention.rotary.frequencies) == pytest.approx(expected, rel=3e-7)
    assert block.attention.rotary.scale == 1.0


@pytest.mark.parametrize("row", WITHOUT_LIBRARY, ids=lambda row: row.id)
def test_what_no_library_has_equals_its_definition(row, tmp_path):
    """The reference is plain PyTorch in helpers/, and verify says that the library's is missing."""
    model = published.WITHOUT_LIBRARY[row.model_type](tmp_path / "in", row.architecture, **row.config)
    export(tmp_path / "in", tmp_path / "out", task=row.task)
    assert apart(tmp_path / "out", model) < 1e-5
    report = verify(tmp_path / "out")
    assert report.ok
    assert report.references == ["checkpoint", "twin"]
    assert report.model_type == row.model_type
    assert {case.skipped for case in report.cases if case.reference == "transformers"} == {families.OWN_CODE}


def test_every_task_of_what_no_library_has_is_held_to_its_definition():
    supported = {(name, task) for name in families.without_library() for task in families.module(name).TASKS}
    assert {(row.model_type, row.task) for row in WITHOUT_LIBRARY} == supported


USES = {"lora_adaptations": ["retrieval.query", "separation"]}
FLASH = [
    ("XLMRobertaModel", "feature-extraction", USES),
    ("XLMRobertaModel", "feature-extraction", {"rotary_emb_base": 20_000.0}),
    ("XLMRobertaForMaskedLM", "fill-mask", {}),
    ("XLMRobertaForSequenceClassification", "text-classification", {"num_labels": 1}),
]


@pytest.mark.parametrize(("architecture", "task", "config"), FLASH, ids=str)
def test_jina_v3_as_published_equals_the_library_s(architecture, task, config, tmp_path):
    """With its task adapters beside every matrix, which have no effect without a task."""
    model = published.jina_v3(tmp_path / "in", architecture, **config)
    export(tmp_path / "in", tmp_path / "out", task=task)
    assert apart(tmp_path / "out", model) < 1e-5
    report = verify(tmp_path / "out")
    assert report.ok
    assert report.references == ["checkpoint", "twin", "transformers"]
    assert report.model_type == "jina_embeddings_v3"


LEARNED = {"position_embedding_type": "absolute"}
RERANKERS = [
    ("XLMRobertaForSequenceClassification", "text-classification", LEARNED | {"num_labels": 1}),
    ("XLMRobertaModel", "feature-extraction", LEARNED),
    ("XLMRobertaForMaskedLM", "fill-mask", LEARNED),
]


@pytest.mark.parametrize(("architecture", "task", "config"), RERANKERS, ids=str)
def test_xlm_roberta_by_jina_s_names_equals_the_library_s(architecture, task, config, tmp_path):
    model = published.flash(tmp_path / "in", architecture, **config)
    export(tmp_path / "in", tmp_path / "out", task=task)
    assert apart(tmp_path / "out", model) < 1e-5
    report = verify(tmp_path / "out")
    assert report.ok
    assert report.references == ["checkpoint", "twin", "transformers"]
    assert report.model_type == "xlm-roberta"


def a_flash(folder: Path) -> Path:
    published.flash(folder, "XLMRobertaModel", **LEARNED)
    return folder


def a_nomic(folder: Path) -> Path:
    published.nomic_moe(folder, "NomicBertModel")
    return folder


def a_jina_v3(folder: Path) -> Path:
    published.jina_v3(folder, "XLMRobertaModel")
    return folder


def a_new(folder: Path) -> Path:
    published.new(folder, "NewModel")
    return folder


def a_jina_bert(folder: Path) -> Path:
    published.jina_bert(folder, "JinaBertModel")
    return folder


def edited(folder: Path, config: dict) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))


REFUSED = [
    (a_new, {"rope_scaling": {"type": "ntk", "factor": 8.0, "mixed_b": 0.6}}, "mixed_b=0.6"),
    (a_new, {"rope_scaling": {"type": "dynamic", "factor": 8.0}}, "type='dynamic'"),
    (a_new, {"rope_scaling": {"type": "ntk", "factor": 0.5}}, "'factor' of rope_scaling is 0.5"),
    (a_new, NTK | {"hidden_size": 0}, "the head size is 0"),
    (a_new, {"logn_attention_scale": True}, "logn_attention_scale=True"),
    (a_new, {"position_embedding_type": "absolute"}, "position_embedding_type='absolute'"),
    (a_new, {"layer_norm_type": "rms_norm"}, "layer_norm_type='rms_norm'"),
    (a_new, {"pack_qkv": False}, "pack_qkv=False"),
    (a_jina_bert, {"position_embedding_type": "absolute"}, "position_embedding_type='absolute'"),
    (a_jina_bert, {"feed_forward_type": "original"}, "feed_forward_type 'original'"),
    (a_nomic, {"activation_function": "swiglu"}, "activation_function='swiglu'"),
    (a_nomic, {"moe_normalize_expert_weights": True}, "moe_normalize_expert_weights=True"),
    (a_nomic, {"expert_choice_router": True}, "expert_choice_router=True"),
    (a_nomic, {"qkv_proj_bias": False}, "qkv_proj_bias=False"),
    (a_nomic, {"num_shared_experts": 1}, "num_shared_experts=1"),
    (a_nomic, {"moe_every_n_layers": 0}, "activation_function='gelu'"),
    (a_nomic, {"rotary_emb_base": None}, "'rotary_emb_base' is missing"),
    (a_nomic, {"rotary_emb_fraction": None}, "'rotary_emb_fraction' is missing"),
    (a_jina_bert, {"position_embedding_type": None}, "'position_embedding_type' is missing"),
    (a_jina_v3, {"position_embedding_type": None}, "'position_embedding_type' is missing"),
    (a_jina_v3, {"position_embedding_type": "alibi"}, "position_embedding_type='alibi'"),
    (a_jina_bert, {"feed_forward_type": None}, "'feed_forward_type' is missing"),
]


@pytest.mark.parametrize(("write", "config", "named"), REFUSED, ids=[row[2] for row in REFUSED])
def test_what_was_not_published_is_refused_by_name(write, config, named, tmp_path):
    edited(write(tmp_path / "in"), config)
    with pytest.raises(TxexportError, match=named):
        families.resolve(Checkpoint(tmp_path / "in"))


@pytest.mark.parametrize("write", [a_flash, a_nomic])
def test_another_dtype_of_what_is_read_as_another_family(write, tmp_path):
    write(tmp_path / "in")
    export(tmp_path / "in", tmp_path / "out", only="native")
    quantize(tmp_path / "out", "int8")
    report = verify(tmp_path / "out")
    assert report.ok
    assert any("int8" in case.graphs for case in report.cases)


@pytest.mark.parametrize("only", [None, "native"])
@pytest.mark.parametrize(
    ("write", "kind"),
    [(a_new, "GteConfig"), (a_jina_v3, "JinaEmbeddingsV3Config"), (a_flash, "XLMRobertaConfig")],
)
def test_a_bundle_s_config_is_one_that_clients_read_without_code(write, kind, only, tmp_path):
    write(tmp_path / "in")
    export(tmp_path / "in", tmp_path / "out", only=only)
    config = transformers.AutoConfig.from_pretrained(tmp_path / "out", trust_remote_code=False)
    assert type(config).__name__ == kind
    assert not hasattr(config, "auto_map")
    assert verify(tmp_path / "out", reference="twin", cases="quick").ok


@pytest.mark.parametrize("publish", [published.jina_v3, published.jina_bert])
def test_colbert_over_code_of_their_own(publish, tmp_path):
    """As jina-colbert-v2 and -v1: a document's vectors are projected hidden states, L2-normalised."""
    folder, prefix = tmp_path / "in", "[unused1]"
    model = publish(folder, "XLMRobertaModel" if publish is published.jina_v3 else "JinaBertModel")
    tokenizer = tiny_tokenizers.wordpiece()
    tokenizer.add_tokens(["[unused0]", prefix])
    tokenizer.save_pretrained(folder)
    layer = np.random.default_rng(7).standard_normal((31, 48)).astype(np.float32)
    file = folder / "model.safetensors"
    save_file(load_file(file) | {"linear.weight": layer}, file, metadata={"format": "pt"})
    (folder / "artifact.metadata").write_text(json.dumps({"mask_punctuation": False, "dim": 31}))
    edited(folder, {"architectures": ["HF_ColBERT"]})
    export(folder, tmp_path / "out")
    (ours,) = load(tmp_path / "out", device="cpu").embed_tokens(["the cat sat"], is_query=False)
    ids = tokenizer("the cat sat").input_ids
    ids.insert(1, tokenizer.convert_tokens_to_ids(prefix))
    row = torch.tensor([ids])
    with torch.inference_mode():
        hidden = model(input_ids=row, attention_mask=torch.ones_like(row))["last_hidden_state"][0]
    theirs = torch.nn.functional.normalize(hidden @ torch.from_numpy(layer).T, dim=1).numpy()
    assert ours == pytest.approx(theirs, abs=2e-6)
