"""Small tokenizers with special tokens and templates, as checkpoints of each kind have them."""

from tiny_checkpoint import VOCAB
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "Anna Lindqvist lives in Paris and works for Siemens",
    "the cat sat on the mat while the dog lay on the rug",
    "unbelievable: Jörg bought 3 umbrellas in München, didn't he?",
    "東京 is far away",
] * 8


def wordpiece() -> PreTrainedTokenizerFast:
    """As BERT's: lower case without accents, ## within words, [CLS] A [SEP] B [SEP]."""
    words = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=VOCAB, special_tokens=words, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
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
        model_max_length=40,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def byte_level() -> PreTrainedTokenizerFast:
    """As RoBERTa's: bytes, a space belongs to the word after it, <s> A </s></s> B </s>."""
    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=words,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
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
        model_max_length=38,
        model_input_names=["input_ids", "attention_mask"],
    )


def clip() -> PreTrainedTokenizerFast:
    """As CLIP's: lower case, words end in </w>, the mark of the end pads too and has the highest id."""
    start, end = "<|startoftext|>", "<|endoftext|>"
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - 2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens([start, end])
    ids = tokenizer.token_to_id(start), tokenizer.token_to_id(end)
    assert ids == (VOCAB - 2, VOCAB - 1)
    tokenizer.post_processor = processors.RobertaProcessing(
        (end, ids[1]), (start, ids[0]), trim_offsets=False, add_prefix_space=False
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=start,
        eos_token=end,
        unk_token=end,
        pad_token=end,
        model_max_length=40,
        model_input_names=["input_ids", "attention_mask"],
    )
