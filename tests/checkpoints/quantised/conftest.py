"""The float checkpoint that the quantised ones are made from."""

import pytest
from tiny_quantised import quantised, tiny_llama


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    """A tiny llama of one layer, in float32."""
    return tiny_llama(tmp_path_factory.mktemp("llama"), num_hidden_layers=1)


@pytest.fixture
def made(llama, tmp_path):
    """A function from a packer and quantization_config to a llama with two packed matrices.

    One is (64,64), the other (96,64); the function also returns their dequantised values by name.
    """

    def make(packer, settings):
        folder = tmp_path / "quantised"
        return folder, quantised(llama, folder, packer, settings, modules="q_proj|gate_proj")

    return make
