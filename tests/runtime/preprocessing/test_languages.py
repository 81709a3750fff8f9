"""Translators between many languages, as mBART-50 and NLLB: what transformers makes of theirs."""

import json

import pytest
import tiny_checkpoint
import transformers
from click.testing import CliRunner

import txexport
from txexport.cli.main import main
from txexport.errors import InputError
from txexport.runtime.generation.prompts import inputs_of

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
PIECES = [(token, 0.0) for token in SPECIAL] + [("▁the", -1.0), ("▁cat", -2.0), ("▁", -3.0), ("a", -4.0)]
MERGES = {
    "vocab": {token: i for i, token in enumerate([*SPECIAL, "▁", "a", "t", "▁a"])},
    "merges": [("▁", "a")],
}
TOKENIZERS = {
    "mbart-50": ("mbart", transformers.MBart50Tokenizer, {"vocab": PIECES}, ("en_XX", "fr_XX", "de_DE")),
    "mbart": ("mbart", transformers.MBartTokenizer, {"vocab": PIECES}, ("en_XX", "fr_XX", "de_DE")),
    "nllb": ("m2m_100", transformers.NllbTokenizer, MERGES, ("eng_Latn", "fra_Latn", "deu_Latn")),
}
TEXTS = ["the cat", "a the a", "cat"]
NEW = {"max_new_tokens": 9}


@pytest.fixture(scope="module", params=TOKENIZERS)
def translator(request, tmp_path_factory):
    """A bundle, its original, the tokenizer, and three languages, first the tokenizer's own."""
    model_type, kind, words, languages = TOKENIZERS[request.param]
    folder, tokenizer = tmp_path_factory.mktemp("translator"), kind(**words)
    tiny_checkpoint.save(folder / "in", model_type, vocab_size=len(tokenizer), decoder_start_token_id=2)
    tokenizer.save_pretrained(folder / "in")
    txexport.export(folder / "in", folder / "out")
    original = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder / "in")
    return txexport.load(folder / "out", device="cpu"), original, tokenizer, languages


def expected(original, tokenizer, source: str, target: str | None) -> list[str]:
    tokenizer.src_lang = source
    forced = {} if target is None else {"forced_bos_token_id": tokenizer.convert_tokens_to_ids(target)}
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    return tokenizer.batch_decode(original.generate(**batch, **forced, **NEW), skip_special_tokens=True)


def test_languages_are_as_in_transformers(translator):
    model, original, tokenizer, (own, french, german) = translator
    for source, target in ((own, german), (french, german), (german, french), (french, None)):
        wanted = expected(original, tokenizer, source, target)
        assert model.generate(TEXTS, src_lang=source, tgt_lang=target, **NEW) == wanted
        assert "".join(model.stream(TEXTS[0], src_lang=source, tgt_lang=target, **NEW)) == wanted[0]
    tokenizer.src_lang = french
    assert inputs_of(model.bundle, TEXTS, french)[0] == tokenizer(TEXTS).input_ids
    assert model.generate(TEXTS, **NEW) == model.generate(TEXTS, src_lang=own, **NEW)


def test_languages_on_the_command_line(translator):
    model, original, tokenizer, (_, french, german) = translator
    asked = ["--src-lang", french, "--tgt-lang", german, "--max-new-tokens", "9"]
    result = CliRunner().invoke(main, ["generate", str(model.folder), *TEXTS, *asked, "--json"])
    wanted = expected(original, tokenizer, french, german)
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == wanted
    result = CliRunner().invoke(main, ["generate", str(model.folder), TEXTS[0], *asked])
    assert result.stdout == wanted[0] + "\n"


def test_languages_that_are_not_known(translator):
    model, _, _, (own, *_) = translator
    with pytest.raises(InputError, match=rf"no token for language '{own[:-1]}'; did you mean .*{own}"):
        model.generate(TEXTS, src_lang=own[:-1])
    for word in ("▁the", "▁a", "xyz"):
        with pytest.raises(InputError, match="the tokenizer has no token for language"):
            model.generate(TEXTS, tgt_lang=word)


def test_a_tokenizer_that_marks_no_language(bundle_of):
    model = txexport.load(bundle_of("bart", "static"), device="cpu")
    with pytest.raises(InputError, match="adds no language token to texts, so src_lang '</s>' has no effect"):
        model.generate("the cat", src_lang="</s>")
