"""A user loses the claim that an export equals its original if one of these fails."""

import dataclasses

import numpy as np
import onnx
import pytest
import tiny_checkpoint
import torch
import transformers
from helpers.graph_edits import constant_value
from helpers.rows import CONVERSE, FILL, LISTEN, RANK, ROWS, Row
from txgraphs._lowering import NEWER

from txexport import bundle, families
from txexport.contracts import cache_names
from txexport.exporter import export
from txexport.runtime import cpus, load
from txexport.verification import verify
from txexport.verification.bounds import ROUNDINGS

CASES = [(row, cache) for row in ROWS for cache in row.caches]
FAST = [row for row in ROWS if not row.slow]
# Of each family the first in a run of every test, one that generates if there is one.
FIRST_OF_TASK = {row.task: row for row in reversed(FAST)}
FIRST = {row.model_type: row for caches in (1, 2) for row in reversed(FAST) if len(row.caches) == caches}
STATES = (
    "lfm2",
    "qwen3_next",
    "falcon_h1",
    "mamba2",
    "zamba2",
    "recurrent_gemma",
    "rwkv",
    "gemma4_text",
)  # or keys of others
STRUCTURES = ("bert", "gpt2", "t5", "gemma2", "mixtral", "bloom", "whisper", "vit", "clip")
# Families that between them have every operator with each set of names of its attributes; some are here for
# other values of these.
OPERATORS = (
    *STRUCTURES,
    *("clap", "codegen", "deberta-v2", "deepseek_v2", "deformable_detr", "dinov3_vit", "gemma3n_text"),
    *(
        "d_fine",
        "dab-detr",
        "glpn",
        "grounding-dino",
        "llava_onevision",
        "longformer",
        "mamba",
        "mistral3",
        "owlvit",
    ),
    *("parakeet_ctc", "phi", "phimoe", "qwen3_5_text", "rt_detr_v2", "sam", "sam2_video", "sew"),
)


def params(cases, often) -> list:
    """Rows with a kind of cache each; those that are not `often` are marked slow.

    Those of a family are a group, with its mutations: one worker makes checkpoints, runs originals and
    imports the library's modules once.
    """
    return [
        pytest.param(
            row,
            cache,
            id=f"{row.id}-{cache}" if cache else row.id,
            marks=[
                pytest.mark.xdist_group(row.model_type),
                *(() if often(row, cache) and not row.slow else (pytest.mark.slow,)),
            ],
        )
        for row, cache in cases
    ]


def in_one_cache(row: Row, cache) -> bool:
    """Tell whether a run of every test has the row: not if it is another task of a family with shared heads.

    Of two caches it has one: the graphs for other clients grow theirs too. A family of each structure has
    both.
    """
    if row not in (FIRST.get(row.model_type), FIRST_OF_TASK[row.task]) and not row.variant:
        return row.model_type in STRUCTURES
    return cache != "dynamic" or (not row.variant and row.model_type in (*STRUCTURES, *STATES))


def failures(report) -> list:
    return [(case.name, case.exception, case.worst) for case in report.cases if not case.ok]


# Originals without a key/value cache: their cached steps are compared with the logits of one pass.
FEATURES = {CONVERSE: "image_features", LISTEN: "audio_features"}
CACHELESS = {"openai-gpt": {"logits"}, "recurrent_gemma": {"logits"}}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Options for small models: threads wait for each other longer than they compute."""
    monkeypatch.setattr(cpus, "available", lambda: 1)


@pytest.mark.each_family
@pytest.mark.parametrize(("row", "cache"), params(CASES, in_one_cache))
def test_equals_transformers_and_twin(row: Row, cache, bundle_of):
    """Most rows by the quick cases, which catch all wrong graphs of test_mutations.

    The graphs for other clients, flat ones of the same components, are made for one row of a family, and one
    of a task.
    """
    only = None if row in (FIRST.get(row.model_type), FIRST_OF_TASK[row.task]) else "native"
    check(row, cache, bundle_of(row, cache, only), cases="quick" if quickly(row) else "full")


def quickly(row: Row) -> bool:
    """Tell whether the quick cases are enough in a run of every test."""
    return row is not FIRST.get(row.model_type) or row.model_type not in (*STRUCTURES, *STATES)


@pytest.mark.slow
@pytest.mark.parametrize(("row", "cache"), params(CASES, lambda *_: True))
def test_equals_in_full(row: Row, cache, bundle_of):
    check(row, cache, bundle_of(row, cache), cases="full")


def check(row: Row, cache, folder, cases: str) -> None:
    report = verify(folder, cases=cases)
    assert failures(report) == []
    assert report.ok
    assert report.references == ["checkpoint", "twin", "transformers"]
    assert not any(map(slices_backwards, graphs(folder)))
    manifest = bundle.read(folder)
    outputs = {
        kind: {port.name for graph in graphs.values() for port in graph.outputs}
        for kind, graphs in (("native", manifest.native), ("hub", manifest.hub))
    }
    tried = [case for case in report.cases if case.reference != "checkpoint" and not case.skipped]
    assert {case.graphs for case in tried} == {kind for kind in outputs if outputs[kind]}
    for case in tried:
        for check in case.checks:  # more only where PyTorch's own float32 is as far from its float64
            assert check.tolerance == 1e-5 or check.tolerance == ROUNDINGS * check.rounding < 2e-3, check
        compared = {check.output for check in case.checks}
        if row.task in (CONVERSE, LISTEN) and not {"tokens", "beam tokens"} & compared:
            of_images = {FEATURES[row.task], *filter(cache_names.is_cross, outputs[case.graphs])}
            compared |= of_images & outputs[case.graphs]  # of cases without images, which there are too
        if row.task == RANK:
            compared |= {"image_features"} & outputs[case.graphs]  # of queries, which have no images
        cacheless = CACHELESS.get(row.model_type) if case.reference == "transformers" else None
        assert compared in (outputs[case.graphs], {"tokens"}, {"beam scores", "beam tokens"}, cacheless)


def graphs(folder) -> list[onnx.ModelProto]:
    """The graphs of a bundle, at least one."""
    files = bundle.read(folder).every_graph
    assert files
    return [onnx.load(folder / graph.file, load_external_data=False) for graph in files]


def slices_backwards(model: onnx.ModelProto) -> bool:
    """Tell whether a Slice has a negative step, which onnxruntime-web computes wrongly on WebGPU."""
    steps = set()
    for part in (model.graph, *model.functions):
        constants = {node.output[0]: node for node in part.node if node.op_type == "Constant"}
        for node in part.node:
            if node.op_type == "Slice" and len(node.input) > 4 and node.input[4] in constants:
                steps.update(np.ravel(constant_value(constants[node.input[4]])))
    return any(step < 0 for step in steps)


def operators(folder) -> set[str]:
    """Standard operators in a bundle's graphs and functions."""
    found = set()
    for model in graphs(folder):
        nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
        found |= {node.op_type for node in nodes if node.domain == ""}
    return found


# Of growing caches, the graphs for other clients are flat and of an older opset in every bundle.
OLD = [(row, cache) for row, cache in CASES if cache != "dynamic"]


def spelled_otherwise(row: Row, cache) -> bool:
    """Most families share the operators that older opsets spell out."""
    first = row is FIRST.get(row.model_type) and row.model_type in OPERATORS
    return first or row.model_type in ("gemma2", "mixtral")  # whose variants attend otherwise


@pytest.mark.slow
def test_every_operator_of_opset_17_is_in_a_family_of_every_run(checkpoint_of, tmp_path):
    """Else a new family's operator would be spelled out for opset 17 untried."""
    forms = {}
    for model_type, row in FIRST.items():
        cache = next((one for one in row.caches if one != "dynamic"), None)
        form = {"cache": cache, "opset": 17, "inline": True, "only": "native", "force": True}
        export(checkpoint_of(row), tmp_path / "out", task=row.task, **form)
        nodes = [node for model in graphs(tmp_path / "out") for node in model.graph.node]
        forms[model_type] = {
            (node.op_type, *sorted(attribute.name for attribute in node.attribute)) for node in nodes
        }
    tried = set().union(*(forms[name] for name in OPERATORS))
    assert {name: form - tried for name, form in forms.items() if form - tried} == {}


@pytest.mark.parametrize(("row", "cache"), params(OLD, spelled_otherwise))
def test_flat_graph_of_opset_17_equals_transformers(row: Row, cache, checkpoint_of, tmp_path):
    form = {"cache": cache, "opset": 17, "inline": True, "only": "native"}
    export(checkpoint_of(row), tmp_path / "out", task=row.task, **form)
    for model in graphs(tmp_path / "out"):
        assert not model.functions
        assert {entry.domain: entry.version for entry in model.opset_import} == {"": 17}
        assert model.ir_version == 8
    assert not operators(tmp_path / "out") & set(NEWER)
    assert failures(verify(tmp_path / "out", reference="transformers", cases="quick")) == []


FLAT = [(row, cache) for row, cache in CASES if row.model_type in STRUCTURES and not row.variant]


# The oldest, the newest and, for an encoder and decoder with caches, each one between.
OLDER = [
    pytest.param(name, opset, marks=() if opset in (17, 23) else pytest.mark.slow)
    for name in ("bert", "gpt2", "bart", "qwen3")
    for opset in range(17, 24)
]


@pytest.mark.parametrize(("model_type", "opset"), OLDER)
def test_older_opsets_keep_their_functions(model_type, opset, checkpoint_of, tmp_path):
    export(checkpoint_of(model_type), tmp_path / "out", opset=opset, only="native")
    for model in graphs(tmp_path / "out"):
        assert {entry.domain: entry.version for entry in model.opset_import} == {"": opset, "txexport": 1}
        for function in model.functions:
            assert {entry.version for entry in function.opset_import if entry.domain == ""} <= {opset}
    assert not operators(tmp_path / "out") & {name for name, first in NEWER.items() if first > opset}
    assert failures(verify(tmp_path / "out", reference="twin")) == []


@pytest.mark.parametrize(("row", "cache"), params(FLAT, lambda *_: True))
def test_flat_graph_equals_transformers(row: Row, cache, checkpoint_of, tmp_path):
    export(checkpoint_of(row), tmp_path / "out", task=row.task, cache=cache, inline=True, only="native")
    for model in graphs(tmp_path / "out"):
        assert not model.functions
        assert {entry.domain: entry.version for entry in model.opset_import} == {"": 24}
    assert failures(verify(tmp_path / "out", reference="transformers")) == []


def test_every_family_has_rows_for_each_of_its_tasks():
    claimed = {(name, task) for name in families.names() for task in families.module(name).TASKS}
    assert claimed == {(row.model_type, row.task) for row in ROWS}


PROMPTS = [[5, 6, 7], [9], [20, 21, 22, 23, 24, 25, 26], [40, 41]]


WRITERS = [(row, cache) for row, cache in CASES if "generation" in row.task]
FIRST_WRITER = {row.model_type: row for row, _ in reversed(WRITERS)}


def of_each_family(row: Row, cache) -> bool:
    """A row's tokens are verified by its cases; here rows end at EOS, which a family covers once."""
    return row is FIRST_WRITER[row.model_type] and (cache == "static" or row.model_type in STRUCTURES)


@pytest.mark.parametrize(("row", "cache"), params(WRITERS, of_each_family))
def test_greedy_tokens_equal_transformers(row: Row, cache, checkpoint_of, bundle_of):
    auto = {
        "text-generation": transformers.AutoModelForCausalLM,
        "text2text-generation": transformers.AutoModelForSeq2SeqLM,
    }[row.task]
    if row.architecture in getattr(families.module(row.model_type), "ORIGINALS", ()):
        auto = getattr(transformers, row.architecture)
    original = auto.from_pretrained(checkpoint_of(tiny_checkpoint.WITHIN.get(row.model_type, row))).eval()
    # An end-of-sequence token that these weights do choose, so that rows end at different times.
    model = load(bundle_of(row, cache))
    model.bundle.files.generation_config = dataclasses.replace(model.generation_config, eos_token_id=())
    eos = model.generate_ids(PROMPTS, max_new_tokens=25)[2][4]
    model.bundle.files.generation_config = dataclasses.replace(model.generation_config, eos_token_id=(eos,))
    found = model.generate_ids(PROMPTS, max_new_tokens=25)
    for prompt, tokens in zip(PROMPTS, found, strict=True):
        ids = torch.tensor([prompt])
        expected = original.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=25,
            do_sample=False,
            num_beams=1,
            use_cache=row.model_type not in CACHELESS,
            eos_token_id=eos,
            pad_token_id=1,
        )[0].tolist()
        expected = expected[len(prompt) :] if row.task == "text-generation" else expected[1:]
        assert tokens == expected
    assert {len(tokens) for tokens in found} != {25}


def test_hidden_states_do_not_depend_on_the_batch(bundle_of):
    model = load(bundle_of("bert"))
    ids = np.arange(12).reshape(1, 12)
    ones = np.ones_like(ids)
    alone = model.run(input_ids=ids[:, :5], attention_mask=ones[:, :5], token_type_ids=0 * ids[:, :5])
    mask = ones.copy()
    mask[:, 5:] = 0
    padded = model.run(input_ids=ids, attention_mask=mask, token_type_ids=0 * ids)
    error = np.abs(alone["last_hidden_state"] - padded["last_hidden_state"][:, :5]).max()
    assert error < 1e-5


def test_heads_of_data2vec_are_behind_its_own_prefix(checkpoint_of, tmp_path):
    row = Row("data2vec-text", "Data2VecTextForMaskedLM", FILL)
    assert export(checkpoint_of(row), tmp_path / "out", only="hub").task == FILL
