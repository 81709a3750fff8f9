"""tokenizer.json, tokenizer_config.json and generation_config.json of a GGUF file's vocabulary."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from txexport.checkpoints.gguf import splits
from txexport.checkpoints.gguf.metadata import Metadata
from txexport.checkpoints.gguf.vocabulary import BYTE, CONTROL, UNKNOWN, USER_DEFINED, Vocabulary, strings
from txexport.errors import CheckpointError, UnsupportedError, shown

SPACE = "\u2581"
LONGEST_TOKEN = 256  # characters of a merge; the longest published one has 128
GEMMA = ("gemma", "gemma2")

# Tokens that end an answer in a file with a chat template, also if it does not name them; as in llama.cpp.
ENDS = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<|end_of_text|>",
)
SPECIAL = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """The tokenizer. Raises UnsupportedError for an unsupported kind, CheckpointError."""
    metadata = vocabulary.metadata
    kind, pre = (metadata.value(f"tokenizer.ggml.{key}", str, "") for key in ("model", "pre"))
    beginning = kind == "llama" or pre in splits.BEGINNING
    if kind == "gpt2":
        result = _byte_level(vocabulary)
    elif kind == "llama":
        result = _sentencepiece(vocabulary)
    else:
        raise UnsupportedError(
            f"{metadata.file}: tokenizer {shown(kind)} is not supported; expected gpt2 or llama"
        )
    typed = list(zip(vocabulary.tokens, vocabulary.types, strict=True))
    result.add_special_tokens([_added(token) for token, of in typed if of == CONTROL and token])
    own = {token for token, of in typed if of == USER_DEFINED and result.token_to_id(token) is not None}
    result.add_tokens([_added(token) for token, _ in typed if token in own])
    if result.get_vocab_size() > len(vocabulary.tokens):
        raise CheckpointError(f"{metadata.file}: added tokens are missing in the vocabulary")
    if (processor := _processor(vocabulary, beginning)) is not None:
        result.post_processor = processor
    return result


def _added(token: str) -> AddedToken:
    return AddedToken(token, normalized=False)


def settings(vocabulary: Vocabulary, length: int) -> dict[str, Any]:
    """The content of tokenizer_config.json."""
    result: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": length}
    result["clean_up_tokenization_spaces"] = False
    for ours, theirs in SPECIAL.items():
        if (token := vocabulary.spelt(theirs)) is not None:
            result[ours] = token
    if vocabulary.template is not None:
        result["chat_template"] = vocabulary.template
    return result


def generation(metadata: Metadata, vocabulary: Vocabulary | None) -> dict[str, Any]:
    """The content of generation_config.json: the BOS, PAD and EOS ids."""
    ends = [metadata.token(name) for name in ("eos", "eot", "eom")]
    if vocabulary is not None and vocabulary.template is not None:
        typed = zip(vocabulary.tokens, vocabulary.types, strict=True)
        ends += [number for number, (token, of) in enumerate(typed) if of == CONTROL and token in ENDS]
    known = list(dict.fromkeys(end for end in ends if end is not None))
    values = {
        "bos_token_id": metadata.token("bos"),
        "eos_token_id": known if len(known) > 1 else next(iter(known), None),
        "pad_token_id": metadata.token("padding"),
    }
    return {name: value for name, value in values.items() if value is not None}


def _byte_level(vocabulary: Vocabulary) -> Tokenizer:
    """Byte-level BPE (Radford et al. 2019, 2.2), with the pre-tokenizer that the file's `pre` names."""
    metadata, ids, merges = vocabulary.metadata, vocabulary.ids, _merges(vocabulary)
    usual = splits.GPT2 if metadata.architecture == "gpt2" else ""
    file, pre = metadata.file, metadata.value("tokenizer.ggml.pre", str, usual)
    if pre not in splits.NAMES:
        known = ", ".join(splits.NAMES)
        raise UnsupportedError(
            f"{file}: pre-tokenizer {shown(pre)} is not supported; expected one of {known}"
        )
    for left, right in merges:
        if not {left, right, left + right} <= ids.keys():
            pair = shown(f"{left} {right}")
            raise CheckpointError(f"{file}: its vocabulary lacks a part or the result of the merge {pair}")
    result = Tokenizer(models.BPE(ids, merges, ignore_merges=pre in splits.KEEP_WORDS))
    if pre in splits.COMPOSED:
        result.normalizer = normalizers.NFC()
    result.pre_tokenizer = splits.pre_tokenizer(pre)
    result.decoder = decoders.ByteLevel()
    return result


def _merges(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    pairs = [tuple(merge.split(" ")) for merge in strings(vocabulary.metadata, "merges")]
    if any(len(pair) != 2 for pair in pairs):
        raise CheckpointError(f"{vocabulary.metadata.file}: 'tokenizer.ggml.merges' are not pairs of tokens")
    return [(pair[0], pair[1]) for pair in pairs]


def _sentencepiece(vocabulary: Vocabulary) -> Tokenizer:
    """SentencePiece's BPE (Kudo & Richardson 2018): merges by score, with byte fallback."""
    metadata = vocabulary.metadata
    if metadata.architecture in GEMMA:  # texts have marked spaces when they are merged
        tokens = [
            SPACE * len(token) if len(token) > 1 and not token.strip(" ") else token
            for token in vocabulary.tokens
        ]
        vocabulary = replace(vocabulary, tokens=tokens)
    ids, unknown = vocabulary.ids, vocabulary.spelt("unknown")
    byte_fallback = BYTE in vocabulary.types
    if byte_fallback and not all(f"<0x{byte:02X}>" in ids for byte in range(256)):
        raise CheckpointError(f"{metadata.file} has byte tokens, but not all 256")
    model = models.BPE(
        ids, _derived(vocabulary, ids), unk_token=unknown, fuse_unk=True, byte_fallback=byte_fallback
    )
    result = Tokenizer(model)
    marked = normalizers.Replace(" ", SPACE)
    ends = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if metadata.value("tokenizer.ggml.add_space_prefix", bool, True):
        result.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), marked])
        ends.append(decoders.Strip(" ", 1, 0))
    else:
        result.normalizer = marked
    result.decoder = decoders.Sequence(ends)
    return result


def _derived(vocabulary: Vocabulary, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """Every pair of tokens that makes a token, in the order in which SentencePiece merges them.

    Gemma's merges follow the ids, not the scores.
    """
    pairs = []
    for token, number in ids.items():
        if len(token) > LONGEST_TOKEN or vocabulary.types[number] in (CONTROL, BYTE, UNKNOWN):
            continue
        rank = -number if vocabulary.metadata.architecture in GEMMA else vocabulary.scores[number]
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in ids and right in ids:
                pairs.append((rank, cut, left, right))
    pairs.sort(key=lambda one: (one[0], one[1]), reverse=True)
    return [(left, right) for _, _, left, right in pairs]


def _processor(vocabulary: Vocabulary, beginning: bool) -> processors.TemplateProcessing | None:
    """The post-processor that adds BOS and EOS; None if there are none."""
    first = [vocabulary.spelt("bos")] if vocabulary.adds("bos", beginning) else []
    last = [vocabulary.spelt("eos")] if vocabulary.adds("eos", False) else []
    special = [(token, vocabulary.tokens.index(token)) for token in first + last if token is not None]
    if not special:
        return None
    ours, theirs = ([*first, text, *last] for text in ("$A:0", "$B:1"))
    parts = [f"{token}:1" if token in first + last else token for token in theirs]
    return processors.TemplateProcessing(ours, [*ours, *parts], special)
