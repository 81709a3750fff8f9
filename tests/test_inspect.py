"""What `inspect` says, against counts made in other ways: of tensors, of a profiler, of arrays, of onnx."""

import dataclasses
import json
import re
import shutil
from collections import Counter

import numpy as np
import onnx
import pytest
import tiny_checkpoint
import torch
from click.testing import CliRunner
from onnx import TensorProto, helper
from onnx.inliner import inline_local_functions
from rows import ROWS
from safetensors.torch import load_file, save_file
from test_layout import loaded_after
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from txmodels.mask import causal_mask, near_mask
from txmodels.model import Model

import txexport
from txexport import costs, presets
from txexport.cli import main
from txexport.errors import BundleError, InputError
from txexport.operators import FunctionFacts, read_graph
from txexport.runtime.cache import open_cache
from txexport.spec import Activation, AttentionSpec, Cache, HeadKind, HeadSpec, ModelSpec

# What transformers counts and no task computes, or keeps as a buffer and not as a parameter.
BIAS = tiny_checkpoint.VOCAB
ELSEWHERE = {"esm": -7, "bart": BIAS, "mbart": BIAS}

# Component -> the original's names of its parameters.
NAMES = {
    "gpt2": {
        "embedding": r"\.w[tp]e\.",
        "attention": r"\.attn\.",
        "feed_forward": r"\.mlp\.",
        "norms": r"\.ln_",
    },
    "albert": {
        "embedding": r"_embeddings\.|hidden_mapping",
        "attention": r"attention\.(query|key|value|dense)",
        "feed_forward": r"ffn",
        "norms": r"LayerNorm|layer_norm",
        "pooler": "pooler",
    },
    "mixtral": {
        "embedding": "embed_tokens",
        "attention": "self_attn",
        "experts": r"\.mlp\.",
        "norms": "norm",
        "head": "lm_head",
    },
    "qwen3": {
        "embedding": "embed_tokens",
        "attention": r"self_attn\.\w_proj",
        "feed_forward": r"\.mlp\.",
        "norms": "norm",
        "head": "lm_head",
    },
    "t5": {
        "embedding": "shared",
        "attention": "SelfAttention",
        "cross_attention": "EncDecAttention",
        "feed_forward": "DenseReluDense",
        "norms": "layer_norm",
    },
    "bert": {
        "embedding": r"_embeddings\.",
        "attention": r"attention\.(self|output\.dense)",
        "feed_forward": r"(intermediate|layer\.\d\.output)\.dense",
        "norms": "LayerNorm",
        "pooler": "pooler",
    },
}


def row(model_type: str, task: str, variant: str = ""):
    return next(r for r in ROWS if (r.model_type, r.task, r.variant) == (model_type, task, variant))


@pytest.mark.parametrize("model_type", tiny_checkpoint.FAMILIES)
def test_parameters_are_those_of_the_original(model_type, checkpoint_of):
    original = sum(p.numel() for p in tiny_checkpoint.build(model_type).parameters())
    assert txexport.inspect(checkpoint_of(model_type)).parameters.total == original + ELSEWHERE.get(
        model_type, 0
    )


@pytest.mark.parametrize("model_type", NAMES)
def test_components_are_those_of_the_original(model_type, checkpoint_of):
    expected = dict.fromkeys(costs.COMPONENTS, 0)
    for name, parameter in tiny_checkpoint.build(model_type).named_parameters():
        (component,) = [part for part, names in NAMES[model_type].items() if re.search(names, name)]
        expected[component] += parameter.numel()
    found = txexport.inspect(checkpoint_of(model_type)).parameters
    assert found.components == expected
    assert found.without_embeddings == found.total - expected["embedding"]


def test_parameters_without_embeddings_against_the_rule_of_thumb(checkpoint_of):
    model = tiny_checkpoint.build("gpt2")
    found = txexport.inspect(checkpoint_of("gpt2")).parameters
    assert found.without_embeddings == model.num_parameters(exclude_embeddings=True)
    assert found.rule_of_thumb == 12 * 48**2 * 2
    assert found.share == pytest.approx(found.without_embeddings / 55_296)
    assert 1 < costs.count(presets.gpt2("xl")).share < 1.001


def test_shared_layers_count_once_and_effectively_each_time(checkpoint_of):
    group = tiny_checkpoint.build("albert", num_hidden_layers=5).encoder.albert_layer_groups
    shared = sum(p.numel() for p in group.parameters())
    for number in (2, 5):
        plain = dataclasses.replace(
            row("albert", "feature-extraction"),
            variant=f"{number} layers",
            config={"num_hidden_layers": number},
        )
        found = txexport.inspect(checkpoint_of(plain)).parameters
        assert found.effective == found.total + (number - 1) * shared


def test_active_parameters_are_those_of_the_chosen_experts(checkpoint_of):
    found = txexport.inspect(checkpoint_of("mixtral")).parameters
    assert found.active == found.total - 2 * (5 - 2) * 3 * 48 * 100
    assert txexport.inspect(checkpoint_of("gpt2")).parameters.active == 55_640


def test_tables_that_nothing_learns_are_apart():
    spec = presets.transformer_base()
    found = costs.count(spec)
    assert found.fixed == 2 * presets.SINUSOIDS * 512
    assert found.components["embedding"] == 37_000 * 512


def operations(run) -> tuple[int, int]:
    """What PyTorch counts: operations with weights, and of attention with keys and values."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        run()
    counts = Counter({str(name): n for name, n in counter.get_flop_counts()["Global"].items()})
    attention = counts.pop("aten.bmm", 0)
    return counts.total(), attention


def prompt(model: Model, batch: int, length: int, cache: int = 0):
    """A pass of a decoder over `length` tokens after `cache` others, all of them scored."""
    ids, _ = tokens(batch, length)
    past = model.empty_past(batch, cache)
    cross = {}
    if model.spec.encoder is not None:
        size = model.spec.decoder.blocks[0].cross_attention
        kept = torch.zeros(batch, size.num_kv_heads, length + cache, size.head_dim)
        whole = torch.ones(batch, length + cache, dtype=torch.long)
        cross = {"encoder_attention_mask": whole, "cross": [(kept, kept)] * len(past)}
    return lambda: model.decode(ids, past, **cross)


def tokens(batch: int, length: int):
    return torch.zeros(batch, length, dtype=torch.long), torch.ones(batch, length, dtype=torch.long)


PLAIN, MASKED = presets.bert_base(), presets.bert_base(masked_lm=True)
PAIR = HeadSpec(HeadKind.SEQUENCE, tied=False, labels=2, activation=Activation.TANH)
ENCODERS = {
    "with a pooler": PLAIN,
    "with a masked LM": MASKED,
    "with two heads": dataclasses.replace(MASKED, next_sentence=PAIR),
    "with labels": dataclasses.replace(PLAIN, pooler=False, head=PAIR),
    "with labels of tokens": dataclasses.replace(
        PLAIN, pooler=False, head=HeadSpec(HeadKind.TOKENS, tied=False, labels=5)
    ),
    "before a decoder": presets.t5("small"),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_operations_of_an_encoder_are_those_that_pytorch_counts(name):
    with torch.device("meta"):
        model = Model(ENCODERS[name])
        ids, mask = tokens(2, 70)
        counted = operations(lambda: model.encode(ids, mask, torch.zeros_like(ids)))
    found = costs.prefill(ENCODERS[name], 70, 2)
    assert (found.matrices + found.head, found.attention) == counted
    assert (found.tokens, found.total) == (140, sum(counted))


@pytest.mark.parametrize("spec", [presets.gpt2("small"), presets.llama("8b")], ids=["gpt2", "llama"])
def test_operations_of_a_prompt_leave_out_what_a_mask_hides(spec):
    """PyTorch computes the scores of later tokens too, and then masks them: S (S - 1) / 2 pairs a row."""
    attention, layers = spec.decoder.blocks[0].attention, spec.decoder.num_layers
    with torch.device("meta"):
        weights, scores = operations(prompt(Model(spec, Cache.DYNAMIC), 2, 70))
    found = costs.prefill(spec, 70, 2)
    hidden = 2 * layers * 4 * attention.num_heads * attention.head_dim * 70 * 69 // 2
    assert (found.matrices + found.head, found.attention) == (weights, scores - hidden)


@pytest.mark.parametrize("spec", [presets.gpt2("small"), presets.t5("small")], ids=["gpt2", "t5"])
def test_operations_of_a_step_are_those_that_pytorch_counts(spec):
    with torch.device("meta"):
        counted = operations(prompt(Model(spec, Cache.DYNAMIC), 2, 1, cache=69))
    found = costs.step(spec, 70, 2)
    assert (found.matrices + found.head, found.attention) == counted
    assert found.per_token == sum(counted) // 2


def test_operations_of_a_mixture_are_those_of_the_chosen_experts(checkpoint_of):
    found = txexport.inspect(checkpoint_of("mixtral"), length=9)
    weights, _ = operations(prompt(Model(found.spec, Cache.DYNAMIC), 1, 9))
    assert found.prefill.matrices + found.prefill.head == weights


@pytest.mark.parametrize("length", [1, 4, 5, 6, 30])
@pytest.mark.parametrize("window", [1, 2, 5, 31, None])
@pytest.mark.parametrize("causal", [True, False])
def test_windows_leave_as_many_pairs_as_their_masks(causal, window, length):
    ids, ones = tokens(1, length)
    order = torch.arange(length)[None]
    seen = length**2
    if causal:
        seen = int(causal_mask(window, ones, ids, order).sum())
    elif window is not None:
        seen = int(near_mask(window, ones, ids, order).sum())
    spec = presets.gpt2("small")
    attention = AttentionSpec(768, 12, 12, 64, causal, window=window)
    block = dataclasses.replace(spec.decoder.blocks[0], attention=attention)
    whole = ModelSpec(encoder=dataclasses.replace(spec.decoder, blocks=(block,)))
    found = costs.prefill(whole, length)
    assert found.attention == 12 * 4 * 12 * 64 * seen


def test_last_token_of_a_prompt_costs_a_step():
    for spec, length in (
        (presets.gpt2("small"), 701),
        (presets.mistral_7b(), 701),
        (presets.mistral_7b(), 5000),
    ):
        before, after = costs.prefill(spec, length - 1), costs.prefill(spec, length)
        assert after.total - before.total == costs.step(spec, length).total


def test_cache_is_as_large_as_the_arrays_of_a_run(bundle_of):
    for kind, model_type in (("static", "mistral"), ("dynamic", "llama")):
        found = txexport.inspect(bundle_of(model_type, kind), length=7, batch=3)
        model = txexport.load(bundle_of(model_type, kind))
        cache = open_cache(model.sessions["model"], kind, {}, 3, 7)
        cache.step(np.ones((3, 7), np.int64), np.full(3, 7))
        arrays = cache.buffers if kind == "static" else cache.past
        assert found.cache.total == sum(array.numpy().nbytes for array in arrays.values())
        assert found.cache.per_token * 21 == found.cache.total
        assert (found.cache.windowed, found.cache.layers) == (2 * (model_type == "mistral"), 2)


def test_cache_of_an_encoder_is_as_large_as_its_arrays(bundle_of):
    found = txexport.inspect(bundle_of("bart"), length=7, batch=3).cache
    ids = np.ones((3, 7), np.int64)
    outputs = txexport.load(bundle_of("bart")).run("encoder_model", input_ids=ids, attention_mask=ids)
    assert found.cross_total == sum(array.nbytes for name, array in outputs.items() if ".encoder." in name)
    assert found.cross_per_token * 21 == found.cross_total


def test_scores_are_those_of_the_layer_with_most_heads(checkpoint_of):
    found = txexport.inspect(checkpoint_of("bart"), length=7, batch=3)
    assert found.scores_bytes == np.zeros((3, 4, 7, 7), np.float32).nbytes


def test_weights_are_as_large_as_their_files(checkpoint_of, bundle_of, tmp_path):
    for model_type in ("bart", "albert", "gptj"):
        stored = load_file(bundle_of(model_type) / "weights.safetensors")
        size = sum(tensor.nbytes for tensor in stored.values())
        assert txexport.inspect(bundle_of(model_type)).weights.bundle == size
        assert txexport.inspect(checkpoint_of(model_type)).weights.bundle == size
    shutil.copytree(checkpoint_of("gpt2"), tmp_path / "half")
    tensors = load_file(tmp_path / "half" / "model.safetensors")
    half = {name: tensor.bfloat16() if tensor.ndim > 1 else tensor for name, tensor in tensors.items()}
    save_file(half, tmp_path / "half" / "model.safetensors")
    small = sum(tensor.nbytes for tensor in tensors.values() if tensor.ndim == 1)
    large = sum(tensor.nbytes for tensor in tensors.values() if tensor.ndim > 1)
    assert txexport.inspect(tmp_path / "half").weights.checkpoint == {"BF16": large // 2, "F32": small}


@pytest.mark.parametrize("model_type", ["bert", "bart", "mixtral", "albert"])
def test_bundle_and_its_checkpoint_cost_the_same(model_type, checkpoint_of, bundle_of):
    ours = ("path", "weights", "bundle")
    first, second = (
        {key: value for key, value in dataclasses.asdict(txexport.inspect(path)).items() if key not in ours}
        for path in (checkpoint_of(model_type), bundle_of(model_type))
    )
    assert first == second


def operators_of(nodes) -> Counter:
    """Nodes by type, those of branches and loops included."""
    counts = Counter()
    for node in nodes:
        counts[node.op_type] += 1
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                counts += operators_of(graph.node)
    return counts


@pytest.mark.parametrize("model_type", ["gpt2", "bart", "mixtral"])
def test_operators_are_those_that_onnx_inlines(model_type, bundle_of):
    for facts in txexport.inspect(bundle_of(model_type)).bundle.graphs.values():
        model = onnx.load(bundle_of(model_type) / facts.file, load_external_data=False)
        inlined = inline_local_functions(model)
        assert not inlined.functions
        assert facts.operators == operators_of(inlined.graph.node)
        assert facts.nodes == sum(facts.operators.values()) > len(model.graph.node)


def test_operators_in_branches_and_of_other_domains_count(tmp_path):
    def branch(kind: str, domain: str = ""):
        value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
        return helper.make_graph([helper.make_node(kind, ["x"], ["y"], domain=domain)], kind, [], [value])

    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1), helper.make_opsetid("other", 1)]
    branches = {"then_branch": branch("Exp"), "else_branch": branch("twice", "own")}
    choose = helper.make_node("If", ["c"], ["z"], **branches)
    double = helper.make_node("Add", ["a", "a"], ["b"])
    functions = [
        helper.make_function("own", "twice", ["a"], ["b"], [double], opsets[:1]),
        helper.make_function("own", "maybe", ["c", "x"], ["z"], [choose], opsets[:2]),
    ]
    nodes = [
        helper.make_node("maybe", ["c", "i"], ["m"], domain="own"),
        helper.make_node("maybe", ["c", "m"], ["n"], domain="own"),
        helper.make_node("Special", ["n"], ["o"], domain="other"),
    ]
    ports = [
        helper.make_tensor_value_info(name, kind, [])
        for name, kind in (("c", TensorProto.BOOL), ("i", TensorProto.FLOAT), ("o", TensorProto.FLOAT))
    ]
    graph = helper.make_graph(nodes, "g", ports[:2], ports[2:])
    model = helper.make_model(graph, opset_imports=opsets, functions=functions)
    assert operators_of(inline_local_functions(model).graph.node).total() == 7
    onnx.save(model, tmp_path / "m.onnx")
    found = read_graph(tmp_path / "m.onnx")
    assert found.operators == {"If": 2, "Exp": 2, "Add": 2, "other::Special": 1}
    assert found.functions == {"twice": FunctionFacts(1, 2), "maybe": FunctionFacts(1, 2)}


def test_functions_count_how_often_each_runs(bundle_of):
    functions = txexport.inspect(bundle_of("gpt2")).bundle.graphs["model"].functions
    called = {name: facts.calls for name, facts in functions.items()}
    assert {name: called[name] for name in ("decoder_block", "norm", "linear_bias", "embedding")} == {
        "decoder_block": 2,
        "norm": 2 * 2 + 1,
        "linear_bias": 2 * 6,
        "embedding": 1,
    }
    assert functions["decoder_block"].nodes == 6  # two norms, two sublayers, two residual sums


def test_bundle_says_what_its_files_are(bundle_of):
    found = txexport.inspect(bundle_of("bart", "dynamic")).bundle
    manifest = json.loads((bundle_of("bart", "dynamic") / "txexport.json").read_text())
    assert (found.cache, found.opset, found.versions) == ("dynamic", 24, manifest["versions"])
    assert found.files == {path.name: path.stat().st_size for path in bundle_of("bart", "dynamic").iterdir()}
    for role, facts in found.graphs.items():
        graph = manifest["graphs"][role]
        assert [dataclasses.asdict(port) for port in facts.inputs] == graph["inputs"]
        assert [dataclasses.asdict(port) for port in facts.outputs] == graph["outputs"]
        model = onnx.load(bundle_of("bart", "dynamic") / facts.file, load_external_data=False)
        assert (facts.ir_version, facts.opsets[""]) == (model.ir_version, 24)


ARCHITECTURES = {
    "gpt2": "2 causal layers of width 48, 3 heads of 16, feed-forward 100 (gelu_tanh), vocabulary 311, "
    "learned positions up to 40, pre-norm (layer)",
    "gemma2": "3 causal layers of width 48, 6 heads of 10 on 2 key/value heads, feed-forward 100 "
    "(gated gelu_tanh), vocabulary 311, rotary positions up to 40, sandwich-norm (rms), "
    "window of 5 in 2 of 3 layers",
    "mixtral": "2 causal layers of width 48, 6 heads of 8 on 2 key/value heads, 2 of 5 experts, each "
    "feed-forward 100 (gated silu), vocabulary 311, rotary positions up to 40, pre-norm (rms)",
    "bloom": "2 causal layers of width 48, 3 heads of 16, feed-forward 192 (gelu_tanh), vocabulary 311, "
    "linear biases of distance of any length, pre-norm (layer)",
    "t5": "2 causal layers of width 48, 3 heads of 10, attention to the encoder, feed-forward 100 (relu), "
    "vocabulary 311, relative positions in 8 buckets of any length, pre-norm (rms)",
}


@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_architecture_is_one_line_a_stack(model_type, checkpoint_of):
    assert txexport.inspect(checkpoint_of(model_type)).architecture["decoder"] == ARCHITECTURES[model_type]


def test_encoder_outline_names_segments_and_factors(checkpoint_of):
    assert txexport.inspect(checkpoint_of("albert")).architecture == {
        "encoder": "2 layers of width 48, 3 heads of 16, feed-forward 100 (gelu_tanh), vocabulary 311, "
        "word vectors of 20, 2 segments, learned positions up to 40, post-norm (layer)"
    }


def test_length_defaults_to_what_the_model_can_read(checkpoint_of):
    assert txexport.inspect(checkpoint_of("gpt2")).length == 40
    assert txexport.inspect(checkpoint_of("t5")).length == 512
    for length, message in ((41, "length is 41, expected 1 to 40"), (0, "length is 0, expected 1 to 40")):
        with pytest.raises(InputError, match=message):
            txexport.inspect(checkpoint_of("gpt2"), length=length)
    with pytest.raises(InputError, match="batch is 0"):
        txexport.inspect(checkpoint_of("gpt2"), batch=0)


def test_task_changes_what_a_checkpoint_holds(checkpoint_of, bundle_of):
    found = txexport.inspect(checkpoint_of("gpt2"), task="feature-extraction")
    assert (found.task, found.step, found.cache, found.prefill.head) == ("feature-extraction", None, None, 0)
    with pytest.raises(InputError, match="is a bundle and has its task"):
        txexport.inspect(bundle_of("gpt2"), task="feature-extraction")


@pytest.mark.parametrize("content", [b"", b"no graph"])
def test_damaged_graph_is_one_line(content, bundle_of, tmp_path):
    shutil.copytree(bundle_of("gpt2"), tmp_path / "copy")
    (tmp_path / "copy" / "model.onnx").write_bytes(content)
    with pytest.raises(BundleError, match=r"model.onnx cannot be read as ONNX: [^\n]*; export again$"):
        txexport.inspect(tmp_path / "copy")


def invoke(*arguments) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["inspect", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("kind", ["checkpoint", "bundle"])
def test_json_is_the_whole_inspection(kind, checkpoint_of, bundle_of):
    path = checkpoint_of("mistral") if kind == "checkpoint" else bundle_of("mistral")
    code, output, noise = invoke(path, "--length", 9, "--batch", 2, "--json")
    assert (code, noise) == (0, "")
    found = txexport.inspect(path, length=9, batch=2)
    assert json.loads(output) == json.loads(json.dumps(found.to_dict()))
    assert json.loads(output)["prefill"]["tokens"] == 18
    assert (json.loads(output)["bundle"] is None) == (kind == "checkpoint")


@pytest.mark.parametrize("model_type", ["gpt2", "bart", "mixtral", "albert", "mistral"])
def test_table_shows_the_numbers(model_type, bundle_of, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    found = txexport.inspect(bundle_of(model_type))
    code, output, _ = invoke(bundle_of(model_type))
    assert code == 0
    counted = found.parameters
    for size in (*counted.components.values(), counted.total, counted.without_embeddings, counted.active):
        assert size == 0 or f" {size:,} " in output
    for facts in found.bundle.graphs.values():
        assert f"{facts.operators['Reshape']} Reshape" in output
        assert f"{facts.nodes} nodes inlined" in output
    for line in found.architecture.values():
        assert line in output
    assert ("look at a window" in output) == (model_type == "mistral")
    assert ("active for a token" in output) == (model_type == "mixtral")
    assert ("shared ones repeated" in output) == (model_type == "albert")
    assert ("cache of the encoder" in output) == (model_type == "bart")
    assert ("cross attention" in output) == (model_type == "bart")


def test_inputs_of_all_layers_share_a_line(bundle_of, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    _, output, _ = invoke(bundle_of("gpt2"))
    (line,) = [line for line in output.splitlines() if "past_key_values.{i}.key" in line]
    assert " ".join(line.split()) == "2 inputs past_key_values.{i}.key float (batch_size, 3, capacity, 16)"


def test_inspection_needs_nothing_that_runs_a_model(checkpoint_of, bundle_of):
    heavy = {"torch", "transformers", "onnxruntime", "onnxscript", "onnx_ir", "rich", "click"}
    for path in (checkpoint_of("gpt2"), bundle_of("gpt2")):
        assert not loaded_after(f"import txexport; txexport.inspect({str(path)!r})") & heavy
