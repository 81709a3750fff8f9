"""Layers that share keys have no cache; steps, beams and reused prefixes give the original's tokens."""

import pytest
import tiny_checkpoint
import torch
import transformers

import txexport
from txexport import inspect
from txexport.contracts import cache_names
from txexport.exporter import export

PROMPTS = [[5, 6, 7], [9], list(range(20, 39)), [40, 41]]
NEW = 9


CACHED = {"gemma4_text": 4, "gemma3n_text": 3}  # layers that have keys


@pytest.fixture(scope="module", params=CACHED)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def checkpoint(family, tmp_path_factory):
    folder = tmp_path_factory.mktemp(family)
    tiny_checkpoint.save(folder, family, max_position_embeddings=120)
    return folder


@pytest.fixture(scope="module")
def original(checkpoint):
    return transformers.AutoModelForCausalLM.from_pretrained(checkpoint).eval()


@pytest.fixture(scope="module", params=["static", "dynamic"])
def model(request, checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle") / "out"
    export(checkpoint, folder, cache=request.param)
    return txexport.load(folder, device="cpu", threads=1)


def expected(original, prompt, **options):
    ids = torch.tensor([prompt])
    mask = torch.ones_like(ids)
    with torch.no_grad():
        [row] = original.generate(
            ids, attention_mask=mask, do_sample=False, pad_token_id=1, max_new_tokens=NEW, **options
        )
    return row[len(prompt) :].tolist()


def test_every_graph_has_a_cache_of_the_first_layers(model, family):
    manifest, layers = model.bundle.manifest, range(CACHED[family])
    for graph in [*manifest.native.values(), *manifest.hub.values()]:
        past = {port.name for port in graph.inputs if cache_names.is_past(port.name)}
        present = {port.name for port in graph.outputs if cache_names.is_present(port.name)}
        assert past == {name for layer in layers for name in cache_names.past(layer)}
        assert present == {name for layer in layers for name in cache_names.present(layer)}


def test_cache_in_numbers(checkpoint, family):
    """Of Gemma 4, two layers of 2 heads of 10 with a window, and two of 2 heads of 14; keys and values, 4
    bytes each. Of Gemma 3n, three layers of 2 heads of 10, two of them with a window.
    """
    cache = inspect(checkpoint, length=7, batch=3).cache
    numbers = {"gemma4_text": 2 * (2 * 10 + 2 * 14), "gemma3n_text": 3 * 2 * 10}[family]
    assert cache.per_token == numbers * 2 * 4
    assert cache.total == 3 * 7 * cache.per_token
    assert (cache.layers, cache.windowed) == (CACHED[family], 2)


@pytest.mark.parametrize("beams", [1, 3])
def test_rows_of_several_lengths(model, original, beams):
    rows = model.generate_ids(PROMPTS, max_new_tokens=NEW, num_beams=beams)
    assert rows == [expected(original, prompt, num_beams=beams) for prompt in PROMPTS]


def test_drafts_and_reused_prefixes(model, original):
    prompt = [7, 8, 9, 10] * 5
    tokens = expected(original, prompt)
    assert model.generate_ids([prompt], max_new_tokens=NEW, prompt_lookup_num_tokens=3) == [tokens]
    session = model.session()
    assert session.generate_ids([prompt], max_new_tokens=NEW) == [tokens]
    longer = [*prompt, *tokens, 50, 51]
    assert session.generate_ids([longer], max_new_tokens=NEW) == [expected(original, longer)]
