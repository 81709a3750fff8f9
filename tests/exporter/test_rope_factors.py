"""LongRoPE: an export uses the requested factors, and its limit is theirs."""

import json
import shutil

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers.bundle_edits import graph_path
from helpers.row import GENERATE, Row

import txexport
from txexport.cli.main import main
from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.exporter import export, quantize
from txexport.verification import verify

SHORT, LONG = 16, 72  # sequence lengths of the short factors, and of the long ones
FACTORS = {"short_factor": [1.0, 1.1, 1.5, 2.0], "long_factor": [1.0, 3.0, 5.0, 9.0]}
PUBLISHED = {"original_max_position_embeddings": SHORT, "max_position_embeddings": LONG}
ROW = Row(
    "phi3",
    "Phi3ForCausalLM",
    GENERATE,
    "longrope of 16 and 72",
    {"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4} | FACTORS, "rms_norm_eps": 1e-5}
    | PUBLISHED,
)
DYNAMIC = {"rope_type": "dynamic", "factor": 2.5, "rope_theta": 1e4}
TOKENS = np.random.default_rng(5).integers(5, 300, LONG).tolist()


@pytest.fixture(scope="module")
def bundles(checkpoint_of, tmp_path_factory):
    """The bundle of each choice."""
    folder = tmp_path_factory.mktemp("factors")
    for factors in ("short", "long"):
        export(checkpoint_of(ROW), folder / factors, rope_factors=factors)
    return {factors: folder / factors for factors in ("short", "long")}


@pytest.fixture(scope="module")
def original_of():
    """A function from a checkpoint to the unpatched model, which switches factors by position."""
    return lambda folder: transformers.AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def original(checkpoint_of, original_of):
    """That of ROW."""
    return original_of(checkpoint_of(ROW))


@torch.inference_mode()
def expected(original, chunks) -> np.ndarray:
    """The original's logits of tokens that it reads in chunks, over its cache."""
    cache, rows = transformers.DynamicCache(), []
    for chunk in chunks:
        rows.append(original(torch.tensor([chunk]), past_key_values=cache, use_cache=True).logits[0].numpy())
    return np.concatenate(rows)


def found(bundle, chunks) -> np.ndarray:
    """The same from a bundle's graph with a growing cache."""
    session = onnxruntime.InferenceSession(bundle / "onnx/model.onnx")
    past = {
        one.name: np.zeros([1, one.shape[1], 0, one.shape[3]], np.float32)
        for one in session.get_inputs()
        if one.name.startswith("past")
    }
    outputs, rows, start = [one.name for one in session.get_outputs()], [], 0
    for chunk in chunks:
        end = start + len(chunk)
        inputs = {
            "input_ids": np.array([chunk]),
            "attention_mask": np.ones((1, end), np.int64),
            "position_ids": np.arange(start, end)[None],
        }
        result = dict(zip(outputs, session.run(None, inputs | past), strict=True))
        past = {name: result[name.replace("past_key_values", "present")] for name in past}
        rows.append(result["logits"][0])
        start = end
    return np.concatenate(rows)


def stepped(prompt: int, end: int) -> list[list[int]]:
    """A prompt, and then one token a call."""
    return [TOKENS[:prompt], *([token] for token in TOKENS[prompt:end])]


@pytest.mark.parametrize(
    ("factors", "chunks"),
    [
        ("short", [TOKENS[:SHORT]]),
        ("short", stepped(5, SHORT)),
        ("long", [TOKENS[: SHORT + 1]]),
        ("long", [TOKENS]),
        ("long", stepped(SHORT + 1, SHORT + 20)),
    ],
)
def test_logits_are_those_of_the_unpatched_original(factors, chunks, bundles, original):
    ours, theirs = found(bundles[factors], chunks), expected(original, chunks)
    assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()
    if factors == "short":  # the other bundle's graph has long factors alone
        assert np.abs(found(bundles["long"], chunks) - theirs).max() > 1e-2 * np.abs(theirs).max()


@pytest.mark.parametrize(
    "chunks",
    [
        [TOKENS[: SHORT + 1]],
        [TOKENS],
        [TOKENS[:SHORT], TOKENS[SHORT:]],
        stepped(5, SHORT + 20),
        stepped(SHORT, SHORT + 3),
        stepped(SHORT + 1, SHORT + 3),
    ],
    ids=lambda chunks: "-".join(str(len(chunk)) for chunk in chunks[:3]),
)
def test_the_graph_for_other_clients_turns_anew_where_the_original_does(chunks, bundles, original):
    """Cached keys keep their rotation; a graph of long factors alone cannot reproduce the switch."""
    theirs = expected(original, chunks)
    assert np.abs(found(bundles["short"], chunks) - theirs).max() < 1e-5 * np.abs(theirs).max()


@torch.inference_mode()
def test_the_longest_row_decides_for_a_batch(bundles, original):
    """As in the original; positions of padding are 0."""
    ids, mask = np.array([TOKENS[:20], TOKENS[20:40]]), np.ones((2, 20), np.int64)
    mask[0, :9] = 0
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": np.maximum(mask.cumsum(1) - 1, 0)}
    theirs = original(**{name: torch.tensor(array) for name, array in inputs.items()}).logits.numpy()
    session = onnxruntime.InferenceSession(bundles["short"] / "onnx/model.onnx")
    past = {
        one.name: np.zeros([2, one.shape[1], 0, one.shape[3]], np.float32)
        for one in session.get_inputs()
        if one.name.startswith("past")
    }
    (ours,) = session.run(["logits"], inputs | past)
    real = mask.astype(bool)
    assert np.abs(ours - theirs)[real].max() < 1e-5 * np.abs(theirs).max()
    (alone,) = session.run(
        ["logits"],
        {name: array[:1, 9:] for name, array in inputs.items()} | {k: v[:1] for k, v in past.items()},
    )
    assert np.abs(alone[0] - theirs[0, 9:]).max() > 1e-2 * np.abs(theirs).max()


@pytest.mark.parametrize(("client", "limit"), [(None, LONG), ("genai", SHORT)])
def test_genai_is_told_where_the_graph_that_it_opens_ends(client, limit, checkpoint_of, tmp_path):
    """The graph over a shared buffer includes padding, so that it cannot tell how long a row is."""
    export(checkpoint_of(ROW), tmp_path / "out", client=client, only="hub")
    model = json.loads((tmp_path / "out" / "genai_config.json").read_text())["model"]
    assert model["context_length"] == limit


@pytest.mark.parametrize("name", ["Phi3ForSequenceClassification", "Phi3Model"])
def test_one_pass_of_hidden_states_turns_by_its_length(name, checkpoint_of, tmp_path):
    row = Row("phi3", name, name, "longrope of 16 and 72", ROW.config)
    export(checkpoint_of(row), tmp_path / "out", only="hub")
    original = getattr(transformers, name).from_pretrained(checkpoint_of(row)).eval()
    session = onnxruntime.InferenceSession(tmp_path / "out" / "onnx/model.onnx")
    for length in (SHORT, SHORT + 1, LONG):
        ids = np.array([TOKENS[:length]])
        with torch.inference_mode():
            theirs = original(torch.tensor(ids))[0].numpy()
        ours = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]
        assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max(), length


@pytest.mark.parametrize("only", [None, "hub"])
def test_verify_looks_beyond_the_short_factors(only, checkpoint_of, tmp_path, long_cases):
    case = "a row beyond the short factors"
    out = tmp_path / "out"
    export(checkpoint_of(ROW), out, only=only)
    report = verify(out, cases=[case])
    assert report.ok
    assert {(one.name, one.graphs) for one in report.cases} == {(case, "hub")}
    assert all(one.elements > 0 for each in report.cases for one in each.checks)
    path = out / "onnx/model.onnx"
    model = onnx.load(path, load_external_data=False)
    [switch] = [node for node in model.graph.node if node.op_type == "Greater"]
    constant = next(node for node in model.graph.node if switch.input[1] in node.output)
    constant.attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(np.array(1000)))
    onnx.save(model, path)
    assert verify(out, cases=[case], allow_edited=True).failed


@pytest.mark.parametrize(("factors", "prompt", "end"), [("short", 6, SHORT), ("long", SHORT + 1, LONG)])
def test_generated_tokens_are_those_of_the_unpatched_original(factors, prompt, end, bundles, original):
    """Over the static cache, up to the last position."""
    given = torch.tensor([TOKENS[:prompt]])
    asked = {"max_length": end, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    (theirs,) = original.generate(given, attention_mask=torch.ones_like(given), **asked)
    model = txexport.load(bundles[factors], device="cpu")
    (ours,) = model.generate_ids([TOKENS[:prompt]], max_length=end, eos_token_id=None)
    assert TOKENS[:prompt] + ours == theirs.tolist()


@pytest.mark.parametrize(("factors", "limit"), [("short", SHORT), ("long", LONG)])
def test_nothing_goes_beyond_the_limit(factors, limit, bundles):
    model = txexport.load(bundles[factors], device="cpu")
    with pytest.raises(InputError, match=f"exceed the model's {limit}"):
        model.generate_ids([[5, 6, 7]], max_new_tokens=limit)
    with pytest.raises(InputError, match=f"no room in the model's {limit}"):
        model.generate_ids([(TOKENS * 2)[: limit + 1]])


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_long_factors_are_verified(cache, checkpoint_of, tmp_path):
    only = "native" if cache == "dynamic" else None
    manifest = export(checkpoint_of(ROW), tmp_path / "out", rope_factors="long", cache=cache, only=only)
    assert (manifest.limits, manifest.promised) == ({"decoder": LONG}, {})
    report = verify(tmp_path / "out")
    assert report.ok
    assert "transformers" in report.references
    assert report.reach["tokens"] == (LONG, LONG)


def test_a_format_that_is_added_has_the_same_factors(checkpoint_of, tmp_path):
    export(checkpoint_of(ROW), tmp_path / "out", rope_factors="long", only="native")
    manifest = quantize(tmp_path / "out", "int8")
    assert (manifest.form.rope_factors, manifest.limits) == ("long", {"decoder": LONG})
    assert verify(tmp_path / "out", cases="quick").ok


def test_factors_that_a_bundle_has_not_are_caught(bundles, tmp_path, checkpoint_of):
    """txexport.json and the graph disagree."""
    export(checkpoint_of(ROW), tmp_path / "out", rope_factors="short", only="native")
    export(checkpoint_of(ROW), tmp_path / "other", rope_factors="long", only="native")
    graph_path(tmp_path / "other").replace(graph_path(tmp_path / "out"))
    report = verify(tmp_path / "out", cases="quick")
    assert {case.reference for case in report.failed} == {"checkpoint", "twin", "transformers"}


def test_where_it_ends_before_config_json_is_said(bundles, checkpoint_of, tmp_path):
    note = "sequences end at 16 tokens, of 72 that config.json promises with 'longrope' rope: "
    source, out = str(checkpoint_of(ROW)), tmp_path / "out"
    result = CliRunner().invoke(main, ["export", source, str(out), "--only", "native"])
    assert result.exit_code == 0
    assert result.stderr.startswith(f"note: {note}")
    assert result.stderr.endswith("export with --rope-factors long for those\n")
    assert json.loads((out / "txexport.json").read_text())["promised"] == {"longrope": LONG}
    for shown in (source, str(out)):
        assert note in " ".join(CliRunner().invoke(main, ["inspect", shown]).stdout.split())
    for factors, limited in (("short", True), ("long", False)):
        assert (txexport.inspect(bundles[factors]).limited is not None) == limited
    result = CliRunner().invoke(
        main, ["export", source, str(tmp_path / "long"), "--rope-factors", "long", "--only", "native"]
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert "promised" not in json.loads((tmp_path / "long/txexport.json").read_text())


def test_dynamic_rope_ends_where_it_would_begin_and_says_so(checkpoint_of, original_of, tmp_path):
    """Within max_position_embeddings it has no effect; beyond, the original rescales."""
    row = Row("llama", "LlamaForCausalLM", GENERATE, "dynamic", {"rope_parameters": DYNAMIC})
    source, out = checkpoint_of(row), tmp_path / "out"
    result = CliRunner().invoke(main, ["export", str(source), str(out)])
    assert "sequences end at 40 tokens, of 100 that config.json promises with 'dynamic' rope" in result.stderr
    assert result.stderr.endswith("give config.json another rope_scaling, such as yarn\n")
    original, chunks = original_of(source), stepped(30, 40)
    theirs = expected(original, chunks)
    assert np.abs(found(out, chunks) - theirs).max() < 1e-5 * np.abs(theirs).max()
    beyond = expected(original, [TOKENS[:60]])
    assert np.abs(found(out, [TOKENS[:60]]) - beyond).max() > 1e-2 * np.abs(beyond).max()
    with pytest.raises(InputError, match="exceed the model's 40"):
        txexport.load(out, device="cpu").generate_ids([TOKENS[:30]], max_new_tokens=11)


def test_a_promise_that_config_json_does_not_make_is_caught(bundles, tmp_path):
    out = bundles["short"]
    text = (out / "txexport.json").read_text()
    values = json.loads(text)
    try:
        (out / "txexport.json").write_text(json.dumps(values | {"promised": {"longrope": 73}}))
        report = verify(out, cases=["manifest and copied files"])
        assert "promised is {'longrope': 73}, expected {'longrope': 72}" in report.failed[0].exception
        (out / "txexport.json").write_text(json.dumps(values | {"promised": {"other": 73}}))
        with pytest.raises(BundleError, match="promised is"):
            txexport.load(out)
    finally:
        (out / "txexport.json").write_text(text)


def test_factors_are_refused_where_there_are_none(checkpoint_of, tmp_path):
    with pytest.raises(
        UnsupportedError,
        match=r"has no short_factor and long_factor; leave rope_factors out \(--rope-factors\)",
    ):
        export(checkpoint_of("llama"), tmp_path / "out", rope_factors="long")
    with pytest.raises(InputError, match="rope_factors is 'middle', expected short or long"):
        export(checkpoint_of(ROW), tmp_path / "out", rope_factors="middle")


def test_long_factors_are_refused_where_the_original_never_turns_by_them(checkpoint_of, tmp_path):
    """Phi-3.5-MoE uses the short ones at every length, so that such an export could not be verified."""
    scaling = ROW.config["rope_parameters"] | {"original_max_position_embeddings": SHORT}
    config = {"rope_parameters": scaling | {"short_mscale": 1.3, "long_mscale": 1.3}}
    row = Row("phimoe", "PhimoeForCausalLM", GENERATE, "longrope", config | {"max_position_embeddings": LONG})
    with pytest.raises(UnsupportedError, match="turns by the short ones at every length"):
        export(checkpoint_of(row), tmp_path / "out", rope_factors="long")
    manifest = export(checkpoint_of(row), tmp_path / "out", only="native")
    assert manifest.limits == {"decoder": SHORT}
    other = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
    folder = shutil.copytree(checkpoint_of(row), tmp_path / "linear")
    config = json.loads((folder / "config.json").read_text()) | {"rope_parameters": other}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedError, match="rope_type 'linear' is not supported; expected default or"):
        export(folder, tmp_path / "other")


@pytest.mark.parametrize("kind", ["yarn", "longrope"])
def test_files_as_they_were_published_have_long_factors_too(kind, bundles, checkpoint_of, tmp_path):
    """Files of before transformers 5, which stored theta separately; Phi-3 first called its scaling yarn."""
    source = tmp_path / "source"
    shutil.copytree(checkpoint_of(ROW), source)
    values = json.loads((source / "config.json").read_text())
    del values["rope_parameters"]
    old = {"rope_theta": 1e4, "rope_scaling": {"type": kind} | FACTORS}
    (source / "config.json").write_text(json.dumps(values | old))
    export(source, tmp_path / "out", rope_factors="long", only="hub")
    assert np.array_equal(found(tmp_path / "out", [TOKENS]), found(bundles["long"], [TOKENS]))
    assert verify(tmp_path / "out", cases="quick").ok
