"""Small tokenizers of every kind, in the layout of published folders, with conflicting settings."""

import json
import random
import string
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

SAMPLE = (
    "the quick brown fox jumps over the lazy dog and don't stop at 12345 or 67 Wörter naïve café ÀÉÎ 漢字 "
    "def f(x): return x ** 2 # comment I'll we've they're ... ?! 'quoted' \"double\" one two three four five"
)
LETTERS = sorted({*string.printable.strip(), *"ÀÉÎàéîöüïßñ漢字仮名Ωμ"})
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
LLAMA = ["<unk>", "<s>", "</s>"]
# The special tokens of each class under the keys where it reads them, and the kind of its model.
KINDS = {
    "BertTokenizer": ("words", BERT),
    "DistilBertTokenizer": ("words", BERT),
    "ElectraTokenizer": ("words", BERT),
    "ConvBertTokenizer": ("words", BERT),
    "DPRQuestionEncoderTokenizer": ("words", BERT),
    "MPNetTokenizer": ("words", ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]),
    "SplinterTokenizer": ("words", [*BERT, "[QUESTION]", "."]),
    "RobertaTokenizer": ("bytes", ROBERTA),
    "BartTokenizer": ("bytes", ROBERTA),
    "BlenderbotTokenizer": ("bytes", ROBERTA),
    "DebertaTokenizer": ("bytes", BERT),
    "GPT2Tokenizer": ("bytes", ["<|endoftext|>"]),
    "GPTNeoXTokenizer": ("bytes", ["<|endoftext|>", "<|padding|>"]),
    "Qwen2Tokenizer": ("bytes", ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
    "CohereTokenizer": ("bytes", ["<PAD>", "<UNK>", "<CLS>", "<SEP>", "<MASK_TOKEN>", "<BOS_TOKEN>"]),
    "CodeGenTokenizer": ("bytes", ["<|endoftext|>"]),
    "HerbertTokenizer": ("letters", ["<s>", "<pad>", "</s>", "<mask>", "<unk>"]),
    "CodeLlamaTokenizer": ("pieces", LLAMA),
    "NllbTokenizer": ("pieces", ["<s>", "<pad>", "</s>", "<unk>", "eng_Latn", "fra_Latn", "<mask>"]),
    "MBart50Tokenizer": ("unigram", ["<s>", "<pad>", "</s>", "<unk>", "en_XX", "de_DE", "<mask>"]),
    "CLIPTokenizer": ("letters", ["<|startoftext|>", "<|endoftext|>"]),
    "OpenAIGPTTokenizer": ("letters", ["<unk>"]),
    "LlamaTokenizer": ("pieces", LLAMA),
    "GemmaTokenizer": ("pieces", ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]),
    "Siglip2Tokenizer": ("pieces", ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]),
    "T5Tokenizer": ("unigram", ["<pad>", "</s>", "<unk>"]),
    "XLMRobertaTokenizer": ("unigram", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]),
    "CamembertTokenizer": (
        "unigram",
        ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<s>", "</s>", "<mask>"],
    ),
    "AlbertTokenizer": ("unigram", ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]),
    "FNetTokenizer": ("unigram", ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]),
    "RemBertTokenizer": ("unigram", ["<pad>", "[CLS]", "<unk>", "[SEP]", "[MASK]"]),
    "BigBirdTokenizer": ("unigram", ["<pad>", "</s>", "<s>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]),
    "DebertaV2Tokenizer": ("unigram", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
    "PegasusTokenizer": ("unigram", ["<pad>", "</s>", "<unk>", "<mask_1>", "<mask_2>"]),
    "XGLMTokenizer": ("unigram", ["<s>", "<pad>", "</s>", "<unk>"]),
    "XLNetTokenizer": (
        "unigram",
        ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"],
    ),
    "MBartTokenizer": ("unigram", ["<s>", "<pad>", "</s>", "<unk>", "en_XX", "de_DE", "<mask>"]),
    "PreTrainedTokenizerFast": ("words", BERT),
    "TokenizersBackend": ("bytes", ["<|endoftext|>"]),
}


def _words() -> list[str]:
    return sorted({*SAMPLE.split(), *SAMPLE.lower().split()})


def _merges(pieces: list[str], words: list[str]) -> list[tuple[str, str]]:
    """The byte-pair merges that build the words from letters, shortest first, and the tokens they need."""
    merges = []
    for word in words:
        left = word[0]
        for letter in word[1:]:
            if (left, letter) not in merges:
                merges.append((left, letter))
            left += letter
            if left not in pieces:
                pieces.append(left)
    return merges


def tokenizer_of(kind: str, special: list[str]) -> Tokenizer:
    """A small tokenizer of a kind of model, as its file would define it."""
    words = _words()
    if kind == "words":
        pieces = [*special, *LETTERS, *(f"##{letter}" for letter in LETTERS), *words]
        vocabulary = {word: place for place, word in enumerate(dict.fromkeys(pieces))}
        unknown = next(token for token in special if "unk" in token.lower())
        result = Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
        result.normalizer = normalizers.BertNormalizer(lowercase=True)
        result.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        result.decoder = decoders.WordPiece()
    elif kind in ("bytes", "letters"):
        end = "</w>" if kind == "letters" else ""
        pieces = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
        if end:
            pieces += [f"{letter}</w>" for letter in sorted(pre_tokenizers.ByteLevel.alphabet())]
            merges = []
        else:
            merges = _merges(
                pieces,
                [
                    word
                    for word in [*words, *(f"Ġ{word}" for word in words)]
                    if word.isascii() or (word[0] == "Ġ" and word[1:].isascii())
                ],
            )
        vocabulary = {word: place for place, word in enumerate(dict.fromkeys(pieces))}
        unknown = {"unk_token": special[-1], "end_of_word_suffix": end} if end else {}
        result = Tokenizer(models.BPE(vocabulary, merges, **unknown))
        result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        result.decoder = decoders.ByteLevel()
        result.post_processor = processors.ByteLevel(trim_offsets=False)
    elif kind == "pieces":
        pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *LETTERS]
        merges = _merges(pieces, [*words, *(f"▁{word}" for word in words)])
        vocabulary = {word: place for place, word in enumerate(dict.fromkeys(pieces))}
        result = Tokenizer(
            models.BPE(vocabulary, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>")
        )
        result.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        steps = [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
        result.decoder = decoders.Sequence(steps)
        start = next(token for token in special if token in ("<s>", "<bos>"))
        result.post_processor = processors.TemplateProcessing(
            f"{start} $A", f"{start} $A {start}:1 $B:1", [(start, special.index(start))]
        )
    else:
        scored = [(token, 0.0) for token in special]
        scored += [
            (piece, -float(place + 1))
            for place, piece in enumerate(dict.fromkeys(["▁", *LETTERS, *(f"▁{word}" for word in words)]))
        ]
        unknown = next(place for place, token in enumerate(special) if "unk" in token.lower())
        result = Tokenizer(models.Unigram(scored, unknown, byte_fallback=False))
        result.normalizer = normalizers.NFKC()
        result.pre_tokenizer = pre_tokenizers.Metaspace()
        result.decoder = decoders.Metaspace()
    result.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return result


def settings_of(kind: str, special: list[str], draw: random.Random) -> dict[str, dict]:
    """Files beside tokenizer.json, with settings that may contradict it."""
    flags = (
        "do_lower_case",
        "strip_accents",
        "tokenize_chinese_chars",
        "add_prefix_space",
        "legacy",
        "keep_accents",
        "split_by_punct",
        "add_bos_token",
        "add_eos_token",
        "trim_offsets",
    )
    config: dict = {name: draw.random() < 0.5 for name in flags if draw.random() < 0.4}
    config["tokenizer_class"] = kind + draw.choice(["", "" if kind.startswith("DPR") else "Fast"])
    files = {"tokenizer_config.json": config}
    if draw.random() < 0.3:
        config["added_tokens_decoder"] = {
            str(place): {
                "content": token,
                "lstrip": draw.random() < 0.2,
                "rstrip": draw.random() < 0.2,
                "single_word": False,
                "normalized": draw.random() < 0.3,
                "special": draw.random() < 0.8,
            }
            for place, token in enumerate(special)
        }
        if draw.random() < 0.5:
            config["added_tokens_decoder"]["9000"] = {
                "content": "<later>",
                "special": True,
                "normalized": False,
                "lstrip": False,
                "rstrip": True,
                "single_word": False,
            }
    more = draw.choice([None, ["<one>", "<two>"], ["<one>"]])
    if more is not None:
        place = draw.choice(["additional_special_tokens", "extra_special_tokens"])
        if draw.random() < 0.5:
            files.setdefault("special_tokens_map.json", {})[place] = more
        else:
            config[place] = more
    if draw.random() < 0.2:
        config["image_token"] = "<image>"
    if draw.random() < 0.2:
        config["extra_special_tokens"] = {"audio_token": "<audio>"}
    if draw.random() < 0.3:
        files["added_tokens.json"] = {"<tool>": 5000}
    if draw.random() < 0.3:
        unknown = next((token for token in special if "unk" in token.lower()), special[0])
        files.setdefault("special_tokens_map.json", {})["mask_token"] = {
            "content": "[MASK]",
            "lstrip": True,
            "rstrip": False,
            "normalized": False,
            "single_word": False,
        }
        files["special_tokens_map.json"]["unk_token"] = unknown
    return files


def write(folder: Path, tokenizer: Tokenizer, files: dict[str, dict], model_type: str | None) -> None:
    """Write a checkpoint folder without weights."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {} if model_type is None else {"model_type": model_type}
    for name, values in (files | {"config.json": config}).items():
        (folder / name).write_text(json.dumps(values))
