"""The valid values of each generation option, from JSON or a caller."""

import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from txexport.errors import InputError, shown

WHOLE_NUMBERS = 2**63  # the limit of 64-bit integers, in NumPy and ONNX
SCHEDULES = ("constant", "heuristic", "heuristic_transient")  # the last two are equal: calls share no state
SEQUENCES = 16_384  # beams, or sequences to return, of one prompt; memory may allow fewer


def read_option(name: str, value: Any) -> Any:
    """Convert a value to the option's type. Raises InputError for an invalid type; ignores the range."""
    rule = RULES[name]
    try:
        return rule.read(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise InputError(_refused(name, value)) from None


def check_option(name: str, value: Any) -> None:
    """Raise InputError where a converted value is out of range."""
    if value is not None and not RULES[name].holds(value):
        raise InputError(_refused(name, value))


def _refused(name: str, value: Any) -> str:
    expected = RULES[name].expected
    if isinstance(value, int) and value >= WHOLE_NUMBERS and expected.startswith("a whole number"):
        expected = f"{expected}, below 2^63"
    return f"{name} is {shown(value)}, expected {expected}"


@dataclass(frozen=True)
class Rule:
    """An option's rule: its description, its parser (TypeError or ValueError if invalid) and its range."""

    expected: str
    read: Callable[[Any], Any]
    holds: Callable[[Any], bool] = lambda value: True


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    if not -WHOLE_NUMBERS <= (number := operator.index(value)) < WHOLE_NUMBERS:
        raise ValueError
    return number


def _seed(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError
    if not math.isfinite(value):
        raise ValueError
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _schema(value: Any) -> dict:
    schema = json.loads(value) if isinstance(value, str) else value
    if not isinstance(schema, dict):
        raise TypeError
    try:
        json.dumps(schema, allow_nan=False)  # a TypeError or ValueError for what is not JSON
    except RecursionError:
        raise InputError(
            "json_schema is nested too deeply; name its parts in $defs and refer to them"
        ) from None
    return schema


def _early_stopping(value: Any) -> bool | str:
    return "never" if isinstance(value, str) and value == "never" else _flag(value)


def _special(value: Any) -> int | None:
    return token if (token := _whole(value)) >= 0 else None


def _specials(value: Any) -> tuple[int, ...]:
    tokens = map(_special, value if isinstance(value, Iterable) else [value])
    return tuple(token for token in tokens if token is not None)


def _token(value: Any) -> int:
    if (token := _whole(value)) < 0:
        raise ValueError
    return token


def _tokens(value: Any) -> tuple[int, ...]:
    return tuple(map(_token, value))


def _sequence(value: Any) -> tuple[int, ...]:
    if not (tokens := _tokens(value)):
        raise ValueError
    return tokens


def _sequences(value: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(map(_sequence, value))


def _bias(value: Any) -> float:
    return -math.inf if isinstance(value, Real) and value == -math.inf else _number(value)


def _sequence_bias(value: Any) -> dict[tuple[int, ...], float]:
    pairs = value.items() if isinstance(value, Mapping) else value
    return {_sequence(tokens): _bias(bias) for tokens, bias in pairs}


def _logit_bias(value: Any) -> dict[int, float]:
    pairs = dict(value).items()  # in JSON the tokens are strings
    return {_token(int(key) if isinstance(key, str) else key): _bias(bias) for key, bias in pairs}


def _decay(value: Any) -> tuple[int, float]:
    start, factor = value
    return _whole(start), _number(factor)


def _strings(value: Any) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(text, str) and text for text in texts):
        raise TypeError
    for text in texts:
        text.encode()  # a ValueError for invalid Unicode
    return texts


_FROM_0 = Rule("a whole number of at least 0", _whole, lambda x: x >= 0)
_FROM_1 = Rule("a whole number of at least 1", _whole, lambda x: x >= 1)
_ANY = Rule("a number", _number)
_ABOVE_0 = Rule("a number above 0", _number, lambda x: x > 0)
_SHARE = Rule("a number above 0 and at most 1", _number, lambda x: 0 < x <= 1)
_CUTOFF = Rule("a number from 0 to below 1", _number, lambda x: 0 <= x < 1)
_FLAG = Rule("true or false", _flag)
_SPECIAL = Rule("a whole number", _special)
_SPECIALS = Rule("a whole number or several", _specials)
_TOKENS = Rule("a list of whole numbers of at least 0", _tokens)

RULES: dict[str, Rule] = {
    "max_new_tokens": _FROM_1,
    "max_length": _FROM_1,
    "min_new_tokens": _FROM_0,
    "min_length": _FROM_0,
    "stop_strings": Rule("a text or several, none of them empty", _strings),
    "num_beams": _FROM_1,
    "num_beam_groups": _FROM_1,
    "diversity_penalty": Rule("a number of at least 0", _number, lambda x: x >= 0),
    "early_stopping": Rule("true, false or 'never'", _early_stopping),
    "length_penalty": _ANY,
    "num_return_sequences": _FROM_1,
    "do_sample": _FLAG,
    "seed": Rule("a whole number of at least 0", _seed, lambda x: x >= 0),
    "temperature": Rule("a number above 0; greedy search is do_sample=False", _number, lambda x: x > 0),
    "top_h": _SHARE,
    "top_k": _FROM_0,
    "top_p": _SHARE,
    "min_p": Rule("a number from 0 to 1", _number, lambda x: 0 <= x <= 1),
    "typical_p": _SHARE,
    "epsilon_cutoff": _CUTOFF,
    "eta_cutoff": _CUTOFF,
    "renormalize_logits": _FLAG,
    "prompt_lookup_num_tokens": _FROM_1,
    "max_matching_ngram_size": Rule("a whole number from 1 to 64", _whole, lambda x: 1 <= x <= 64),
    "num_assistant_tokens": _FROM_1,
    "num_assistant_tokens_schedule": Rule(
        "'constant', 'heuristic' or 'heuristic_transient'", _text, lambda x: x in SCHEDULES
    ),
    "assistant_confidence_threshold": Rule("a number from 0 to 1", _number, lambda x: 0 <= x <= 1),
    "repetition_penalty": _ABOVE_0,
    "no_repeat_ngram_size": _FROM_0,
    "encoder_repetition_penalty": _ABOVE_0,
    "encoder_no_repeat_ngram_size": _FROM_0,
    "presence_penalty": _ANY,
    "frequency_penalty": _ANY,
    "sequence_bias": Rule("[tokens, number] pairs, or a dict from tuples of tokens", _sequence_bias),
    "logit_bias": Rule("a dict from tokens to numbers", _logit_bias),
    "bad_words_ids": Rule("lists of tokens, none of them empty", _sequences),
    "suppress_tokens": _TOKENS,
    "begin_suppress_tokens": _TOKENS,
    "forced_bos_token_id": _SPECIAL,
    "forced_eos_token_id": _SPECIALS,
    "exponential_decay_length_penalty": Rule(
        "a first token of at least 0 and a factor above 0", _decay, lambda x: x[0] >= 0 and x[1] > 0
    ),
    "remove_invalid_values": _FLAG,
    "json_schema": Rule("a JSON schema: an object, or the text of one", _schema),
    "regex": Rule("a regular expression", _text),
    "grammar": Rule("a grammar in Lark's notation", _text),
    "bos_token_id": _SPECIAL,
    "eos_token_id": _SPECIALS,
    "pad_token_id": _SPECIAL,
    "decoder_start_token_id": _SPECIAL,
}
