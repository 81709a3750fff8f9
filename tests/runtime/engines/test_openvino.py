"""OpenVINO as a bundle's engine: the answers of ONNX Runtime, from graphs that it puts together itself."""

import threading
import time

import numpy as np
import pytest
import tiny_checkpoint
from click.testing import CliRunner
from helpers.saturation import skip_where_products_saturate

import txexport
from txexport.cli.main import main
from txexport.contracts import roles
from txexport.contracts.names import LOGITS_INDICES
from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.exporter import export
from txexport.runtime.generation.kv_cache import DynamicCache
from txexport.runtime.session import Session

pytest.importorskip("openvino")
engine = pytest.importorskip("txexport.runtime.engines.openvino")
pick_logits = pytest.importorskip("txexport.runtime.engines.openvino_logits").pick_logits

TEXTS = ["the cat sat", "a dog on the mat and a rug"]
PROMPTS = [[5, 6, 7], [9], [8] * 12]
# What rounding of float32 may leave of outputs that are about 1, over two layers.
CLOSE = {"rtol": 1e-5, "atol": 5e-6}
OTHERWISE = 1e-3  # bfloat16 keeps 8 bits: an output that is nearer to float32 was not computed in it


@pytest.fixture(scope="module")
def pair_of(bundle_of):
    """A function from a model_type to its model in ONNX Runtime and in OpenVINO."""
    made: dict[str, tuple[txexport.Model, txexport.Model]] = {}

    def get(model_type: str) -> tuple[txexport.Model, txexport.Model]:
        if model_type not in made:
            folder = bundle_of(model_type)
            made[model_type] = (
                txexport.load(folder, device="cpu", threads=1),
                txexport.load(folder, threads=1, engine="openvino"),
            )
        return made[model_type]

    return get


def seeded(session: Session, rows: int = 3, length: int = 7) -> dict[str, np.ndarray]:
    """Inputs of a graph, of tokens the last two of each row but the first padding."""
    random, feeds = np.random.default_rng(0), {}
    for name, port in session.inputs.items():
        shape = [rows, *(dim if isinstance(dim, int) else length for dim in port.shape[1:])]
        if session.dtype(name) == np.float32:
            feeds[name] = random.standard_normal(shape, np.float32)
        elif name == "attention_mask":
            feeds[name] = np.ones(shape, np.int64)
            feeds[name][1:, -2:] = 0
        else:
            feeds[name] = random.integers(0, 2, shape)
    return feeds


@pytest.mark.parametrize(
    ("model_type", "role"),
    [
        ("bert", "model"),
        ("deberta-v2", "model"),
        ("longformer", "model"),
        ("vit", "model"),
        ("clip", "text_model"),
        ("clip", "vision_model"),
        ("clip", "similarity_model"),
    ],
)
def test_one_pass_gives_the_same_numbers(model_type, role, pair_of):
    own, other = pair_of(model_type)
    feeds = seeded(own.sessions[role])
    expected, found = own.run(role, **feeds), other.run(role, **feeds)
    assert found.keys() == expected.keys() != set()
    for name, array in expected.items():
        rows = slice(0, 1) if "attention_mask" in feeds else slice(None)  # what is of padding is nobody's
        assert np.abs(array[rows]).max() > 0.01
        np.testing.assert_allclose(found[name][rows], array[rows], **CLOSE, err_msg=name)


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"do_sample": True, "seed": 3}], ids=str)
@pytest.mark.parametrize("model_type", ["gpt2", "llama", "bart", "t5", "whisper"])
def test_generated_tokens_are_the_same(model_type, options, pair_of):
    own, other = pair_of(model_type)
    rows = PROMPTS
    if model_type == "whisper":
        rows = list(seeded(own.sessions["encoder_model"])["input_features"])
    expected = own.generate_ids(rows, max_new_tokens=9, **options)
    assert other.generate_ids(rows, max_new_tokens=9, **options) == expected
    assert len({tuple(row) for row in expected}) > 1


@pytest.mark.parametrize("model_type", ["gpt2", "bart"])
def test_scores_are_the_same(model_type, pair_of):
    targets = None if model_type == "gpt2" else TEXTS[::-1]
    scores = [model.score(TEXTS, targets) for model in pair_of(model_type)]
    for own, other in zip(*scores, strict=True):
        numbers = [[number for number in one.log_probs if number is not None] for one in (own, other)]
        assert len(numbers[0]) > 1
        np.testing.assert_allclose(*numbers, **CLOSE)


@pytest.mark.parametrize("model_type", ["gpt2", "gemma2", "t5", "bart"])
def test_a_head_computes_the_logits_that_are_asked_for(model_type, pair_of, monkeypatch):
    """Those of a whole prompt would take longer than all else."""
    decoder, widths = pair_of(model_type)[1].bundle.decoder, []
    run = DynamicCache._run

    def watched(*args, **options):
        logits = run(*args, **options)
        widths.append(logits.shape[1])
        return logits

    monkeypatch.setattr(DynamicCache, "_run", watched)
    assert LOGITS_INDICES in decoder.inputs
    pair_of(model_type)[1].generate_ids(PROMPTS, max_new_tokens=3)
    assert set(widths) == {1}


def test_a_head_gives_the_logits_of_every_token_too(pair_of):
    decoder = pair_of("gpt2")[1].bundle.decoder
    ids, counts = np.array([[5, 6, 7, 8], [9, 4, 0, 0]]), np.array([4, 2])
    every = DynamicCache(decoder, {}, 2).read(ids, counts)
    last = DynamicCache(decoder, {}, 2).step(ids, counts)
    np.testing.assert_allclose(last, every[[0, 1], counts - 1], **CLOSE)


@pytest.mark.parametrize(
    ("model_type", "products"),
    [("gpt2", 4), ("opt", 4), ("bloom", 4), ("llama", 5), ("gemma2", 5), ("phi", 4), ("t5", 4), ("bart", 4)],
)
def test_what_leads_to_the_head_is_of_the_same_tokens(model_type, products, bundle_of):
    """Attention's output, the feed-forward network and the head; not those of the layers before."""
    folder = bundle_of(model_type)
    role = roles.MODEL if (folder / roles.hub_path(roles.MODEL)).exists() else roles.DECODER_WITH_PAST
    graph = engine.openvino.Core().read_model(folder / roles.hub_path(role))
    assert pick_logits(graph)
    graph.validate_nodes_and_infer_types()
    behind = {graph.get_parameters()[-1].get_name()}
    found = 0
    for node in graph.get_ordered_ops():
        if any(value.get_node().get_name() in behind for value in node.input_values()):
            behind.add(node.get_name())
            found += node.get_type_name() == "MatMul"
    assert found == products


@pytest.mark.parametrize("model_type", ["gpt2", "gemma2", "phi", "bloom"])
def test_tokens_may_be_asked_for_in_any_order(model_type, pair_of):
    decoder = pair_of(model_type)[1].bundle.decoder
    feeds = seeded(decoder)
    feeds["position_ids"] = np.broadcast_to(np.arange(7), (3, 7)).copy()
    feeds["attention_mask"] = np.ones((3, 14), np.int64)
    every = np.broadcast_to(np.arange(7), (3, 7)).copy()
    asked = np.array([[6, 0], [1, 1], [3, 5]])
    logits, some = (decoder.run(feeds | {LOGITS_INDICES: picks})["logits"] for picks in (every, asked))
    np.testing.assert_allclose(some, np.take_along_axis(logits, asked[:, :, None], axis=1), **CLOSE)
    assert len(np.unique(some)) > 100


def test_outputs_are_not_overwritten_by_later_runs(pair_of):
    """They lie in memory of OpenVINO's, which a cache hands on from step to step."""
    _, model = pair_of("bert")
    feeds = seeded(model.sessions["model"])
    first = model.run(**feeds)
    kept = {name: array.copy() for name, array in first.items()}
    for shift in range(1, 20):
        model.run(**feeds | {"input_ids": feeds["input_ids"] + shift})
    assert all(np.array_equal(first[name], array) for name, array in kept.items())


def test_threads_may_ask_at_once(pair_of):
    _, model = pair_of("bert")
    asked = [seeded(model.sessions["model"], length=length) for length in range(3, 11)]
    expected = [model.run(**feeds)["pooler_output"] for feeds in asked]
    found: dict[int, list[np.ndarray]] = {i: [] for i in range(len(asked))}

    def ask(i: int) -> None:
        found[i] += [model.run(**asked[i])["pooler_output"] for _ in range(20)]

    threads = [threading.Thread(target=ask, args=(i,)) for i in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, array in enumerate(expected):
        assert len(found[i]) == 20
        for one in found[i]:
            np.testing.assert_allclose(one, array, **CLOSE)


def test_requests_are_created_one_at_a_time():
    """Two threads that create them at once end the process, in one of some thousand runs."""
    alone, together = threading.Lock(), []

    class Request:
        def infer(self, feeds, **how):
            return {}

    class Network:
        def create_infer_request(self):
            together.append(not alone.acquire(blocking=False))
            time.sleep(0.01)
            if not together[-1]:
                alone.release()
            return Request()

    class Core:
        def compile_model(self, *given):
            return Network()

    compute = engine.compiled(Core(), engine.openvino.Model([], [], "empty"), "cpu", 1, "float32", {})
    threads = [threading.Thread(target=compute, args=({},)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [False] * 5


def test_a_container_s_quota_bounds_threads(bundle_of, monkeypatch):
    """OpenVINO knows no quota by itself, and would start a thread for each of the machine's cores."""
    settings, core = [], engine.openvino.Core

    class Watched:
        def __getattr__(self, name):
            return getattr(core(), name)

        def compile_model(self, model, device, asked):
            settings.append(asked)
            return core().compile_model(model, device, asked)

    monkeypatch.setattr(engine.openvino, "Core", Watched)
    monkeypatch.setattr(engine.cpus, "fewer", lambda: 1)
    for threads in (None, 2):
        txexport.load(bundle_of("bert"), engine="openvino", threads=threads).close()
    assert [asked["INFERENCE_NUM_THREADS"] for asked in settings] == [1, 2]


def test_float32_is_float32_and_bfloat16_is_asked_for(pair_of):
    own, other = pair_of("bert")
    settings = engine.openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if "BF16" not in settings:
        with pytest.raises(InputError, match="there is no bfloat16 on this cpu; leave the precision out"):
            txexport.load(own.folder, engine="openvino", precision="bfloat16")
        pytest.skip("the processor has no bfloat16")
    half = txexport.load(own.folder, threads=1, engine="openvino", precision="bfloat16")
    feeds = seeded(own.sessions["model"])
    truth = own.run(**feeds)["last_hidden_state"][:1]
    errors = [np.abs(one.run(**feeds)["last_hidden_state"][:1] - truth).max() for one in (other, half)]
    assert errors[0] < 1e-5 < OTHERWISE < errors[1] < 0.1


@pytest.mark.parametrize("model_type", ["bert", "gpt2"])
def test_integers_are_those_of_the_bundle(model_type, integers_of):
    skip_where_products_saturate()  # in OpenVINO
    own, other = (
        txexport.load(integers_of(model_type), device="cpu", threads=1, dtype="int8", engine=name)
        for name in ("onnxruntime", "openvino")
    )
    if model_type == "gpt2":
        asked = [model.generate_ids(PROMPTS, max_new_tokens=9) for model in (own, other)]
        assert asked[0] == asked[1]
        return
    vectors = [model.embed(TEXTS, pooling="mean") for model in (own, other)]
    np.testing.assert_allclose(*vectors, **CLOSE)


@pytest.mark.parametrize("client", ["openvino", "triton"])
def test_other_layouts_run_too(client, pair_of, checkpoint_of, tmp_path):
    export(checkpoint_of("bart"), tmp_path / "out", client=client)
    model = txexport.load(tmp_path / "out", threads=1, engine="openvino")
    own, _ = pair_of("bart")
    asked = {"max_new_tokens": 6, "num_beams": 2}
    assert model.generate_ids(PROMPTS, **asked) == own.generate_ids(PROMPTS, **asked)


@pytest.mark.parametrize(
    "model_type",
    ["granitemoehybrid", "jamba", "kimi_linear", "lfm2", "mamba", "olmo_hybrid", "qwen3_5_text", "rwkv"],
)
def test_states_are_those_of_onnx_runtime(model_type, checkpoint_of, tmp_path):
    """Also in the first call with each shape, where OpenVINO may compute an If wrongly."""
    export(checkpoint_of(model_type), tmp_path / "out", client="openvino", task="text-generation")
    first, second = (
        txexport.load(tmp_path / "out", threads=1, engine=name, **on)
        for name, on in (("onnxruntime", {"device": "cpu"}), ("openvino", {}))
    )
    for beams in (1, 3):
        for prompts in (PROMPTS, PROMPTS[:1], [[9] * 34]):
            options = {"max_new_tokens": 6, "num_beams": beams}
            assert second.generate_ids(prompts, **options) == first.generate_ids(prompts, **options)


def test_branches_are_refused(checkpoint_of, tmp_path):
    export(checkpoint_of("qwen3_next"), tmp_path / "out", only="hub")
    with pytest.raises(
        BundleError, match=r"has If nodes; OpenVINO .* wrongly .*; export with --for openvino$"
    ):
        txexport.load(tmp_path / "out", engine="openvino")


@pytest.mark.parametrize(("model_type", "form"), [("bert", {"only": "native"}), ("bart", {"client": "web"})])
def test_a_bundle_without_its_graphs_is_refused(model_type, form, checkpoint_of, tmp_path):
    export(checkpoint_of(model_type), tmp_path / "out", **form)
    with pytest.raises(BundleError, match=r"lacks graphs .* OpenVINO runs; export without --only native"):
        txexport.load(tmp_path / "out", engine="openvino")


def test_what_openvino_cannot_load_is_one_line(integers_of):
    """Its rows of 100 are no whole blocks of 32."""
    with pytest.raises(BundleError, match=r"OpenVINO cannot load .*: Conversion is failed for: Dequantize"):
        txexport.load(integers_of("bert"), engine="openvino", dtype="int4")


WRONG = [
    ({"engine": "tvm"}, "engine is 'tvm', expected onnxruntime or openvino"),
    ({"engine": "openvino", "precision": "half"}, "precision is 'half', expected float32 or bfloat16"),
    ({"precision": "bfloat16"}, "ONNX Runtime computes in float32, not in bfloat16; choose engine openvino"),
    ({"engine": "openvino", "device": "tpu"}, "device 'tpu' is not there; OpenVINO has cpu"),
    ({"engine": "openvino", "threads": 1025}, "threads is 1025, expected a whole number from 0 to 1024"),
]


@pytest.mark.parametrize(("options", "said"), WRONG, ids=[str(row[0]) for row in WRONG])
def test_an_engine_that_cannot_is_one_line(options, said, bundle_of):
    with pytest.raises(InputError, match=said):
        txexport.load(bundle_of("bert"), **options)


def test_a_command_takes_the_engine(pair_of):
    own, _ = pair_of("gpt2")
    prompts = [own.text.decode([row])[0] for row in PROMPTS]
    command = ["generate", str(own.folder), *prompts, "--max-new-tokens", "4", "--threads", "1", "--json"]
    plain = CliRunner().invoke(main, command)
    other = CliRunner().invoke(main, [*command, "--engine", "openvino"])
    assert (other.exit_code, other.output) == (0, plain.output)
    wrong = CliRunner().invoke(main, [*command, "--precision", "bfloat16"])
    assert wrong.exit_code == 2
    assert wrong.output.startswith("error: ONNX Runtime computes in float32, not in bfloat16; choose engine")


@pytest.mark.parametrize("dtype", ["int4", "int4-fast"])
def test_activations_are_rounded_where_the_dtype_says_so(dtype, tmp_path):
    """OpenVINO rounds what it multiplies blocks of integers with, unless it is told not to."""
    if dtype == "int4-fast":
        skip_where_products_saturate()  # OpenVINO rounds nothing there
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4}  # which blocks fill
    tiny_checkpoint.save(tmp_path / "bert", "bert", **sizes)
    export(tmp_path / "bert", tmp_path / "out", dtype=dtype)
    with (
        txexport.load(tmp_path / "out", threads=1, engine="openvino") as other,
        txexport.load(tmp_path / "out", device="cpu", threads=1) as own,
    ):
        feeds = seeded(own.sessions["model"], length=12)
        found = other.run("model", **feeds)["last_hidden_state"][:1]
    export(tmp_path / "bert", tmp_path / "plain", dtype="int4")
    with txexport.load(tmp_path / "plain", device="cpu", threads=1) as plain:
        expected = plain.run("model", **feeds)["last_hidden_state"][:1]
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert error > OTHERWISE if dtype == "int4-fast" else error < 1e-5


@pytest.mark.parametrize("model_type", ["sam", "owlvit", "clipseg"])
def test_graphs_that_other_clients_split_otherwise_are_refused(model_type, bundle_of):
    with pytest.raises(UnsupportedError, match="whose graphs OpenVINO does not run; leave the engine out"):
        txexport.load(bundle_of(model_type), engine="openvino")


def test_a_dual_encoder_of_sounds_answers_alike(pair_of):
    ours, theirs = pair_of("clap")
    rng = np.random.default_rng(0)
    feeds = {"input_features": rng.standard_normal((2, 1, 100, 8), np.float32)}
    vectors = [model.bundle.sessions[roles.AUDIO].run(feeds)["audio_embeds"] for model in (ours, theirs)]
    np.testing.assert_allclose(*vectors, **CLOSE)
    texts = rng.standard_normal((3, 22), np.float32)
    pair = {"text_embeds": texts, "audio_embeds": vectors[0]}
    scores = [model.bundle.sessions[roles.SIMILARITY].run(pair) for model in (ours, theirs)]
    for name in ("logits_per_audio", "logits_per_text"):
        np.testing.assert_allclose(scores[0][name], scores[1][name], rtol=1e-4, atol=1e-4)
