"""A GGUF file's tokenizer gives the tokens of the one that it was converted from."""

import json
from pathlib import Path

import numpy as np
import pytest
import tiny_checkpoint
import tiny_gguf
from helpers.project import ROOT
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tiny_gguf import write
from tokenizers import Tokenizer

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.gguf import container, splits
from txexport.checkpoints.gguf.metadata import Metadata
from txexport.checkpoints.gguf.tokenizer import tokenizer
from txexport.checkpoints.gguf.vocabulary import Vocabulary
from txexport.errors import CheckpointError, TxexportError, UnsupportedError

TEXTS = [
    "the cat sat on the mat",
    "  two  spaces, and\n\n lines\t",
    "I've 12345 DOGS; it's 3.5% of caf\u00e9s!",
    "\u65e5\u672c\u8a9e \U0001f600 e\u0301",
    "",
    " ",
    "<s>the cat</s> the dog",
]
LINES = [line for line in (ROOT / "README.md").read_text().splitlines() if line.strip()][:120]
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("original")
    tiny_checkpoint.save(path, "llama", num_hidden_layers=1)
    return path


def tokenizer_of(file: Path) -> Tokenizer:
    content = Checkpoint(file).companions()["tokenizer.json"]
    assert isinstance(content, bytes)
    return Tokenizer.from_str(content.decode())


def json_of(file: Path, name: str) -> dict:
    content = Checkpoint(file).companions()[name]
    assert isinstance(content, bytes)
    return json.loads(content)


def with_values(folder: Path, path: Path, **values: object) -> Path:
    """A file whose `tokenizer.ggml` values are changed; None leaves one out."""
    metadata, tensors = tiny_gguf.contents(folder)
    metadata |= {f"tokenizer.ggml.{key}": value for key, value in values.items()}
    return write(path / "a.gguf", {k: v for k, v in metadata.items() if v is not None}, tensors)


def test_a_byte_level_tokenizer_is_the_original(folder, tmp_path):
    """Also its special tokens in a text, and back from ids to text."""
    ours = tokenizer_of(tiny_gguf.convert(folder, tmp_path / "a.gguf"))
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for one in TEXTS:
        ids = theirs.encode(one).ids
        assert ours.encode(one).ids == ids
        assert ours.decode(ids) == theirs.decode(ids)


def test_a_text_begins_and_ends_as_the_file_says(folder, tmp_path):
    for bos, eos in ((False, False), (True, False), (True, True)):
        file = with_values(folder, tmp_path, add_bos_token=bos, add_eos_token=eos)
        ids = tokenizer_of(file).encode("the cat").ids
        assert (ids[0] == 0, ids[-1] == 2) == (bos, eos)
    pair = tokenizer_of(file).encode("the", "cat")
    assert [number for number in pair.ids if number in (0, 2)] == [0, 2, 0, 2]


def test_where_the_file_does_not_say_llama_3_begins_texts_and_gpt_2_does_not(folder, tmp_path):
    for pre, begins in (("llama-bpe", True), ("gpt-2", False), ("qwen2", False)):
        file = with_values(folder, tmp_path, pre=pre, add_bos_token=None)
        assert (tokenizer_of(file).encode("the cat").ids[0] == 0) == begins


CUT = {
    "gpt-2": ["I", "'ve", "\u012012345", "\u0120DOGS", "!!", "\u0120\u0120", "\u0120x"],
    "llama-bpe": ["I", "'ve", "\u0120", "123", "45", "\u0120DOGS", "!!", "\u0120\u0120", "\u0120x"],
    "qwen2": ["I", "'ve", "\u0120", *"12345", "\u0120DOGS", "!!", "\u0120\u0120", "\u0120x"],
    "starcoder": ["I", "'ve", "\u0120", *"12345", "\u0120DOGS", "!!", "\u0120\u0120", "\u0120x"],
    "tekken": ["I", "'ve", "\u0120", *"12345", "\u0120DOGS", "!!", "\u0120\u0120", "\u0120x"],
    "falcon": ["I", "'", "ve", "\u0120", "123", "45", "\u0120DOGS", "!!", "\u0120\u0120", "\u0120x"],
    "bloom": ["I've", "\u012012345", "\u0120DOGS", "!!\u0120\u0120", "\u0120x"],
}


@pytest.mark.parametrize("pre", CUT)
def test_texts_are_cut_as_the_name_says(pre):
    """Expected tokens by hand, from the regular expressions: merges may not cross their matches."""
    cut = splits.pre_tokenizer(pre).pre_tokenize_str("I've 12345 DOGS!!   x")
    assert [word for word, _ in cut] == CUT[pre]


@pytest.mark.parametrize(
    ("pre", "model_type"), [("llama-bpe", "llama"), ("qwen2", "qwen2"), ("gpt-2", "gpt2"), ("qwen2", "qwen3")]
)
def test_byte_level_tokenizers_are_those_of_transformers(pre, model_type, tmp_path):
    """transformers' own reader of the metadata needs no other package."""
    mapping = pytest.importorskip("transformers.integrations.gguf.gguf_tokenizer_mapping")
    tiny_checkpoint.save(tmp_path / "original", model_type)
    file = tiny_gguf.convert(tmp_path / "original", tmp_path / "a.gguf", pre=pre)
    architecture, values, _ = mapping.get_gguf_tokenizer(str(file))
    theirs, _ = mapping.convert_gguf_tokenizer(architecture, values)
    ours = tokenizer_of(file)
    for one in TEXTS:
        composed = ours.normalizer.normalize_str(one) if ours.normalizer else one  # which it leaves out
        assert ours.encode(one).ids == theirs.encode(composed).ids


@pytest.fixture(scope="module", params=["llama", "gemma2"])
def pieces(request, tmp_path_factory) -> tuple[str, SentencePieceProcessor]:
    """A SentencePiece BPE model with byte fallback; Gemma's adds no space before a text."""
    folder = tmp_path_factory.mktemp("pieces")
    SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_prefix=str(folder / "m"),
        vocab_size=600,
        model_type="bpe",
        byte_fallback=True,
        num_threads=1,
        hard_vocab_limit=False,
        add_dummy_prefix=request.param == "llama",
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    return request.param, SentencePieceProcessor(model_file=str(folder / "m.model"))


def spelt(processor: SentencePieceProcessor, folder: Path, path: Path, model_type: str) -> Path:
    """The file of a checkpoint and a SentencePiece model, as llama.cpp's converters write it."""
    metadata, tensors = tiny_gguf.contents(folder)
    count = processor.get_piece_size()
    kinds = [
        3 if processor.is_control(i) else 2 if processor.is_unknown(i) else 6 if processor.is_byte(i) else 1
        for i in range(count)
    ]
    metadata = {key: value for key, value in metadata.items() if not key.startswith("tokenizer.")}
    return write(
        path / "a.gguf",
        metadata
        | {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": [processor.id_to_piece(i) for i in range(count)],
            "tokenizer.ggml.scores": [float(processor.get_score(i)) for i in range(count)],
            "tokenizer.ggml.token_type": kinds,
            "tokenizer.ggml.bos_token_id": processor.bos_id(),
            "tokenizer.ggml.eos_token_id": processor.eos_id(),
            "tokenizer.ggml.unknown_token_id": processor.unk_id(),
            "tokenizer.ggml.add_space_prefix": model_type == "llama",
        },
        tensors,
    )


def test_a_sentencepiece_tokenizer_is_sentencepiece(pieces, tmp_path):
    model_type, processor = pieces
    tiny_checkpoint.save(tmp_path / "original", model_type, vocab_size=processor.get_piece_size())
    ours = tokenizer_of(spelt(processor, tmp_path / "original", tmp_path, model_type))
    for one in [*TEXTS[:4], *LINES]:
        ids = processor.encode(one)
        assert ours.encode(one).ids == [processor.bos_id(), *ids], one
        assert ours.decode(ids) == processor.decode(ids), one


def test_gemmas_spaces_are_one_token(pieces, tmp_path):
    """Its files spell them as spaces, and its texts have them marked when they are merged."""
    model_type, processor = pieces
    if model_type == "llama":
        pytest.skip("its vocabulary has none")
    last = processor.get_piece_size() - 1
    tiny_checkpoint.save(tmp_path / "original", model_type, vocab_size=last + 1)
    file = spelt(processor, tmp_path / "original", tmp_path, model_type)
    values = dict(container.read(file).metadata)
    tokens, kinds = (values[f"tokenizer.ggml.{key}"] for key in ("tokens", "token_type"))
    tokens[last], kinds = "  ", [*kinds[:last], 4]
    vocabulary = Vocabulary.of(Metadata(values | {"tokenizer.ggml.token_type": np.array(kinds)}, file))
    assert vocabulary is not None
    made = tokenizer(vocabulary)
    assert made.encode("a  ").ids[-1] == last
    assert last not in made.encode("a b").ids
    assert made.decode(made.encode("a  ").ids) == "a  "


def test_scores_order_the_merges(pieces, tmp_path):
    """Without scores, or in the other order, tokens differ."""
    model_type, processor = pieces
    if model_type == "gemma2":
        pytest.skip("its ids order them")
    tiny_checkpoint.save(tmp_path / "original", model_type, vocab_size=processor.get_piece_size())
    file = spelt(processor, tmp_path / "original", tmp_path, model_type)
    ours = tokenizer_of(file)
    data = bytearray(file.read_bytes())
    scores = np.array([processor.get_score(i) for i in range(processor.get_piece_size())], "<f4")
    place = data.index(scores.tobytes())
    data[place : place + scores.nbytes] = (-scores).tobytes()
    file.write_bytes(data)
    other = tokenizer_of(file)
    assert any(other.encode(one).ids != ours.encode(one).ids for one in LINES)


def test_settings_say_what_ends_a_text_and_how_to_chat(folder, tmp_path):
    metadata, tensors = tiny_gguf.contents(folder)
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    tokens[4] = "<|im_end|>"
    metadata |= {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.eot_token_id": 3}
    plain = write(tmp_path / "plain.gguf", metadata, tensors)
    assert json_of(plain, "generation_config.json")["eos_token_id"] == [2, 3]
    chatty = write(tmp_path / "chat.gguf", metadata | {"tokenizer.chat_template": TEMPLATE}, tensors)
    assert json_of(chatty, "generation_config.json") == {
        **{"bos_token_id": 0, "eos_token_id": [2, 3, 4], "pad_token_id": 1}
    }
    settings = json_of(chatty, "tokenizer_config.json")
    assert settings["chat_template"] == TEMPLATE
    assert (settings["bos_token"], settings["eos_token"], settings["pad_token"]) == ("<s>", "</s>", "<pad>")
    assert settings["model_max_length"] == 40


def test_a_file_without_a_tokenizer_has_none(folder, tmp_path):
    metadata, tensors = tiny_gguf.contents(folder)
    metadata = {key: value for key, value in metadata.items() if not key.startswith("tokenizer.")}
    assert Checkpoint(write(tmp_path / "a.gguf", metadata, tensors)).companions().keys() == {
        *("config.json", "generation_config.json")
    }


REFUSED = {
    "model": ({"model": "rwkv"}, "tokenizer 'rwkv' is not supported; expected gpt2 or llama"),
    "pre": ({"pre": "default"}, "pre-tokenizer 'default' is not supported; expected one of"),
    "a list": ({"pre": ["qwen2", "gpt-2"]}, "'tokenizer.ggml.pre' is a list, one value is supported"),
    "no pre": ({"pre": None}, "pre-tokenizer '' is not supported"),
    "tokens": ({"tokens": None}, "'tokenizer.ggml.tokens' is no list of strings"),
    "merges": ({"merges": ["a b c"]}, "are not pairs of tokens"),
    "merge": ({"merges": ["the cat"]}, "its vocabulary lacks a part or the result of the merge 'the cat'"),
    "types": ({"token_type": [1, 2]}, "'tokenizer.ggml.token_type' is not a number for each token"),
    "id": ({"bos_token_id": 5000}, "'bos_token_id' is 5000, but there are"),
    "flag": ({"add_bos_token": 1}, "add_bos_token' is 1, expected another type"),
    "no bytes": (
        {"model": "llama", "token_type": None, "tokens": ["a"] * 9, "merges": None},
        "has two tokens 'a'",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_known_is_refused_by_name(what, folder, tmp_path):
    values, words = REFUSED[what]
    checkpoint = Checkpoint(with_values(folder, tmp_path, **values))
    kind = UnsupportedError if "supported" in words else CheckpointError
    with pytest.raises(kind) as caught:
        checkpoint.companions()
    assert words in str(caught.value)
    assert isinstance(caught.value, TxexportError)
