"""Constrained decoding: tokens that do not fit a JSON schema, a regular expression or a grammar are banned.

llguidance computes the allowed tokens of each step, including tokens that are parts of characters.
"""

import functools
import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

from txexport.errors import InputError, crashes, needed_for, shown, warn
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.generation.config import CONSTRAINTS, GenerationConfig
from txexport.runtime.generation.penalties import Step
from txexport.runtime.preprocessing.text import Text

STATES = 1024  # cached grammar states, so that a step consumes one token
# At most one space, or a newline with an indent: without a limit a model may write spaces for ever. A
# schema's own "x-guidance" overrides it.
JSON: Any = {"whitespace_pattern": r"(\x20|\x0A\x20{0,16})?"}
SPACE = "\u2581"  # for a space in SentencePiece's vocabularies


class Constraint:
    """A grammar for new text, compiled for one vocabulary by `compiled`."""

    def __init__(self, name: str, start: Any, config: GenerationConfig):
        self.name, self.start = name, start
        self.forced = config.forced_bos_token_id is not None, bool(config.forced_eos_token_id)
        self.states: OrderedDict[tuple[int, ...], Any] = OrderedDict()

    def __call__(self, step: Step, scores: np.ndarray) -> np.ndarray:
        """Scores (R,V) with -inf for tokens that do not fit; rows in which other options force a token stay.

        Raises InputError where other options ban every token that the grammar allows.
        """
        begins, closes = self.forced
        scores = scores.copy()
        for i, row in enumerate(step.rows):
            new = tuple(row[step.prompts[i] :])
            if (begins and not new) or (closes and len(row) + 1 >= step.limits[i]):
                continue
            state = self._state(new[begins:])
            if state.is_error():  # a dead beam: its scores are not used
                scores[i] = -np.inf
                continue
            with crashes():
                mask = state.compute_bitmask()
            allowed = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")
            scores[i, allowed[: scores.shape[1]] == 0] = -np.inf
            if scores[i].max() == -np.inf:
                raise InputError(f"no token that fits {self.name} is left; choose fewer other options")
        return scores

    def _state(self, new: tuple[int, ...]) -> Any:
        """llguidance's matcher after these tokens."""
        state = self.states.get(new)
        if state is None:
            before = self.states.get(new[:-1])
            state = (self.start if before is None else before).deep_copy()
            state.consume_tokens(list(new if before is None else new[-1:]))
            self.states[new] = state
        self.states.move_to_end(new)
        while len(self.states) > STATES:
            self.states.popitem(last=False)
        return state


def compiled(config: GenerationConfig, files: BundleFiles, vocab_size: int) -> Constraint | None:
    """The constraint of `config`, or None.

    Raises InputError for a constraint that does not compile, a vocabulary that is not supported, and a
    missing end of sequence; MissingLibraryError without llguidance.
    """
    name = next((name for name in CONSTRAINTS if getattr(config, name) is not None), None)
    if name is None:
        return None
    ends = tuple(token for token in config.eos_token_id if token < vocab_size)
    if not ends:
        raise InputError(f"{name} needs an end of sequence; choose eos_token_id")
    with needed_for(name):
        import llguidance
    with crashes():
        grammar = _grammar(name, getattr(config, name))
        start = llguidance.LLMatcher(_vocabulary(files.text, vocab_size, ends), grammar, log_level=0)
        problem = " ".join(start.get_error().split())
        if not problem and not (any(start.compute_bitmask()) and not start.is_error()):
            problem = "no text fits it"
    if problem:
        raise InputError(f"{name} is not valid: {problem[:300]}")
    for warning in start.get_grammar_warnings():
        warn(f"{name}: {' '.join(warning.split())[:300]}")
    return Constraint(name, start, config)


def check_schema(schema: Any, purpose: str) -> str:
    """The reason why a JSON schema does not compile; empty if it does.

    Raises InputError for one that is not a schema at all, MissingLibraryError without llguidance, which the
    `purpose` needs.
    """
    with needed_for(purpose):
        from llguidance import LLMatcher
    with crashes():
        return " ".join(LLMatcher.validate_grammar(_grammar("json_schema", schema)).split())[:300]


def _grammar(name: str, value: Any) -> str:
    """A grammar in llguidance's form. Raises InputError for an invalid constraint."""
    from llguidance import LLMatcher

    try:
        if name == "json_schema":
            return LLMatcher.grammar_from_json_schema(value, defaults=JSON)
        return LLMatcher.grammar_from_regex(value) if name == "regex" else LLMatcher.grammar_from_lark(value)
    except ValueError as error:
        raise InputError(f"{name} is {shown(value)}, which is not valid: {error}") from None


@functools.lru_cache(maxsize=4)
def _vocabulary(text: Text, vocab_size: int, ends: tuple[int, ...]) -> Any:
    """The vocabulary in llguidance's form; slow to build."""
    from llguidance import LLTokenizer, TokenizerWrapper

    tokens, special = token_bytes(text, vocab_size)
    special = sorted({*special, *ends})
    wrapped = _Vocabulary(text, tokens, special, ends[0])
    return LLTokenizer(TokenizerWrapper(wrapped), n_vocab=vocab_size, eos_token=list(ends))


@dataclass(frozen=True)
class _Vocabulary:
    """A tokenizer with llguidance's interface."""

    text: Text
    tokens: list[bytes]
    special_token_ids: list[int]
    eos_token_id: int
    bos_token_id: int | None = None

    def __call__(self, text: str) -> list[int]:
        """The tokens of a text; a TypeError for bytes tells llguidance that only text is accepted."""
        return self.text.tokenizer.encode(text, add_special_tokens=False).ids


def token_bytes(text: Text, vocab_size: int) -> tuple[list[bytes], list[int]]:
    """The bytes of each token, and the ids of the tokens without any: special and unused ones.

    Raises InputError for a word-level vocabulary, whose tokens do not contain the spaces before them.
    """
    decoders = _parts(text)
    kinds = {part.get("type") for part in decoders}
    spaces = "Metaspace" in kinds or any(part.get("content") == " " for part in decoders)
    if "ByteLevel" not in kinds and not spaces:
        raise InputError(
            "constrained decoding needs a byte-level or SentencePiece vocabulary; this model's tokens do not "
            "contain the spaces between them"
        )
    added = text.tokenizer.get_added_tokens_decoder()
    names = {number: name for name, number in text.tokenizer.get_vocab().items()}
    tokens, special = [], []
    for number in range(vocab_size):
        name, plain = names.get(number), number not in added
        if name is None or (not plain and added[number].special) or (spaces and name == "<unk>"):
            special.append(number)
            tokens.append(b"")
        elif not plain:
            tokens.append(name.encode())
        elif spaces:
            tokens.append(_of_sentencepiece(name, "ByteFallback" in kinds))
        else:
            tokens.append(bytes(_BYTES[letter] for letter in name if letter in _BYTES))
    return tokens, special


def _parts(text: Text) -> list[dict]:
    """The steps of the tokenizer's decoder, as tokenizer.json has them."""
    decoder = json.loads(text.tokenizer.to_str()).get("decoder") or {}
    return decoder.get("decoders", [decoder])


def _of_sentencepiece(name: str, fallback: bool) -> bytes:
    """The bytes of a SentencePiece piece; with byte fallback, pieces such as <0x0A> are single bytes."""
    if fallback and len(name) == 6 and name.startswith("<0x"):
        return bytes([int(name[3:5], 16)])
    return name.replace(SPACE, " ").encode()


def _byte_letters() -> dict[str, int]:
    """The characters that stand for bytes in byte-level vocabularies (Radford 2019), with their bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTES = _byte_letters()
