"""Eight-bit products whose sums may overflow are taken slower and right: x86 processors without VNNI."""

import platform
import warnings

import numpy as np
import pytest
from helpers.saturation import skip_where_products_saturate

from txexport.runtime.engines import onnxruntime
from txexport.runtime.engines.shared_weights import SHARED_WEIGHT


@pytest.fixture(autouse=True)
def _anew():
    own = onnxruntime.saturates  # which a test may put another in the place of
    own.cache_clear()
    yield
    own.cache_clear()


@pytest.mark.parametrize(
    ("machine", "flags", "expected"),
    [
        ("x86_64", "flags : sse4_1 avx avx2", True),
        ("AMD64", "flags : avx512f avx512bw", True),
        ("x86_64", "flags : avx512f avx512_vnni", False),
        ("x86_64", "flags : avx2 avx_vnni", False),
        ("x86_64", "flags : amx_int8", False),
        ("x86_64", None, True),
        ("aarch64", None, False),
        ("arm64", "", False),
    ],
)
def test_which_processors(machine, flags, expected, monkeypatch, tmp_path):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(onnxruntime, "CPUINFO", tmp_path / "cpuinfo")
    if flags is not None:
        (tmp_path / "cpuinfo").write_text(flags)
    assert onnxruntime.saturates() == expected


def test_answers_there_are_those_of_other_processors(integers_of, monkeypatch):
    """Where nothing overflows, the slower products are the same ones."""
    from txexport import load

    skip_where_products_saturate()
    vectors = []
    for slow in (False, True):
        monkeypatch.setattr(onnxruntime, "saturates", lambda slow=slow: slow)
        with load(integers_of("bert"), device="cpu", dtype="int8") as model:
            vectors.append(model.embed("the cat sat", pooling="mean"))
    assert (vectors[0] == vectors[1]).all()


def test_weights_that_layers_share_are_loaded(checkpoint_of, tmp_path, monkeypatch):
    """ONNX Runtime converts an int8 weight for each product there, and fails at the second of one name."""
    from txexport import export, load

    bundle, started = tmp_path / "out", []
    export(checkpoint_of("albert"), bundle, dtype=["float32", "int8"])

    def refuses(path, options, providers):
        started.append(options)
        if len(started) == 1:
            raise RuntimeError(f"AddInitializedOrtValue {SHARED_WEIGHT}")
        return session(path, options, providers=providers)

    session = onnxruntime.ort.InferenceSession
    with load(bundle, device="cpu", dtype="float32") as model:
        expected = model.embed("the cat sat", pooling="mean")
    monkeypatch.setattr(onnxruntime, "saturates", lambda: False)
    monkeypatch.setattr(onnxruntime.ort, "InferenceSession", refuses)
    with (
        pytest.warns(UserWarning, match="computes in float32, more slowly: on a processor without VNNI"),
        load(bundle, device="cpu", dtype="int8") as model,
    ):
        vectors = model.embed("the cat sat", pooling="mean")
    assert started[1].get_session_config_entry("session.disable_quant_qdq") == "1"
    assert np.linalg.norm(vectors - expected) < 0.1 * np.linalg.norm(expected)
    monkeypatch.setattr(onnxruntime.ort, "InferenceSession", session)
    monkeypatch.setattr(onnxruntime, "saturates", lambda: True)
    with warnings.catch_warnings(record=True), load(bundle, device="cpu", dtype="int8") as model:
        again = model.embed("the cat sat", pooling="mean")
    np.testing.assert_allclose(again, vectors, atol=1e-2)
