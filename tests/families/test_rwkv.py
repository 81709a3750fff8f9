"""RWKV as its checkpoints are published, and where transformers reads states in another way."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers

from txexport import export, families, load
from txexport.families._config import Config
from txexport.runtime.generation.requests import request_of
from txexport.runtime.generation.scoring import token_log_probs
from txexport.spec import ChannelMixSpec, TimeMixSpec

# config.json of RWKV/rwkv-4-430m-pile, without what is read nowhere.
PUBLISHED = {
    **{"attention_hidden_size": 1024, "context_length": 1024, "hidden_size": 1024, "intermediate_size": 4096},
    **{"layer_norm_epsilon": 1e-5, "num_hidden_layers": 24, "rescale_every": 6, "vocab_size": 50277},
    "tie_word_embeddings": False,
}


def described(values: dict) -> object:
    """The spec of a config.json alone."""
    return families.module("rwkv").spec(Config(values, Path("config.json")), "text-generation", {})


def test_the_published_model():
    spec = described(PUBLISHED)
    stack = spec.decoder
    assert (stack.num_layers, stack.limit) == (24, None)
    assert {block.attention for block in stack.layers} == {TimeMixSpec(1024)}
    assert {block.feed_forward for block in stack.layers} == {ChannelMixSpec(1024, 4096)}
    assert stack.embedding.norm.eps == 1e-5
    assert spec.head.tied is False


@pytest.mark.parametrize("every", [6, 1, 0, -1])
def test_epsilon_grows_where_the_original_halves_hidden_states(every):
    """By 4 each time, which a norm of half as large numbers amounts to."""
    stack = described(PUBLISHED | {"rescale_every": every, "layer_norm_epsilon": 0.5}).decoder
    halvings = [layer // every if every > 0 else 0 for layer in range(25)]
    assert [block.norm.eps for block in stack.layers] == [0.5 * 4**count for count in halvings[:24]]
    assert stack.final_norm.eps == 1e-5 * 4 ** halvings[24]


def test_defaults_of_the_library():
    """Four times the width, and halvings of every sixth layer."""
    spec = described({"hidden_size": 24, "vocab_size": 50, "num_hidden_layers": 7})
    assert spec.decoder.blocks[0].feed_forward.intermediate_size == 96
    assert spec.decoder.layers[6].norm.eps == 4 * spec.decoder.layers[5].norm.eps


def test_halvings_change_the_numbers(tmp_path):
    """An original that halves nothing differs from one that does: the rows see which one is exported."""
    tiny_checkpoint.save(tmp_path / "in", "rwkv")
    ids = torch.tensor([[5, 6, 7, 8]])
    logits = []
    for every in (2, 0):
        original = transformers.AutoModelForCausalLM.from_pretrained(
            tmp_path / "in", rescale_every=every
        ).eval()
        with torch.no_grad():
            logits.append(original(ids).logits)
    assert (logits[0] - logits[1]).abs().max() > 1e-3


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_rows_of_a_batch_do_not_mix(cache, tmp_path):
    """The original adds the rows of a batch to each other in steps of one token; alone, each is right."""
    tiny_checkpoint.save(tmp_path / "in", "rwkv")
    export(tmp_path / "in", tmp_path / "out", cache=cache, only="native")
    model = load(tmp_path / "out", device="cpu")
    model.bundle.files.generation_config = dataclasses.replace(model.generation_config, eos_token_id=())
    original = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "in").eval()
    prompts = [[5, 6, 7, 8], [9], list(range(20, 60))]  # the last one beyond context_length
    options = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None, "pad_token_id": 1}
    expected = [original.generate(torch.tensor([row]), **options).tolist()[0][len(row) :] for row in prompts]
    assert model.generate_ids(prompts, max_new_tokens=12) == expected
    with torch.no_grad():
        state = original(torch.tensor([[5, 6], [7, 8]]), use_cache=True).state
        step = original(torch.tensor([[9], [9]]), state=state, use_cache=True)
    assert step.logits.shape[:2] == (2, 2)  # of two rows of one token


def test_a_text_far_beyond_the_context_length(tmp_path):
    """Sums of past tokens stay finite, and those of the original."""
    tiny_checkpoint.save(tmp_path / "in", "rwkv", num_hidden_layers=2)
    export(tmp_path / "in", tmp_path / "out", only="native")
    model = load(tmp_path / "out", device="cpu")
    original = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "in").eval()
    ids = np.random.default_rng(0).integers(3, 300, (1, 700))
    with torch.no_grad():
        logits = original(torch.from_numpy(ids)).logits.log_softmax(-1)[0, :-1]
    expected = logits.gather(1, torch.from_numpy(ids[0, 1:, None]))[:, 0].numpy()
    [scores] = token_log_probs(request_of(model.bundle, [[1]], None, {}), ids.tolist())
    np.testing.assert_allclose(scores, expected, atol=1e-4)
