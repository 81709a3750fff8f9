"""The session's products: float32 activations, unless a dtype says that it rounds them.

ONNX Runtime rounds activations to int8 in products with block-quantised weights by default, so a bundle
has the numbers of its dtype only where load, verify and other clients set its options.
"""

import json

import numpy as np
import onnxruntime as ort
import pytest
from tiny_quantised import FORMATS, quantised, tiny_llama

import txexport
from txexport.bundle.manifest import FOLDED
from txexport.errors import BundleError
from txexport.formats import ACCURACY_LEVEL, DTYPES
from txexport.runtime.engines import onnxruntime as engine
from txexport.verification import verify
from txexport.verification.reports.facts import facts_line

IDS = np.random.default_rng(0).integers(5, 60, (3, 12))
ROUNDING = 1e-3  # relative to an output's size: the error of int8 activations, which float32 does not have
BLOCKS = ("gptq", "gptq-asymmetric", "awq", "pack-quantized", "torchao")  # in FORMATS; int8 has rows
FOUR_BITS = BLOCKS[:-1]


def logits(folder, **options) -> np.ndarray:
    """(B,S,V) of a decoder's bundle, as `load` opens it."""
    with txexport.load(folder, device="cpu", threads=1, **options) as model:
        session = model.sessions["model"]
        past = {n: p for n, p in session.inputs.items() if n.startswith("past_key_values")}
        length = {"cache_lengths": np.zeros(len(IDS), np.int64)}
        feeds = {"input_ids": IDS, "logits_indices": np.tile(np.arange(IDS.shape[1]), (len(IDS), 1))} | length
        feeds |= {n: np.zeros((len(IDS), p.shape[1], 16, p.shape[3]), np.float32) for n, p in past.items()}
        return session.run({name: feeds[name] for name in session.inputs})["logits"]


def off(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest error, relative to the size of the expected values."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("method", BLOCKS)
def test_stored_integers_are_computed_as_the_numbers_that_they_stand_for(method, tmp_path):
    """The user of such a checkpoint asked for its numbers; the faster ones are a dtype of their own."""
    source = tiny_llama(tmp_path / "float", num_hidden_layers=2)
    quantised(source, tmp_path / "quantised", *FORMATS[method])
    found = {}
    for dtype in ("float32", "stored", "stored-fast"):
        txexport.export(tmp_path / "quantised", tmp_path / dtype, dtype=dtype)
        found[dtype] = logits(tmp_path / dtype)
    assert off(found["stored"], found["float32"]) < 1e-5
    assert off(found["stored-fast"], found["float32"]) > ROUNDING
    for dtype in ("stored", "stored-fast"):
        report = verify(tmp_path / dtype, cases="quick", reference="twin")
        assert report.ok, facts_line(report)


def test_blocks_run_on_a_processor_whose_8_bit_products_saturate(tmp_path, monkeypatch):
    """ONNX Runtime's option against saturation breaks blocks of integers: it is not set for them."""
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1)
    quantised(source, tmp_path / "quantised", *FORMATS["torchao"])
    txexport.export(tmp_path / "quantised", tmp_path / "out", dtype="stored-fast", only="native")
    monkeypatch.setattr(engine, "saturates", lambda: False)
    expected = logits(tmp_path / "out")
    monkeypatch.setattr(engine, "saturates", lambda: True)
    assert np.array_equal(logits(tmp_path / "out"), expected)


def hub_logits(folder, options: dict[str, str]) -> np.ndarray:
    """(B,S,V) of the graph for other clients, in a session with default options."""
    session_options = ort.SessionOptions()
    for name, value in options.items():
        session_options.add_session_config_entry(name, value)
    session = ort.InferenceSession(
        folder / "onnx" / "model.onnx", session_options, providers=["CPUExecutionProvider"]
    )
    feeds = {"input_ids": IDS, "attention_mask": np.ones_like(IDS)}
    feeds["position_ids"] = np.tile(np.arange(IDS.shape[1]), (len(IDS), 1))
    for port in session.get_inputs():
        if port.name.startswith("past_key_values"):
            feeds[port.name] = np.zeros((len(IDS), port.shape[1], 0, port.shape[3]), np.float32)
    return session.run(["logits"], {port.name: feeds[port.name] for port in session.get_inputs()})[0]


@pytest.mark.parametrize("method", BLOCKS)
def test_what_a_client_computes_that_is_told_nothing(method, tmp_path):
    """Eight bits as they are stored; four bits only with the options that the bundle recommends."""
    source = tiny_llama(tmp_path / "float", num_hidden_layers=2)
    quantised(source, tmp_path / "quantised", *FORMATS[method])
    for dtype in ("float32", "stored"):
        txexport.export(tmp_path / "quantised", tmp_path / dtype, dtype=dtype)
    expected = logits(tmp_path / "float32")
    said = json.loads((tmp_path / "stored" / "txexport.json").read_text())
    options = said["formats"]["stored"]["session_options"]
    genai = json.loads((tmp_path / "stored" / "genai_config.json").read_text())
    assert genai["model"]["decoder"]["session_options"] == options == {ACCURACY_LEVEL: "1"}
    assert off(hub_logits(tmp_path / "stored", options), expected) < 1e-5
    untold = off(hub_logits(tmp_path / "stored", {}), expected)
    assert untold > ROUNDING if method in FOUR_BITS else untold < 1e-5


@pytest.mark.parametrize("dtype", ["int4", "int4-fast", "int4-128", "int4-128-fast"])
def test_int4_rounds_activations_where_its_name_says_so(dtype, checkpoint_of, tmp_path):
    txexport.export(checkpoint_of("bert"), tmp_path / "out", dtype=dtype, only="native")
    with txexport.load(tmp_path / "out", device="cpu", threads=1) as model:
        session = model.sessions["model"]
        feeds = {"input_ids": IDS, "attention_mask": np.ones_like(IDS), "token_type_ids": np.zeros_like(IDS)}
        feeds = {name: feeds[name] for name in session.inputs}
        found = session.run(feeds)["last_hidden_state"]
        path = tmp_path / "out" / model.bundle.manifest.graphs["model"].file
    plain = engine.open_session(path, "cpu", 1, {FOLDED: "1"}).run(feeds)["last_hidden_state"]
    error = off(found, plain)
    assert error > ROUNDING if dtype.endswith("fast") else error < 1e-5


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int4", "int4-fast"])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_the_session_that_is_proved_is_the_one_that_runs(family, dtype, checkpoint_of, tmp_path, monkeypatch):
    """The same provider and options over the same graphs; those without rounding nodes are the same files."""
    txexport.export(checkpoint_of(family), tmp_path / "out", dtype=dtype, only="native")
    opened = []

    class Options(type(ort.SessionOptions())):
        def add_session_config_entry(self, name, value):
            self.told = {**getattr(self, "told", {}), name: value}
            super().add_session_config_entry(name, value)

    def recording(path, options, providers):
        opened.append((path, options.told, str(options.graph_optimization_level), providers))
        return session_of(path, options, providers=providers)

    session_of = ort.InferenceSession
    monkeypatch.setattr(engine.ort, "SessionOptions", Options)
    monkeypatch.setattr(engine.ort, "InferenceSession", recording)
    txexport.load(tmp_path / "out", device="cpu").close()
    [(path, *loaded)] = opened
    opened.clear()
    verify(tmp_path / "out", cases="quick", reference="twin")
    assert opened
    tried = [settings for where, *settings in opened if where == path]
    if dtype.endswith("fast"):  # exact without rounding, and within the budget with it
        assert loaded in tried
        assert loaded[0][ACCURACY_LEVEL] == "4"
    else:
        assert all(settings == loaded for _, *settings in opened)
        assert tried
        assert loaded[0][ACCURACY_LEVEL] == "1"


def test_options_that_change_numbers_are_in_the_manifest_and_nowhere_else(checkpoint_of, tmp_path):
    manifest = txexport.export(checkpoint_of("bert"), tmp_path / "out", dtype=["int4", "int4-fast"])
    for dtype in ("int4", "int4-fast"):
        expected = dict(DTYPES[dtype].session_options)
        assert manifest.formats[dtype].session_options == expected == manifest.of_dtype(dtype).session_options
    path = tmp_path / "out" / "txexport.json"
    values = json.loads(path.read_text())
    values["formats"]["int4"]["session_options"] = {ACCURACY_LEVEL: "4"}
    path.write_text(json.dumps(values))
    with pytest.raises(BundleError, match="session_options of int4 are"):
        txexport.load(tmp_path / "out", dtype="int4")


def test_bundle_of_before_keeps_its_numbers(tmp_path):
    """Its eight bits are not dequantised in the graph: they become float32 at load."""
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1)
    quantised(source, tmp_path / "quantised", *FORMATS["torchao"])
    for dtype in ("float32", "stored", "stored-fast"):
        txexport.export(tmp_path / "quantised", tmp_path / dtype, dtype=dtype, only="native")
    path = tmp_path / "stored-fast" / "txexport.json"
    text = path.read_text().replace("stored-fast", "stored")
    values = json.loads(text)
    del values["form"]["widened"], values["formats"]["stored"]["session_options"]
    path.write_text(json.dumps(values))
    assert off(logits(tmp_path / "stored-fast"), logits(tmp_path / "float32")) < 1e-5
    assert verify(tmp_path / "stored-fast", cases="quick", reference="twin").ok
