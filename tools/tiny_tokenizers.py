"""Small tokenizers with special tokens and templates, as checkpoints of each kind have them."""

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,:!?'東"
PIECES = (
    "the cat sat on mat dog lay rug lives in paris works for is far ann lin ##qvist ##ber mun ##chen ##ella"
)
WORDS = [" the", " cat", " sat", " on", " lives", " in", "Anna", " works", " far", " umbrella", " did"]
LIMIT = 40


def wordpiece() -> PreTrainedTokenizerFast:
    """As BERT's: lower case without accents, ## within words, [CLS] A [SEP] B [SEP]."""
    special = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
    vocabulary = [*special, *LETTERS, *("##" + letter for letter in LETTERS), *PIECES.split()]
    ids = {word: i for i, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 0), ("[SEP]", 2)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        cls_token="[CLS]",
        pad_token="[PAD]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        mask_token="[MASK]",
        model_max_length=LIMIT,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def phrases() -> PreTrainedTokenizerFast:
    """As BERT's in lowercase, with its ids of special tokens and of the marks at which phrases end."""
    special = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103, ".": 1012, "?": 1029}
    letters = [mark + letter for mark in ("", "##") for letter in "abcdefghijklmnopqrstuvwxyz0123456789"]
    pieces = ["cat", "mat", "dog", "anna", "remote", "control", "##s", "##ing"]
    free = (number for number in range(104, 1040) if number not in special.values())
    vocabulary = special | dict(zip(dict.fromkeys([*pieces, *letters]), free, strict=False))
    unused = (number for number in range(1040) if number not in set(vocabulary.values()))
    vocabulary |= {f"[unused{number}]": number for number in unused}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", special["[CLS]"]), ("[SEP]", special["[SEP]"])]
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", pair, ends)
    tokenizer.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def byte_level() -> PreTrainedTokenizerFast:
    """As RoBERTa's: byte-level, a space belongs to the word after it, <s> A </s></s> B </s>."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(_bpe(special))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        sep_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_max_length=LIMIT - 2,  # position ids of RoBERTa begin after pad_token_id
        model_input_names=["input_ids", "attention_mask"],
    )


def clip() -> PreTrainedTokenizerFast:
    """As CLIP's: lower case, words end in </w>, EOS is also the padding and has the highest id."""
    start, end = "<|startoftext|>", "<|endoftext|>"
    model = _bpe([], "</w>")
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([start, end])
    marks = [(mark, tokenizer.token_to_id(mark)) for mark in (end, start)]
    tokenizer.post_processor = processors.RobertaProcessing(*marks, add_prefix_space=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=start,
        eos_token=end,
        unk_token=end,
        pad_token=end,
        model_max_length=LIMIT,
        model_input_names=["input_ids", "attention_mask"],
    )


def siglip() -> PreTrainedTokenizerFast:
    """As CLIP's, without an attention mask."""
    tokenizer = clip()
    tokenizer.model_input_names = tokenizer.init_kwargs["model_input_names"] = ["input_ids"]
    return tokenizer


def _bpe(special: list[str], suffix: str = "") -> models.BPE:
    """Byte-level BPE with merges that build WORDS from left to right; `suffix` marks a word's last byte."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    ends = [letter + suffix for letter in letters if suffix]
    vocabulary, merges = [*special, *letters, *ends], []
    for word in WORDS:
        left, *rest = word.replace(" ", "Ġ")
        rest[-1] += suffix
        for right in rest:
            if (left, right) not in merges:
                merges.append((left, right))
                vocabulary.append(left + right)
            left += right
    ids = {word: i for i, word in enumerate(vocabulary)}
    return models.BPE(ids, merges, **({"end_of_word_suffix": suffix} if suffix else {}))
