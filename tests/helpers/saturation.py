"""Processors on which ONNX Runtime's fast 8-bit products may saturate, so that sessions take slower ones."""

import pytest

from txexport.runtime.engines.onnxruntime import saturates


def skip_where_products_saturate() -> None:
    """Skip a test of the fast 8-bit products, or of software that uses them, on such a processor."""
    if saturates():
        pytest.skip("a processor without VNNI: sums of fast 8-bit products may saturate")
