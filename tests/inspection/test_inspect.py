"""`inspect`'s parameters, weights, graphs and files, against independent counts."""

import dataclasses
import itertools
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import onnx
import pytest
import tiny_checkpoint
from click.testing import CliRunner
from helpers.bundle_edits import graph_path, stored
from helpers.project import loaded_after
from helpers.rows import Row
from onnx import TensorProto, helper
from onnx.inliner import inline_local_functions
from safetensors.torch import load_file, save_file

import txexport
from txexport.cli.main import main
from txexport.errors import BundleError, InputError
from txexport.families import presets
from txexport.inspection import parameter_count
from txexport.inspection.graph_stats import FunctionFacts, read_graph

# Counted by transformers and used in no task: ESM's contact head, mask tokens of images, the initial vector
# of XLNet's second stream. Buffers and not parameters there: a bias of the vocabulary, a router's
# corrections. Left out there: biases of 0.
ELSEWHERE = {"esm": -7, "dinov2": -48, "dinov2_with_registers": -48, "gte": 100, "olmo": 48, "whisper": 48}
ELSEWHERE |= {
    "qwen2_audio": 36,
    "voxtral": 36,
    "audioflamingo3": 36,
    "florence2": 5 * 36,
    "deberta": 48,
    "dinov3_vit": 48 - 48,
}  # the latter leaves out biases, and counts such a token
ELSEWHERE |= {"deepseek_v3": 2 * 8, "glm4_moe": 2 * 5, "afmoe": 2 * 5, "lfm2_moe": 3 * 5, "xlnet": -48}
ELSEWHERE |= dict.fromkeys(("dots1", "ernie4_5_moe", "minimax_m2"), 2 * 5)
ELSEWHERE |= {"glm4_moe_lite": 2 * 8, "solar_open": 3 * 5, "exaone_moe": 3 * 5, "nemotron_h": 5}
ELSEWHERE |= {"kimi_linear": 2 * 8}
# The mask token, and the two convolutions of a map that is added to none.
ELSEWHERE |= {"depth_anything": -48 - 2 * (11 * 11 * 9 + 11)}
ELSEWHERE |= {"clap": 2 * 8}  # means and variances of bands
ELSEWHERE |= {"dpt": -2 * 48 - 2 * (10 * 10 * 9 + 10)}  # a norm that depths do not read, and the latter
# What compares whole images, and the scores of objectness.
# What compares whole images, and the image encoder's last layer, which the decoder does not read.
ELSEWHERE |= {"clipseg": -(48 * 40 + 1 + 2 * 48) - (4 * (48 * 48 + 48) + 4 * 48 + 2 * 48 * 100 + 100 + 48)}
ELSEWHERE |= {"owlvit": -(48 * 48 + 1), "owlv2": -(48 * 48 + 1) - 2 * (48 * 48 + 48) - 49}
# What training masks with, and the norms of a normalised weight.
ELSEWHERE |= dict.fromkeys(("wav2vec2", "hubert", "sew", "unispeech", "unispeech-sat", "wavlm"), -(48 + 6))
ELSEWHERE |= {"data2vec-audio": -48}
# A backbone that training leaves.
ELSEWHERE |= dict.fromkeys(("detr", "table-transformer", "deformable_detr", "conditional_detr"), 3145)
# Batch norms that training leaves and statistics of the others, less scores of earlier layers and of noise.
ELSEWHERE |= dict.fromkeys(("rt_detr", "rt_detr_v2"), 968 - 2 * (16 * 2 + 2) - 3 * 16)
# And factors of points, less what scores of edges tell earlier layers.
ELSEWHERE |= {"d_fine": 1490 + 3 * 5 - 2 * (16 * 2 + 2) - 2 * (16 * 6 + 6 + 6 + 1) - 3 * 16}
ELSEWHERE |= {"dab-detr": 4 * 134}  # batch norms, which are buffers there
# A layer that nothing reads, and two groups of queries and of what proposes their boxes.
GROUPS = 2 * (7 * (16 + 4) + 3 * (16 * 16 + 16) + 2 * 16 + 16 * (2 + 4) + 2 + 4)
ELSEWHERE |= {"rf_detr": -(GROUPS + 2256 + 16)}  # and a token for masks
# And a position of no token, less statistics of batch norms and a bias of keys.
ELSEWHERE |= {"lw_detr": 2 * 160 + 16 - (GROUPS + 2240 + 16)}
# The last layer's layout, of which attention reads queries and keys alone.
ELSEWHERE |= {"lilt": -(2 * (24 * 24 + 24) + 2 * 24 * 50 + 50 + 24 + 4 * 24)}
ELSEWHERE |= {"upernet": 216 - 674}  # means and variances, less an auxiliary head
ELSEWHERE |= {"vit_mae": 48 * 26}  # positions that are not learned
ELSEWHERE |= {"glpn": 2 * 2 * (18 + 9), "resnet": 248}  # means and variances of batch norms
# Frequencies that training leaves, and memories of other images.
ELSEWHERE |= {"sam2": 2 * 8, "sam2_video": 2 * 8 - 171_321}
ELSEWHERE |= {"segformer": 2 * 18}  # the mean and the variance of a batch norm
ELSEWHERE |= dict.fromkeys(
    ("maskformer", "mask2former"), -2 * 96
)  # the norm of Swin's last hidden state, which nothing reads
ELSEWHERE |= {"grounding-dino": -2 * 64}  # the same
ELSEWHERE |= {"llava": -27_040 - 120}  # the image encoder's last layer, and the norm behind it
ELSEWHERE |= {"llava_next": -19_348 - 96, "llava_onevision": -96}  # the same, or the norm alone
ELSEWHERE |= {"wav2vec2-bert": -48}
# Numbers that multiply layers are buffers there, and norms of values have no weights; less the encoders.
ELSEWHERE |= {"gemma4_text": 6 + 10 + 14, "gemma4": 6 + 10 + 14 - 41_450}
ELSEWHERE |= {"gemma3n_text": 10, "gemma3n": 10, "llama4_text": 10, "llama4": 10, "nanochat": 48 + 8}
ELSEWHERE |= {"parakeet_ctc": 2 * 2 * 48}  # means and variances of batch norms, which training counts
# The same, less a convolution for positions that the original leaves out, and what training masks with.
ELSEWHERE |= {"wav2vec2-conformer": 2 * 2 * 48 - (48 * 12 * 6 + 6 + 48) - 48}
ELSEWHERE |= {"speech-encoder-decoder": -(48 + 6)}
# Before a decoder, an encoder's pooler, and all token types but the first, in both.
ELSEWHERE |= {"encoder-decoder": -(48 * 49 + 2 * 48), "vision-encoder-decoder": -48 * 49}
BARTS = (
    "bart",
    "blenderbot",
    "blenderbot-small",
    "mbart",
    "marian",
    "pegasus",
    "plbart",
    "mvp",
    "bigbird_pegasus",
)
ELSEWHERE |= dict.fromkeys(BARTS, tiny_checkpoint.VOCAB)

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
    "clip": {
        "embedding": r"_embedding\.|class_embedding",
        "attention": "self_attn",
        "feed_forward": r"\.mlp\.",
        "norms": "norm",
        "head": "_projection|logit_scale",
    },
    "bert": {
        "embedding": r"_embeddings\.",
        "attention": r"attention\.(self|output\.dense)",
        "feed_forward": r"(intermediate|layer\.\d\.output)\.dense",
        "norms": "LayerNorm",
        "pooler": "pooler",
    },
}


@pytest.mark.parametrize("model_type", tiny_checkpoint.FAMILIES)
def test_parameters_are_those_of_the_original(model_type, checkpoint_of):
    original = tiny_checkpoint.build(model_type)
    learned = sum(p.numel() for p in original.parameters() if p.requires_grad)
    found = txexport.inspect(checkpoint_of(model_type)).parameters
    assert found.total == learned + ELSEWHERE.get(model_type, 0)


@pytest.mark.parametrize("model_type", NAMES)
def test_components_are_those_of_the_original(model_type, checkpoint_of):
    expected = dict.fromkeys(parameter_count.COMPONENTS, 0)
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
    assert 1 < parameter_count.count(presets.gpt2("xl")).share < 1.001


def test_shared_layers_count_once_and_effectively_each_time(checkpoint_of):
    group = tiny_checkpoint.build("albert", num_hidden_layers=5).encoder.albert_layer_groups
    shared = sum(p.numel() for p in group.parameters())
    for number in (2, 5):
        sizes = {"num_hidden_layers": number}
        plain = Row("albert", "AlbertModel", "feature-extraction", f"{number} layers", sizes)
        found = txexport.inspect(checkpoint_of(plain)).parameters
        assert found.effective == found.total + (number - 1) * shared


def test_active_parameters_are_those_of_the_chosen_experts(checkpoint_of):
    found = txexport.inspect(checkpoint_of("mixtral")).parameters
    assert found.active == found.total - 2 * (5 - 2) * 3 * 48 * 100
    assert txexport.inspect(checkpoint_of("gpt2")).parameters.active == 55_640


def test_tables_that_nothing_learns_are_apart():
    spec = presets.transformer_base()
    found = parameter_count.count(spec)
    assert found.fixed == 2 * presets.SINUSOIDS * 512
    assert found.components["embedding"] == 37_000 * 512


def test_fixed_tables_are_those_that_the_original_does_not_train(checkpoint_of):
    original = tiny_checkpoint.build("whisper")
    fixed = sum(p.numel() for p in original.parameters() if not p.requires_grad)
    assert txexport.inspect(checkpoint_of("whisper")).parameters.fixed == fixed == 21 * 48


def test_weights_are_as_large_as_their_files(checkpoint_of, bundle_of, tmp_path):
    for model_type in ("bart", "albert", "gptj"):
        held = stored(bundle_of(model_type))
        size = sum(array.nbytes for array in held.values())
        assert txexport.inspect(bundle_of(model_type)).weights.bundle == size
        assert txexport.inspect(checkpoint_of(model_type)).weights.bundle == size
    shutil.copytree(checkpoint_of("gpt2"), tmp_path / "half")
    tensors = load_file(tmp_path / "half" / "model.safetensors")
    half = {name: tensor.bfloat16() if tensor.ndim > 1 else tensor for name, tensor in tensors.items()}
    save_file(half, tmp_path / "half" / "model.safetensors")
    small = sum(tensor.nbytes for tensor in tensors.values() if tensor.ndim == 1)
    large = sum(tensor.nbytes for tensor in tensors.values() if tensor.ndim > 1)
    assert txexport.inspect(tmp_path / "half").weights.checkpoint == {"BF16": large // 2, "F32": small}


@pytest.mark.parametrize("model_type", ["bert", "bart", "mixtral", "albert", "clip", "marian"])
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
        model = onnx.load(bundle_of(model_type) / "onnx" / facts.file, load_external_data=False)
        inlined = inline_local_functions(model)
        assert not inlined.functions
        assert facts.operators == operators_of(inlined.graph.node)
        assert facts.nodes == sum(facts.operators.values()) >= len(model.graph.node)
        assert bool(model.functions) == (facts.nodes > len(model.graph.node)) or "merged" in facts.file


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


def calling(folder: Path, calls: dict[str, list[str]]) -> Path:
    """A graph that runs "first", and functions that call others and then negate."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]

    def body(called: list[str]) -> list:
        names = [*(str(i) for i in range(len(called) + 1)), "b"]
        kinds = [*((name, "own") for name in called), ("Neg", "")]
        start = [helper.make_node("Identity", ["a"], ["0"])]
        return start + [
            helper.make_node(kind, [one], [other], domain=domain)
            for (kind, domain), one, other in zip(kinds, names[:-1], names[1:], strict=True)
        ]

    functions = [helper.make_function("own", f, ["a"], ["b"], body(to), opsets) for f, to in calls.items()]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in "ab"]
    run = helper.make_node("first", ["a"], ["b"], domain="own")
    graph = helper.make_graph([run], "g", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=opsets, functions=functions), folder / "m.onnx")
    return folder / "m.onnx"


def test_functions_that_double_are_counted_without_being_walked(tmp_path):
    """Of 62 functions, each calling the next twice, a walk would never end."""
    names = ["first", *(f"f{i}" for i in range(61))]
    chain = {name: [later, later] for name, later in itertools.pairwise(names)} | {names[-1]: []}
    facts = read_graph(calling(tmp_path, chain))
    assert facts.functions["f60"] == FunctionFacts(2, 2**61)
    assert facts.operators == {"Identity": 2**62 - 1, "Neg": 2**62 - 1}
    names += [f"g{i}" for i in range(20_000)]
    chain = {name: [later, later] for name, later in itertools.pairwise(names)} | {names[-1]: []}
    with pytest.raises(BundleError, match=r"m.onnx calls function 'g\d' more than 9,223,"):
        read_graph(calling(tmp_path, chain))


@pytest.mark.parametrize("calls", [{"first": ["first"]}, {"first": ["other"], "other": ["first"]}])
def test_function_that_calls_itself_is_one_line(calls, tmp_path):
    with pytest.raises(BundleError, match=r"m.onnx: function '\w+' calls itself, which ONNX does not allow"):
        read_graph(calling(tmp_path, calls))


def test_functions_count_how_often_each_runs(bundle_of):
    functions = txexport.inspect(bundle_of("gpt2")).bundle.graphs["onnx/model_static.onnx"].functions
    called = {name: facts.calls for name, facts in functions.items()}
    names = ("decoder_block", "decoder_block_2", "norm", "linear_bias", "embedding")
    assert {name: called[name] for name in names} == {
        "decoder_block": 1,
        "decoder_block_2": 1,  # of the selected tokens
        "norm": 2 * 2 + 1,
        "linear_bias": 2 * 6,
        "embedding": 1,
    }
    assert functions["decoder_block"].nodes == 6  # two norms, two sublayers, two residual sums


def test_bundle_says_what_its_files_are(bundle_of):
    found = txexport.inspect(bundle_of("bart", "dynamic")).bundle
    manifest = json.loads((bundle_of("bart", "dynamic") / "txexport.json").read_text())
    assert (found.cache, found.opset, found.versions) == ("dynamic", 24, manifest["versions"])
    folder = bundle_of("bart", "dynamic")
    paths = [path for path in folder.rglob("*") if path.is_file()]
    assert found.files == {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths}
    listed = {graph["file"]: graph for graph in manifest["formats"]["float32"]["native"].values()}
    assert found.graphs.keys() == listed.keys()
    for name, facts in found.graphs.items():
        graph = listed[name]
        assert [dataclasses.asdict(port) for port in facts.inputs] == graph["inputs"]
        assert [dataclasses.asdict(port) for port in facts.outputs] == graph["outputs"]
        model = onnx.load(folder / name, load_external_data=False)
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
    "ALiBi of any length, pre-norm (layer)",
    "t5": "2 causal layers of width 48, 3 heads of 10, attention to the encoder, feed-forward 100 (relu), "
    "vocabulary 311, relative positions in 8 buckets of any length, pre-norm (rms)",
}


@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_architecture_is_one_line_a_stack(model_type, checkpoint_of):
    assert txexport.inspect(checkpoint_of(model_type)).architecture["decoder"] == ARCHITECTURES[model_type]


READERS = {
    "albert": "2 layers of width 48, 3 heads of 16, feed-forward 100 (gelu_tanh), vocabulary 311, "
    "word embeddings of 20, 2 segments, learned positions up to 40, post-norm (layer)",
    "vit": "2 layers of width 48, 3 heads of 16, feed-forward 100 (gelu), 30 x 30 pixels in squares of 6, "
    "26 learned positions, pre-norm (layer)",
    "whisper": "2 layers of width 48, 3 heads of 16, feed-forward 100 (gelu), 42 frames of 11 bands, "
    "21 fixed positions, pre-norm (layer)",
}


@pytest.mark.parametrize("model_type", READERS)
def test_architecture_says_what_an_encoder_reads(model_type, checkpoint_of):
    assert txexport.inspect(checkpoint_of(model_type)).architecture["encoder"] == READERS[model_type]


def test_length_defaults_to_what_the_model_can_read(checkpoint_of):
    assert txexport.inspect(checkpoint_of("gpt2")).length == 40
    assert txexport.inspect(checkpoint_of("t5")).length == 512
    assert txexport.inspect(checkpoint_of("vit")).length == 26
    with pytest.raises(InputError, match="reads no text has a fixed length"):
        txexport.inspect(checkpoint_of("vit"), length=26)
    for length, message in ((41, "length is 41, expected 1 to 40"), (0, "length is 0, expected 1 to 40")):
        with pytest.raises(InputError, match=message):
            txexport.inspect(checkpoint_of("gpt2"), length=length)
    with pytest.raises(InputError, match="batch is 0"):
        txexport.inspect(checkpoint_of("gpt2"), batch=0)


def test_task_changes_what_a_checkpoint_holds(checkpoint_of, bundle_of):
    found = txexport.inspect(checkpoint_of("gpt2"), task="feature-extraction")
    assert (found.task, found.step, found.cache) == ("feature-extraction", None, None)
    assert found.prefill["encoder"].head == 0
    with pytest.raises(InputError, match="is a bundle and has its task"):
        txexport.inspect(bundle_of("gpt2"), task="feature-extraction")


@pytest.mark.parametrize("content", [b"", b"no graph"])
def test_damaged_graph_is_one_line(content, bundle_of, tmp_path):
    shutil.copytree(bundle_of("gpt2"), tmp_path / "copy")
    graph_path(tmp_path / "copy").write_bytes(content)
    with pytest.raises(BundleError, match=r"model_\w+.onnx cannot be read as ONNX: [^\n]*; export again$"):
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
    assert json.loads(output)["prefill"]["decoder"]["tokens"] == 18
    assert (json.loads(output)["bundle"] is None) == (kind == "checkpoint")


@pytest.mark.parametrize("model_type", ["gpt2", "bart", "mixtral", "albert", "mistral", "clip", "whisper"])
def test_table_shows_the_numbers(model_type, bundle_of, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    found = txexport.inspect(bundle_of(model_type))
    code, output, _ = invoke(bundle_of(model_type))
    assert code == 0
    counted = found.parameters
    for size in (*counted.components.values(), counted.total, counted.without_embeddings, counted.active):
        assert size == 0 or re.search(rf" {size:,}\s", output)
    for facts in found.bundle.graphs.values():
        for name, times in facts.operators.items():
            assert re.search(rf"\b{times} {name}\s", output)
        assert f"{facts.nodes} nodes inlined" in output
    for line in found.architecture.values():
        assert line in output
    assert ("attend to a window" in output) == (model_type == "mistral")
    assert ("active for a token" in output) == (model_type == "mixtral")
    assert ("shared ones repeated" in output) == (model_type in ("albert", "whisper"))
    assert ("not learned" in output) == (model_type == "whisper")
    assert ("cache of the encoder" in output) == (model_type in ("bart", "whisper"))
    assert all(f"{name} reads {work.tokens} tokens" in output for name, work in found.prefill.items())
    assert ("cross attention" in output) == (model_type in ("bart", "whisper"))


def test_inputs_of_all_layers_share_a_line(bundle_of, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    _, output, _ = invoke(bundle_of("gpt2"))
    lines = [" ".join(row.split()) for row in output.splitlines() if "past_key_values.{i}.key" in row]
    given = "2 inputs past_key_values.{i}.key float (batch_size, 3,"
    assert lines == [f"{given} capacity, 16)", f"{given} past_sequence_length, 16)"]


def test_inspection_needs_nothing_that_runs_a_model(checkpoint_of, bundle_of):
    heavy = {"torch", "transformers", "onnxruntime", "onnxscript", "onnx_ir", "rich", "click"}
    for path in (checkpoint_of("gpt2"), bundle_of("gpt2")):
        assert not loaded_after(f"import txexport; txexport.inspect({str(path)!r})") & heavy
