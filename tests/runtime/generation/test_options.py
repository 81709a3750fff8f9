"""Ranges of the generation options, and the messages for values outside."""

import math

import numpy as np
import pytest

from txexport.errors import InputError
from txexport.runtime.generation.config import GenerationConfig


def test_forms_that_callers_and_files_write():
    settings = GenerationConfig().updated(
        sequence_bias=[[[1, 2], 3], [(4,), -math.inf]],
        logit_bias={"7": 1, 8: -2.5},
        bad_words_ids=np.array([[1, 2]]),
        stop_strings="end",
        exponential_decay_length_penalty=[3, 1],
    )
    assert settings.sequence_bias == {(1, 2): 3.0, (4,): -math.inf}
    assert settings.logit_bias == {7: 1.0, 8: -2.5}
    assert settings.bad_words_ids == ((1, 2),)
    assert settings.stop_strings == ("end",)
    assert settings.exponential_decay_length_penalty == (3, 1.0)


WHOLE_0, WHOLE_1 = (f"expected a whole number of at least {low}" for low in (0, 1))
SHARE = "expected a number above 0 and at most 1"
BAD = [
    ({"temprature": 1}, "no option 'temprature'; did you mean temperature?"),
    ({"top": 1}, "no option 'top'; did you mean top_p or top_k or top_h?"),
    ({"zzz": 1}, "no option 'zzz'"),
    ({"ignored": ()}, "no option 'ignored'"),
    (
        {"temperature": 0, "do_sample": True},
        "temperature is 0.0, expected a number above 0; greedy search is do_sample=False",
    ),
    (
        {"temperature": math.nan},
        "temperature is nan, expected a number above 0; greedy search is do_sample=False",
    ),
    (
        {"temperature": True},
        "temperature is True, expected a number above 0; greedy search is do_sample=False",
    ),
    ({"top_p": 0}, f"top_p is 0.0, {SHARE}"),
    ({"top_p": 1.01}, f"top_p is 1.01, {SHARE}"),
    ({"typical_p": 0.0}, f"typical_p is 0.0, {SHARE}"),
    ({"top_h": 1.5}, f"top_h is 1.5, {SHARE}"),
    ({"min_p": -0.1}, "min_p is -0.1, expected a number from 0 to 1"),
    ({"min_p": 1.1}, "min_p is 1.1, expected a number from 0 to 1"),
    ({"epsilon_cutoff": 1.0}, "epsilon_cutoff is 1.0, expected a number from 0 to below 1"),
    ({"eta_cutoff": -0.1}, "eta_cutoff is -0.1, expected a number from 0 to below 1"),
    ({"top_k": -1}, f"top_k is -1, {WHOLE_0}"),
    ({"top_k": 2.0}, f"top_k is 2.0, {WHOLE_0}"),
    ({"top_k": True}, f"top_k is True, {WHOLE_0}"),
    ({"num_beams": 0}, f"num_beams is 0, {WHOLE_1}"),
    ({"max_new_tokens": 0}, f"max_new_tokens is 0, {WHOLE_1}"),
    ({"max_length": "20"}, f"max_length is '20', {WHOLE_1}"),
    ({"min_length": -1}, f"min_length is -1, {WHOLE_0}"),
    ({"no_repeat_ngram_size": -1}, f"no_repeat_ngram_size is -1, {WHOLE_0}"),
    ({"seed": -1}, f"seed is -1, {WHOLE_0}"),
    ({"repetition_penalty": 0}, "repetition_penalty is 0.0, expected a number above 0"),
    ({"encoder_repetition_penalty": -1}, "encoder_repetition_penalty is -1.0, expected a number above 0"),
    ({"length_penalty": "long"}, "length_penalty is 'long', expected a number"),
    ({"length_penalty": 10**400}, f"length_penalty is 1{'0' * 56}..., expected a number"),
    ({"presence_penalty": math.inf}, "presence_penalty is inf, expected a number"),
    ({"diversity_penalty": -1}, "diversity_penalty is -1.0, expected a number of at least 0"),
    ({"do_sample": 1}, "do_sample is 1, expected true or false"),
    ({"early_stopping": 1}, "early_stopping is 1, expected true, false or 'never'"),
    ({"early_stopping": "always"}, "early_stopping is 'always', expected true, false or 'never'"),
    ({"eos_token_id": "</s>"}, "eos_token_id is '</s>', expected a whole number or several"),
    ({"pad_token_id": [1]}, "pad_token_id is [1], expected a whole number"),
    ({"suppress_tokens": [-1]}, "suppress_tokens is [-1], expected a list of whole numbers of at least 0"),
    ({"suppress_tokens": 5}, "suppress_tokens is 5, expected a list of whole numbers of at least 0"),
    (
        {"bad_words_ids": [[1], []]},
        "bad_words_ids is [[1], []], expected lists of tokens, none of them empty",
    ),
    ({"bad_words_ids": [1]}, "bad_words_ids is [1], expected lists of tokens, none of them empty"),
    (
        {"sequence_bias": {"(1, 2)": 1.0}},
        "sequence_bias is {'(1, 2)': 1.0}, expected [tokens, number] pairs, or a dict from tuples of tokens",
    ),
    (
        {"sequence_bias": [[[1], math.inf]]},
        "sequence_bias is [[[1], inf]], expected [tokens, number] pairs, or a dict from tuples of tokens",
    ),
    ({"logit_bias": {"the": 1.0}}, "logit_bias is {'the': 1.0}, expected a dict from tokens to numbers"),
    ({"logit_bias": {-1: 1.0}}, "logit_bias is {-1: 1.0}, expected a dict from tokens to numbers"),
    (
        {"stop_strings": ["end", ""]},
        "stop_strings is ['end', ''], expected a text or several, none of them empty",
    ),
    (
        {"exponential_decay_length_penalty": [1]},
        "exponential_decay_length_penalty is [1], expected a first token of at least 0 and a factor above 0",
    ),
    (
        {"exponential_decay_length_penalty": (1, 0)},
        "exponential_decay_length_penalty is (1, 0.0), "
        "expected a first token of at least 0 and a factor above 0",
    ),
    (
        {"num_return_sequences": 2},
        "num_return_sequences is 2, expected at most num_beams=1, or do_sample=True alone",
    ),
    (
        {"num_return_sequences": 3, "num_beams": 2, "do_sample": True},
        "num_return_sequences is 3, expected at most num_beams=2, or do_sample=True alone",
    ),
    ({"num_beams": 4, "num_beam_groups": 3}, "num_beam_groups is 3, expected a divisor of num_beams=4"),
    (
        {"num_beams": 4, "num_beam_groups": 2},
        "diversity_penalty is 0.0, expected a number above 0 with num_beam_groups=2",
    ),
    (
        {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1, "do_sample": True},
        "num_beam_groups is 2, expected 1 with do_sample=True",
    ),
    (
        {"forced_bos_token_id": 4, "suppress_tokens": [4, 5]},
        "forced_bos_token_id is 4, expected a token that suppress_tokens does not rule out",
    ),
    (
        {"forced_eos_token_id": [4, 5], "suppress_tokens": [4, 5]},
        "forced_eos_token_id is (4, 5), expected a token that suppress_tokens does not rule out",
    ),
]


@pytest.mark.parametrize(("given", "said"), BAD, ids=[row[1][:50] for row in BAD])
def test_values_that_cannot_be(given, said):
    with pytest.raises(InputError) as caught:
        GenerationConfig().updated(**given)
    assert str(caught.value) == said


def test_values_at_the_edge_of_their_range():
    settings = GenerationConfig().updated(
        do_sample=True, num_return_sequences=9, top_p=1, min_p=0, top_k=0, min_length=0
    )
    assert settings.num_return_sequences == 9
    assert settings.updated(num_beams=9, min_p=1).num_beams == 9
    assert GenerationConfig().updated(forced_eos_token_id=[4, 5], suppress_tokens=[4]).suppress_tokens == (4,)
