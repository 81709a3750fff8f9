"""Prompts of several chunks, of models whose layers see a short window: few slots of the cache are read."""

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers

import txexport

WINDOW, NEW = 16, 12
LENGTHS = 700, 13, 350  # tokens of the prompts; a chunk has 512


@pytest.fixture(scope="module", params=["mistral", "gemma2", "gpt_oss", "llama4_text"])
def pair(request, tmp_path_factory):
    """A bundle, and its original: plain windows, soft-capped ones, with sinks, and chunks."""
    folder = tmp_path_factory.mktemp("windows")
    architecture = tiny_checkpoint.FAMILIES[request.param][0]
    window = "attention_chunk_size" if request.param == "llama4_text" else "sliding_window"
    sizes = {window: WINDOW, "max_position_embeddings": 1024}
    tiny_checkpoint.save(folder / "checkpoint", request.param, architecture, **sizes)
    txexport.export(folder / "checkpoint", folder / "bundle", only="native")
    original = getattr(transformers, architecture).from_pretrained(folder / "checkpoint", dtype=torch.float32)
    with txexport.load(folder / "bundle", device="cpu", threads=1) as model:
        yield model, original.eval()


def test_tokens_equal_transformers(pair):
    model, original = pair
    random = np.random.default_rng(0)
    prompts = [random.integers(5, 90, length).tolist() for length in LENGTHS]
    for options in ({}, {"num_beams": 3}):
        expected = [
            original.generate(
                torch.tensor([prompt]), max_new_tokens=NEW, do_sample=False, eos_token_id=None, **options
            )[0, len(prompt) :].tolist()
            for prompt in prompts
        ]
        options |= {"max_new_tokens": NEW, "eos_token_id": None}
        assert model.generate_ids(prompts, **options) == expected
        assert [model.generate_ids([prompt], **options)[0] for prompt in prompts] == expected  # fewer slots
