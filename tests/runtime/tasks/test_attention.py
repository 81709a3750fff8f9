"""Attention weights from a bundle's graphs: transformers' own, with the tokens."""

import numpy as np
import pytest
import torch
import transformers
from helpers.project import ROOT

import txexport
from txexport.errors import InputError, UnsupportedError

MODELS = ROOT / "models/pretrained"
NUMBER = "four hundred and eighty-seven thousand and ninety-one"
PROSE = "Use np.sum(x) with axis=None."
CODE = "def read_lines(path):\n    with open("


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    """A function from a shipped model and a cache to it, with its weights."""
    made: dict[tuple, txexport.Model] = {}

    def get(name: str, cache: str | None = None) -> txexport.Model:
        if (name, cache) not in made:
            out = tmp_path_factory.mktemp("with") / name
            txexport.export(MODELS / name, out, cache=cache, only="native", outputs="attentions")
            made[name, cache] = txexport.load(out, device="cpu", threads=1)
        return made[name, cache]

    return get


def original(name: str, auto: str):
    """A shipped model in transformers, and its tokenizer."""
    folder = MODELS / name
    kind = getattr(transformers, auto)
    model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    return model, transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))


def stacked(weights) -> np.ndarray:
    return torch.stack(weights)[:, 0].detach().numpy()


def test_an_encoder(model_of):
    (found,) = model_of("code-tagger").attention(PROSE).values()
    model, tokenizer = original("code-tagger", "AutoModelForTokenClassification")
    ids = torch.tensor([tokenizer.encode(PROSE)])
    expected = stacked(model(ids, output_attentions=True).attentions)
    assert found.name == "attentions"
    assert found.queries == found.keys
    assert (found.queries[0], found.queries[-1]) == ("[CLS]", "[SEP]")
    assert "".join(found.queries[1:-1]) == PROSE.replace(" ", "")
    assert found.weights.shape == expected.shape
    assert np.abs(found.weights - expected).max() < 1e-5


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_a_decoder(cache, model_of):
    (found,) = model_of("python-completer", cache).attention(CODE).values()
    model, tokenizer = original("python-completer", "AutoModelForCausalLM")
    ids = torch.tensor([tokenizer.encode(CODE)])
    expected = stacked(model(ids, output_attentions=True).attentions)
    assert "".join(found.queries).replace(" ", "").replace("\n", "") == CODE.replace(" ", "").replace(
        "\n", ""
    )
    assert found.weights.shape == expected.shape
    assert np.abs(found.weights - expected).max() < 1e-5


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_attention_beside_states(cache, checkpoint_of, tmp_path):
    """Falcon-H1's layers have both."""
    checkpoint = checkpoint_of("falcon_h1")
    txexport.export(checkpoint, tmp_path / "out", cache=cache, only="native", outputs="attentions")
    model = txexport.load(tmp_path / "out", device="cpu", threads=1)
    (attention,) = model.attention("the cat sat").values()
    network = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, attn_implementation="eager")
    ids = torch.tensor([model.bundle.files.text.encode(["the cat sat"])[0].ids])
    expected = stacked(network.eval()(ids, output_attentions=True).attentions)
    assert np.abs(attention.weights - expected).max() < 1e-5


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_a_translator(cache, model_of):
    ours = model_of("number-translator", cache)
    maps = ours.attention(NUMBER)
    assert [*maps] == ["encoder_attentions", "decoder_attentions", "cross_attentions"]
    model, _ = original("number-translator", "AutoModelForSeq2SeqLM")
    source = ours.text.encode([NUMBER])[0].ids
    written = ours.generate_ids([source], num_beams=1)[0]
    read = torch.tensor([[model.config.decoder_start_token_id, *written[:-1]]])
    outputs = model(input_ids=torch.tensor([source]), decoder_input_ids=read, output_attentions=True)
    for name, one in maps.items():
        expected = stacked(outputs[name])
        assert one.weights.shape == expected.shape
        assert one.weights.shape[2:] == (len(one.queries), len(one.keys))
        assert np.abs(one.weights - expected).max() < 1e-5


def test_an_alignment_says_which_word_became_which(model_of):
    crossed = model_of("number-translator").attention(NUMBER)["cross_attentions"]
    average = crossed.weights.mean(axis=(0, 1))
    strongest = dict(zip(crossed.queries, (crossed.keys[at] for at in average.argmax(axis=1)), strict=True))
    assert strongest["quatre"] == "four"
    assert strongest["cent"] == "hundred"
    assert strongest["quatre-vingt-sept"] == "eighty-seven"
    assert strongest["mille"] == "thousand"


def test_of_a_given_target(model_of):
    """The target's own words are rows, and another target another alignment."""
    model = model_of("number-translator")
    maps = model.attention(NUMBER)
    text = model.generate(NUMBER, num_beams=1)
    again = model.attention(NUMBER, text)
    assert again["cross_attentions"].queries == maps["cross_attentions"].queries
    assert np.array_equal(again["cross_attentions"].weights, maps["cross_attentions"].weights)
    other = model.attention(NUMBER, "deux cent")["cross_attentions"]
    assert other.queries == ["deux", "cent", "</s>"]


def test_a_pair(checkpoint_of, tmp_path):
    """Both texts' pieces, each of its own text."""
    txexport.export(MODELS / "proofreader", tmp_path / "out", only="native", outputs="attentions")
    found = txexport.load(tmp_path / "out", device="cpu").attention(("the model", "is used"))["attentions"]
    assert found.queries == ["[CLS]", "the", "model", "[SEP]", "is", "used", "[SEP]"]


def test_refusals(model_of, bundle_of, checkpoint_of, tmp_path):
    with pytest.raises(InputError, match="no attention weights; export with --outputs attentions"):
        txexport.load(bundle_of("bert"), device="cpu").attention("the cat")
    with pytest.raises(InputError, match="has no target and no languages"):
        model_of("code-tagger").attention("the cat", "le chat")
    with pytest.raises(InputError, match="one text, not a pair"):
        model_of("python-completer").attention(("the", "cat"))
    with pytest.raises(InputError, match="num_beams: the target is given"):
        model_of("number-translator").attention("one", "un", num_beams=2)
    with pytest.raises(InputError, match="longer than"):
        model_of("code-tagger").attention("the " * 3000)
    txexport.export(checkpoint_of("vit"), tmp_path / "vit", only="native", outputs="attentions")
    with pytest.raises(UnsupportedError, match="attention reads texts"):
        txexport.load(tmp_path / "vit", device="cpu").attention("the cat")


def test_json_keeps_five_places(model_of):
    one = model_of("code-tagger").attention(PROSE)["attentions"]
    given = one.to_dict()
    assert given["queries"] == one.queries
    assert np.abs(np.array(given["weights"]) - one.weights).max() <= 0.5e-5 + 1e-9
