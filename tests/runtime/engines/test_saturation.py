"""Eight-bit products whose sums may overflow are taken slower and right: x86 processors without VNNI."""

import platform

import pytest
from helpers.saturation import skip_where_products_saturate

from txexport.runtime.engines import onnxruntime


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
