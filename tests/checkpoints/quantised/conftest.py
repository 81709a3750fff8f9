"""The float checkpoint that the quantised ones are made of."""

import pytest
from helpers.quantising import tiny_llama


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    """A tiny llama of one layer, in float32."""
    return tiny_llama(tmp_path_factory.mktemp("llama"), num_hidden_layers=1)
