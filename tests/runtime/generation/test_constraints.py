"""Texts fit what they must fit: whatever the model, the search and the vocabulary."""

import json
import re
import shutil

import jsonschema
import pytest
from click.testing import CliRunner
from tiny_tokenizers import wordpiece
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import txexport
from txexport.cli.main import main
from txexport.errors import InputError, MissingLibraryError
from txexport.runtime.generation.constraints import token_bytes

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "size": {"type": "integer", "minimum": 0, "maximum": 99},
        "kind": {"enum": ["cat", "dog", "猫"]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    },
    "required": ["name", "size", "kind", "tags"],
    "additionalProperties": False,
}
END = 2  # of sequence, in the tiny vocabularies
GIVEN = {"eos_token_id": END, "max_new_tokens": 500}
SEARCHES = {
    "greedy": {},
    "sampled": {"do_sample": True, "seed": 4, "temperature": 2.0},
    "beams": {"num_beams": 3},
    "diverse": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    "looked up": {"prompt_lookup_num_tokens": 4},
    "penalties": {"repetition_penalty": 1.4},
}


@pytest.fixture
def model_of(bundle_of):
    """A function from a model_type without a limit to its model."""
    return lambda model_type: txexport.load(bundle_of(model_type), device="cpu", threads=1)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("model_type", ["bloom", "t5"])
def test_json_fits_its_schema_and_ends(model_type, search, model_of):
    model = model_of(model_type)
    for row in model.generate_ids([[5, 6, 7], [9]], json_schema=SCHEMA, **GIVEN, **SEARCHES[search]):
        assert row.index(END) == len(row) - 1
        jsonschema.validate(json.loads(model.text.decode([row])[0]), SCHEMA)


def test_a_stream_and_the_text_of_a_schema_give_the_same(model_of):
    model = model_of("bloom")
    text = model.generate("the cat", json_schema=SCHEMA, **GIVEN)
    jsonschema.validate(json.loads(text), SCHEMA)
    assert "".join(model.stream("the cat", json_schema=json.dumps(SCHEMA), **GIVEN)) == text


@pytest.mark.parametrize("pattern", [r"\d{3}-[a-f]{2}", "[猫犬🐈]{4}", "(the|cat|sat| )*", "é"])
def test_texts_match_their_pattern_also_where_tokens_split_characters(pattern, model_of):
    for text in model_of("bloom").generate(["the", "cat"], regex=pattern, **GIVEN | {"max_new_tokens": 40}):
        assert re.fullmatch(pattern, text) or len(text) > 30  # of those that may go on for ever


def test_texts_follow_their_grammar(model_of):
    grammar = 'start: sum\nsum: NUMBER ("+" NUMBER)~2\nNUMBER: /[1-9][0-9]?/'
    text = model_of("bloom").generate("the", grammar=grammar, **GIVEN)
    assert re.fullmatch(r"[1-9]\d?(\+[1-9]\d?){2}", text)


def test_tokens_that_options_force_stand_around_the_text(model_of):
    forced = {"forced_bos_token_id": 4, "forced_eos_token_id": END}
    given = {"eos_token_id": END, "max_new_tokens": 9}
    [row] = model_of("bloom").generate_ids([[5]], regex="a{3}b*", **given, **forced)
    assert (row[0], row[-1]) == (4, END)
    assert model_of("bloom").text.decode([row])[0].startswith("aaa")


PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "\u2581a", "a", "{"]
PIECES += ['"', "}", ":", '"\u2581', "\u732b"]


def sentencepiece() -> Tokenizer:
    """As LLaMA's: a space is a letter of its own, and bytes stand in for other letters."""
    ids = {piece: number for number, piece in enumerate(PIECES)}
    tokenizer = Tokenizer(models.BPE(ids, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


@pytest.fixture
def with_tokenizer(bundle_of, tmp_path):
    """A function from a tokenizer to a model that has it."""

    def get(tokenizer: Tokenizer):
        folder = tmp_path / "bundle"
        shutil.copytree(bundle_of("bloom"), folder)
        tokenizer.save(str(folder / "tokenizer.json"))
        return txexport.load(folder, device="cpu", threads=1, check=False)

    return get


@pytest.mark.parametrize("search", ["greedy", "sampled", "beams"])
def test_vocabularies_of_sentencepiece(search, with_tokenizer):
    model = with_tokenizer(sentencepiece())
    rows = model.generate_ids([[5, 6, 7], [9]], json_schema=SCHEMA, **GIVEN, **SEARCHES[search])
    for row, text in zip(rows, model.text.decode(rows), strict=True):
        assert row.index(END) == len(row) - 1
        jsonschema.validate(json.loads(text), SCHEMA)


def test_metaspace_is_a_space_too(with_tokenizer):
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("\u2581a", -1.0), ("b", -2.0)], unk_id=0))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokens, special = token_bytes(with_tokenizer(tokenizer).text, 5)
    assert (tokens, special) == ([b"", b" a", b"b", b"", b""], [0, 3, 4])


def test_tokens_bytes_are_those_of_the_texts_they_make(model_of):
    """Every token of the byte-level vocabulary, beside what the tokenizer decodes."""
    model = model_of("bloom")
    tokens, special = token_bytes(model.text, 311)
    for text in ("né 猫 🐈 the cat\n", "\x00\x7f\u0100"):
        ids = [token for token in model.text.encode([text])[0].ids if token not in special]
        assert b"".join(tokens[token] for token in ids) == text.encode()
    assert special[:5] == [0, 1, 2, 3, 4]


def test_a_vocabulary_of_words_is_refused(with_tokenizer):
    with pytest.raises(InputError, match="constrained decoding needs a byte-level or SentencePiece"):
        with_tokenizer(wordpiece().backend_tokenizer).generate_ids([[5]], regex="a", eos_token_id=END)


BAD = [
    ({"json_schema": {"type": "strin"}}, "json_schema is not valid: Invalid type: strin"),
    (
        {"json_schema": {"type": "integer", "minimum": 5, "maximum": 2}},
        "json_schema is not valid: Unsatisfiable schema: minimum (5) is greater than maximum (2)",
    ),
    ({"json_schema": "{"}, "json_schema is '{', expected a JSON schema: an object, or the text of one"),
    ({"json_schema": [1]}, "json_schema is [1], expected a JSON schema: an object, or the text of one"),
    ({"regex": "("}, "regex is not valid: at 1(8): invalid regex"),
    ({"regex": r"[^\s\S]"}, "regex is not valid: no text fits it"),
    ({"regex": 5}, "regex is 5, expected a regular expression"),
    ({"grammar": "start: other"}, "grammar is not valid: "),
    ({"regex": "a", "grammar": "start: /a/"}, "regex and grammar are given, expected one of them"),
    ({"regex": "a", "eos_token_id": None}, "regex needs an end of sequence; choose eos_token_id"),
    ({"regex": "a", "min_new_tokens": 5}, "no token that fits regex is left; choose fewer other options"),
]


@pytest.mark.parametrize(("given", "said"), BAD, ids=[row[1][:40] for row in BAD])
def test_what_cannot_be_is_one_line(given, said, model_of):
    with pytest.raises(InputError) as caught:
        model_of("bloom").generate_ids([[5]], **GIVEN | given)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_without_the_library_the_error_names_its_extra(model_of, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "llguidance", None)
    with pytest.raises(MissingLibraryError, match=r"regex needs llguidance.*'\.\[constrained\]'"):
        model_of("bloom").generate_ids([[5]], regex="a", eos_token_id=END)


def test_the_command_reads_a_schema_from_a_file(bundle_of, tmp_path):
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    asked = ["generate", str(bundle_of("bloom")), "the cat", "--max-new-tokens", "500"]
    result = CliRunner().invoke(main, [*asked, "--json-schema", str(tmp_path / "schema.json")])
    jsonschema.validate(json.loads(result.output), SCHEMA)
    assert CliRunner().invoke(main, [*asked, "--regex", "a{3}"]).output == "aaa\n"
