"""Heads of stacks, one file each."""

from collections.abc import Callable
from typing import Any

from txexport.spec import HeadKind, HeadSpec
from txmodels.heads.causal_lm import CausalLMHead
from txmodels.heads.masked_lm import MaskedLMHead
from txmodels.heads.none import NoHead
from txmodels.heads.sequence import SequenceHead
from txmodels.heads.spans import SpanHead
from txmodels.heads.tokens import TokenHead

HEADS: dict[HeadKind, Callable[[HeadSpec, int, int], Any]] = {
    HeadKind.NONE: lambda spec, width, words: NoHead(),
    HeadKind.MASKED_LM: MaskedLMHead,
    HeadKind.CAUSAL_LM: CausalLMHead,
    HeadKind.SEQUENCE: lambda spec, width, words: SequenceHead(spec, width),
    HeadKind.CHOICES: lambda spec, width, words: SequenceHead(spec, width),
    HeadKind.TOKENS: lambda spec, width, words: TokenHead(spec, width),
    HeadKind.SPANS: lambda spec, width, words: SpanHead(spec, width),
}


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> Any:
    """The module of a head over hidden states (B,S,hidden_size)."""
    return HEADS[spec.kind](spec, hidden_size, vocab_size)
