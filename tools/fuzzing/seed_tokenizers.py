"""Seeds whose vocabularies are not in a tokenizer.json, as published."""

import json
from pathlib import Path

import tiny_checkpoint
import tiny_tokenizers
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

TEXTS = (
    "the cat sat on the mat",
    "Anna lives in Paris and works far",
    "dog",
    "is it 12 or 2?",
    "the lay, the rug.",
)


def marian(folder: Path) -> None:
    """OPUS-MT as published: SentencePiece models and a vocabulary, no tokenizer.json."""
    folder.mkdir(parents=True)
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 20),
        model_prefix=str(folder / "source"),
        vocab_size=50,
        num_threads=1,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (folder / "source.model").rename(folder / "source.spm")
    pieces = SentencePieceProcessor(model_file=str(folder / "source.spm"))
    normal = [
        pieces.IdToPiece(i) for i in range(len(pieces)) if not (pieces.IsControl(i) or pieces.IsUnknown(i))
    ]
    vocabulary = ["</s>", "<unk>", ">>fra<<", *normal, "<pad>"]
    pad = len(vocabulary) - 1
    ids = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0}
    tiny_checkpoint.save(
        folder, "marian", vocab_size=len(vocabulary), decoder_vocab_size=len(vocabulary), **ids
    )
    (folder / "tokenizer.json").unlink()
    numbered = {word: number for number, word in enumerate(vocabulary)}
    for name, value in (
        ("vocab.json", numbered),
        (
            "tokenizer_config.json",
            {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "fr"},
        ),
    ):
        (folder / name).write_text(json.dumps(value), encoding="utf-8")


def words(folder: Path) -> None:
    """A vocabulary as text, from which transformers makes a word-level tokenizer."""
    tiny_checkpoint.save(folder, "bert", "BertForSequenceClassification")
    (folder / "tokenizer.json").unlink()
    vocabulary = tiny_tokenizers.wordpiece().get_vocab()
    (folder / "vocab.txt").write_text(
        "\n".join(sorted(vocabulary, key=vocabulary.__getitem__)), encoding="utf-8"
    )


def many_languages(folder: Path) -> None:
    """M2M-100 as published: a SentencePiece BPE model and a vocabulary, no tokenizer.json."""
    folder.mkdir(parents=True)
    model = folder / "sentencepiece.bpe.model"
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 20),
        model_prefix=str(model.with_suffix("")),
        vocab_size=50,
        model_type="bpe",
        num_threads=1,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    pieces = SentencePieceProcessor(model_file=str(model))
    vocabulary = [pieces.IdToPiece(i) for i in range(3, len(pieces))]
    numbered = {word: number for number, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *vocabulary])}
    tiny_checkpoint.save(folder, "m2m_100", vocab_size=len(numbered) + 108, decoder_start_token_id=2)
    (folder / "tokenizer.json").unlink()
    for name, value in (("vocab.json", numbered), ("tokenizer_config.json", {"src_lang": "fr"})):
        (folder / name).write_text(json.dumps(value), encoding="utf-8")


def python(protein: Path, texts: Path) -> None:
    """Vocabularies from which transformers makes tokenizers in Python."""
    letters = ("<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>")
    tiny_checkpoint.save(protein, "esm", vocab_size=len(letters))
    (protein / "vocab.txt").write_text("\n".join(letters), encoding="utf-8")
    tiny_checkpoint.save(texts, "t5", vocab_size=384)
    for folder, kind in ((protein, "EsmTokenizer"), (texts, "ByT5Tokenizer")):
        (folder / "tokenizer.json").unlink(missing_ok=True)
        settings = {"tokenizer_class": kind, "eos_token": "<eos>" if folder == protein else "</s>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
