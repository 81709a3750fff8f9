"""The float checkpoint that the quantised ones are made of."""

import pytest
from tiny_quantised import quantised, tiny_llama


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    """A tiny llama of one layer, in float32."""
    return tiny_llama(tmp_path_factory.mktemp("llama"), num_hidden_layers=1)


@pytest.fixture
def made(llama, tmp_path):
    """A function from a packer and quantization_config to the folder of a llama of which two matrices, one
    (64,64) and one (96,64), are packed; and what they stand for by name."""

    def make(packer, settings):
        folder = tmp_path / "quantised"
        return folder, quantised(llama, folder, packer, settings, modules="q_proj|gate_proj")

    return make
