"""The WordPiece classes of transformers 5: BERT's and its descendants."""

from collections.abc import Callable
from dataclasses import replace

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers

from txexport.checkpoints.tokenizer_classes.built import Built, Post, roberta, template
from txexport.checkpoints.tokenizer_classes.settings import Settings
from txexport.checkpoints.tokenizer_classes.tokenizer_file import TokenizerFile

AROUND = template(
    "{cls_token}:0 $A:0 {sep_token}:0",
    "{cls_token}:0 $A:0 {sep_token}:0 $B:1 {sep_token}:1",
    "cls_token",
    "sep_token",
)
QUESTION, STOP = "question_token", "stop"
ASKED, ASKED_BEHIND = (
    template("{cls_token}:0 $A:0 {sep_token}:0", pair, "cls_token", "sep_token", QUESTION, STOP)
    for pair in (
        "{cls_token}:0 $A:0 {question_token} {stop} {sep_token}:0 $B:1 {sep_token}:1",
        "{cls_token}:0 $A:0 {sep_token}:0 $B:1 {question_token} {stop} {sep_token}:1",
    )
)


def _build(settings: Settings, file: TokenizerFile, tokens: dict, post: Post) -> Built:
    tokenizer = Tokenizer(file.word_piece(str(tokens["unk_token"])))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents", None),
        lowercase=settings.get("do_lower_case", True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    return Built(tokenizer, tokens, post=post)


def bert(settings: Settings, file: TokenizerFile) -> Built:
    """BertTokenizer."""
    return _build(settings, file, settings.tokens("BertTokenizer"), AROUND)


def mpnet(settings: Settings, file: TokenizerFile) -> Built:
    """MPNetTokenizer, whose mask token strips the spaces before it."""
    tokens = {
        name: AddedToken(token, lstrip=name == "mask_token") if isinstance(token, str) else token
        for name, token in settings.tokens("MPNetTokenizer").items()
    }
    return _build(settings, file, tokens, roberta("sep_token", "cls_token", True, False))


def bert_of_file(settings: Settings, file: TokenizerFile) -> Built:
    """ConvBertTokenizer: tokenizer.json's, except for the special tokens around a text."""
    return Built(file.tokenizer, settings.tokens("BertTokenizer"), post=AROUND)


def splinter(settings: Settings, file: TokenizerFile) -> Built:
    """SplinterTokenizer, which puts [QUESTION] and a full stop behind the first of two texts.

    With padding on the left it puts them behind the second.
    """
    tokens = settings.tokens("SplinterTokenizer")
    question = settings.named.setdefault(QUESTION, "[QUESTION]")
    ahead = settings.get("padding_side", "right") == "right"
    around = ASKED if ahead else ASKED_BEHIND
    return _build(settings, file, tokens | {QUESTION: question, STOP: "."}, around)


def dpr(settings: Settings, file: TokenizerFile) -> Built:
    """DPR's tokenizers, which always lowercase."""
    values = {name: value for name, value in settings.values.items() if name != "do_lower_case"}
    return bert(replace(settings, values=values), file)


CLASSES: dict[str, Callable[[Settings, TokenizerFile], Built]] = {
    "BertTokenizer": bert,
    "DistilBertTokenizer": bert,
    "DPRContextEncoderTokenizer": dpr,
    "DPRQuestionEncoderTokenizer": dpr,
    "DPRReaderTokenizer": dpr,
    "MPNetTokenizer": mpnet,
    "SplinterTokenizer": splinter,
}
OF_FILE: dict[str, Callable[[Settings, TokenizerFile], Built]] = {"ConvBertTokenizer": bert_of_file}
