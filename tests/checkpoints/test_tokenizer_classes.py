"""tokenizer.json as transformers 5 reads it: every class, with settings that contradict the file."""

import json
import random
from pathlib import Path

import pytest
import transformers
from helpers.tokenizer_folders import KINDS, settings_of, tokenizer_of, write
from tokenizers import Tokenizer, models, pre_tokenizers

from txexport.checkpoints.tokenizer_classes import FILES, as_read

NEWEST = int(transformers.__version__.split(".")[0]) >= 5
pytestmark = pytest.mark.skipif(not NEWEST, reason="version 4 reads tokenizer.json as it is")

SEEDS = 5
TEXTS = [
    "plain text",
    "  two  spaces in front and behind ",
    "The Quick BROWN fox, don't!",
    "ÀÉÎ naïve café 漢字 ﬁ ½ Ω",
    "[MASK] <s> a</s>b <unk> [UNK] <|endoftext|> <one><two> <later> <image> <tool> <audio> en_XX",
    "",
    "\n\ttabs\n",
    "``q'' 12 345",
    "<mask> x <pad>y [INST]a[/INST]</s><s>b",
]
MODELS = {
    "LlamaTokenizer": ("llama", "mistral", None),
    "GemmaTokenizer": ("gemma", "llama"),
    "Siglip2Tokenizer": ("siglip2",),
    "Qwen2Tokenizer": ("qwen2", "qwen3", "llama"),
    "BertTokenizer": ("bert", "roberta", "qwen2", None),
}


def files_of(folder: Path) -> dict[str, dict]:
    return {name: json.loads((folder / name).read_text()) for name in FILES if (folder / name).exists()}


def read(folder: Path) -> str | None:
    """The tokenizer.json that export makes from a folder's."""
    config = json.loads((folder / "config.json").read_text())
    return as_read((folder / "tokenizer.json").read_text("utf-8"), files_of(folder), config)


def assert_same(folder: Path) -> bool:
    """Assert that it is rewritten or not; ids, segments, offsets and text are those of transformers."""
    original = transformers.AutoTokenizer.from_pretrained(folder)
    made = read(folder)
    tokenizer = Tokenizer.from_str(made or (folder / "tokenizer.json").read_text("utf-8"))
    for text in TEXTS:
        for pair in (None, "b c"):
            found = tokenizer.encode(text, pair)
            options = {"return_offsets_mapping": True, "return_token_type_ids": True}
            wanted = original([text], None if pair is None else [pair], **options)
            assert found.ids == wanted["input_ids"][0], text
            assert found.type_ids == wanted["token_type_ids"][0], text
            assert found.offsets == [tuple(one) for one in wanted["offset_mapping"][0]], text
            if original.backend_tokenizer.decoder is not None:
                kept = original.backend_tokenizer.decode(found.ids, skip_special_tokens=True)
                assert tokenizer.decode(found.ids) == kept or type(original).__name__ == "CLIPTokenizer"
    return made is not None


@pytest.mark.parametrize("kind", KINDS)
def test_settings_that_contradict_the_file(kind, tmp_path):
    model, special = KINDS[kind]
    anew = 0
    for seed in range(SEEDS):
        draw = random.Random(f"{kind}{seed}")
        files = settings_of(kind, special, draw)
        folder = tmp_path / str(seed)
        write(folder, tokenizer_of(model, special), files, draw.choice(MODELS.get(kind, ("bert", "llama"))))
        anew += assert_same(folder)
    assert anew >= 3


CLASS = "tokenizer_class"
MASK = {"__type": "AddedToken", "content": "[MASK]", "lstrip": True, "normalized": True, "single_word": True}
FILES_THAT_SAY = {  # a kind of tokenizer, its settings, config.json, and whether tokenizer.json is rewritten
    "a class in config.json alone": (
        "BertTokenizer",
        {},
        {"model_type": "llama", CLASS: "BertTokenizer"},
        True,
    ),
    "no class but the model's": ("GemmaTokenizer", {}, {"model_type": "gemma2"}, True),
    "code that is never run": (
        "BertTokenizer",
        {CLASS: "BertTokenizer", "do_lower_case": False, "auto_map": {"AutoTokenizer": ["x.Y", None]}},
        {"model_type": "bert"},
        True,
    ),
    "a class that nobody has": (
        "BertTokenizer",
        {CLASS: "MyTokenizer", "do_lower_case": False},
        {"model_type": "bert"},
        False,
    ),
    "Phi's": (
        "CodeGenTokenizer",
        {CLASS: "CodeGenTokenizer", "add_prefix_space": True},
        {"model_type": "phi"},
        True,
    ),
    "Phi-3's": ("LlamaTokenizer", {CLASS: "LlamaTokenizer"}, {"model_type": "phi3"}, False),
    "BOS and EOS that tokenizer.json decides": (
        "LlamaTokenizer",
        {CLASS: "LlamaTokenizer", "legacy": True, "add_bos_token": False, "add_eos_token": True},
        {"model_type": "llama"},
        True,
    ),
    "bytes under Llama's class": (
        "Qwen2Tokenizer",
        {CLASS: "LlamaTokenizer"},
        {"model_type": "llama"},
        False,
    ),
    "a mask with its properties": (
        "BertTokenizer",
        {CLASS: "BertTokenizer", "mask_token": MASK},
        {"model_type": "bert"},
        True,
    ),
}


@pytest.mark.parametrize("what", FILES_THAT_SAY)
def test_which_class_reads_it(what, tmp_path):
    kind, settings, config, anew = FILES_THAT_SAY[what]
    write(tmp_path, tokenizer_of(*KINDS[kind]), {"tokenizer_config.json": settings} if settings else {}, None)
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert assert_same(tmp_path) == anew


# RemBERT's class reads a file without a post-processor differently from the file that it saves.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "RemBertTokenizer"])
def test_a_file_that_says_all_is_left_as_it_is(kind, tmp_path):
    """As transformers saves it: the bundle has the bytes of a published tokenizer.json."""
    model, special = KINDS[kind]
    settings = {"tokenizer_config.json": {"tokenizer_class": kind}}
    write(tmp_path / "before", tokenizer_of(model, special), settings, None)
    (tmp_path / "before/config.json").write_text(json.dumps({"model_type": "llama"}))
    original = transformers.AutoTokenizer.from_pretrained(tmp_path / "before")
    original.save_pretrained(tmp_path / "saved")
    (tmp_path / "saved/config.json").write_text(json.dumps({"model_type": "llama"}))
    assert not assert_same(tmp_path / "saved")


def test_a_special_token_within_a_text_has_no_space_behind_it(tmp_path):
    """Llama 2's file adds one there, as transformers 4 did."""
    model, special = KINDS["LlamaTokenizer"]
    settings = {"tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer"}}
    write(tmp_path, tokenizer_of(model, special), settings, "llama")
    made = read(tmp_path)
    assert made is not None
    assert Tokenizer.from_str(made).encode("a</s>b").tokens[-2:] == ["</s>", "b"]
    own = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert own.encode("a</s>b").tokens[-2:] == ["</s>", "▁b"]
    write(tmp_path, tokenizer_of(model, special), settings, "mistral")  # which reads the file as it is
    assert read(tmp_path) is None


def test_a_class_that_reads_nothing_leaves_the_file(tmp_path):
    """BERT's class would make one from a byte-level vocabulary that fails at the first unknown letter."""
    write(tmp_path, tokenizer_of("bytes", ["<|endoftext|>"]), {}, "bert")
    with pytest.raises(Exception, match=r"Missing \[UNK\]"):
        read(tmp_path)


def test_padding_and_truncation_stay(tmp_path):
    tokenizer = tokenizer_of(*KINDS["BertTokenizer"])
    tokenizer.enable_truncation(7, direction="left")
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]", length=9)
    write(tmp_path, tokenizer, {"tokenizer_config.json": {"do_lower_case": False}}, "bert")
    made = Tokenizer.from_str(read(tmp_path))
    assert made.truncation == tokenizer.truncation
    assert made.padding == tokenizer.padding
    assert isinstance(made.pre_tokenizer, pre_tokenizers.BertPreTokenizer)


def test_scores_of_many_digits_are_not_written_anew(tmp_path):
    """The tokenizers library may read a score one bit off: a published file stays byte for byte."""
    draw = random.Random(0)
    words = [(token, 0.0) for token in KINDS["XLMRobertaTokenizer"][1]]
    words += [(f"▁{number}", -20 * draw.random()) for number in range(2000)]
    tokenizer = tokenizer_of(*KINDS["XLMRobertaTokenizer"])
    tokenizer.model = models.Unigram(words, unk_id=3, byte_fallback=False)
    settings = {"tokenizer_config.json": {"tokenizer_class": "XLMRobertaTokenizer"}}
    write(tmp_path / "before", tokenizer, settings, "xlm-roberta")
    transformers.AutoTokenizer.from_pretrained(tmp_path / "before").save_pretrained(tmp_path / "saved")
    (tmp_path / "saved/config.json").write_text(json.dumps({"model_type": "xlm-roberta"}))
    assert read(tmp_path / "saved") is None
    changed = read(tmp_path / "before")
    assert changed is not None
    own = json.loads((tmp_path / "before/tokenizer.json").read_text("utf-8"))
    assert json.loads(changed)["model"]["vocab"] == own["model"]["vocab"]
