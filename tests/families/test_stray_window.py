"""A sliding_window that the family does not support: the original's forward pass is followed."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from txexport.exporter import export
from txexport.runtime import load

PROMPT = [5, 6, 7, 8, 9, 10, 11, 12, 13]


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_tokens_are_those_of_the_original_without_its_cache(cache, tmp_path):
    """transformers' cache drops the keys beyond the window, though Llama's attention has none."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=53,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        eos_token_id=1,
        bos_token_id=None,
        sliding_window=4,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.4 + (parameter.ndim == 1))
        options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
        expected = model.generate(torch.tensor([PROMPT]), use_cache=False, **options)[0, 9:].tolist()
    export(model, tmp_path / "out", only="native", cache=cache)
    assert load(tmp_path / "out", device="cpu", threads=1).generate_ids([PROMPT], max_new_tokens=12) == [
        expected
    ]
