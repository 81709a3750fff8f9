"""Settings of generation: what files say, what callers say, and what neither may say."""

import json

import numpy as np
import pytest
import transformers

from txexport.errors import BundleError, InputError
from txexport.runtime.generation.config import (
    DEFAULTS,
    OURS,
    UNSUPPORTED,
    GenerationConfig,
    read_generation_config,
)
from txexport.runtime.generation.options import RULES


def folder_with(path, generation=None, config=None):
    if isinstance(generation, transformers.GenerationConfig):
        generation.save_pretrained(path)
    elif generation is not None:
        (path / "generation_config.json").write_text(json.dumps(generation))
    if config is not None:
        (path / "config.json").write_text(json.dumps(config))
    return path


def of_transformers(config: transformers.GenerationConfig, name: str):
    """The value that transformers' generate would use, as ours is written."""
    config.update(**transformers.GenerationConfig._get_default_generation_params(), defaults_only=True)
    value = getattr(config, name)
    if name in ("eos_token_id", "forced_eos_token_id") and isinstance(value, int):
        return (value,)
    if name == "sequence_bias" and value is not None:
        return {tuple(tokens): bias for tokens, bias in value}
    if name == "bad_words_ids" and value is not None:
        return tuple(map(tuple, value))
    if value is None:
        return DEFAULTS[name]
    return tuple(value) if isinstance(value, list) else value


CONFIGS = [
    {},
    {"eos_token_id": 2, "pad_token_id": 1, "bos_token_id": 0, "max_length": 50, "num_beams": 4},
    {"eos_token_id": [2, 5], "do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 20},
    {"max_new_tokens": 9, "min_new_tokens": 2, "min_length": 3, "stop_strings": ["\n\n", "end"]},
    {"num_beams": 6, "num_return_sequences": 3, "early_stopping": "never", "length_penalty": 2.0},
    {"do_sample": True, "min_p": 0.1, "typical_p": 0.9, "epsilon_cutoff": 3e-4, "eta_cutoff": 2e-3},
    {"repetition_penalty": 1.2, "no_repeat_ngram_size": 3, "encoder_no_repeat_ngram_size": 2},
    {"sequence_bias": [[[1, 2], 3.5], [[4], -1.0]], "bad_words_ids": [[1], [2, 3]]},
    {"suppress_tokens": [1, 2], "begin_suppress_tokens": [3], "forced_bos_token_id": 4},
    {"forced_eos_token_id": [2, 3], "exponential_decay_length_penalty": [5, 1.1]},
    {"prompt_lookup_num_tokens": 7, "max_matching_ngram_size": 3},
    {"num_assistant_tokens": 5, "num_assistant_tokens_schedule": "heuristic"},
    {"assistant_confidence_threshold": 0.25},
    {"renormalize_logits": True, "remove_invalid_values": True, "decoder_start_token_id": 7},
    {
        "do_sample": True,
        "top_h": 0.4,
        "encoder_repetition_penalty": 0.9,
        "early_stopping": True,
        "num_beams": 2,
    },
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
]


@pytest.mark.parametrize("values", CONFIGS, ids=str)
def test_a_file_is_read_as_transformers_reads_it(values, tmp_path):
    config = transformers.GenerationConfig(**values)
    settings = read_generation_config(folder_with(tmp_path, config))
    reread = transformers.GenerationConfig.from_pretrained(tmp_path)
    for name in DEFAULTS:
        if name not in OURS and name != "max_length":
            assert getattr(settings, name) == of_transformers(reread, name), name
    assert settings.max_length == values.get(
        "max_length"
    )  # whose default, 20, transformers adds to the prompt
    assert settings.ignored == ()


def test_every_option_is_one_of_transformers_or_ours():
    assert set(DEFAULTS) == set(RULES)
    assert set(DEFAULTS) - OURS <= set(vars(transformers.GenerationConfig()))


def test_null_in_a_file_is_no_value(tmp_path):
    values = dict.fromkeys(set(DEFAULTS) | set(UNSUPPORTED))
    assert read_generation_config(folder_with(tmp_path, values)) == GenerationConfig()


def test_options_of_ours_are_not_read_from_files(tmp_path):
    """A seed in a training script's config.json would make all samples alike."""
    values = {"seed": 1, "logit_bias": {"5": 1.0}, "presence_penalty": 1.0, "frequency_penalty": 1.0}
    assert read_generation_config(folder_with(tmp_path, values)) == GenerationConfig()


def test_config_stands_in_where_there_is_no_generation_config(tmp_path):
    config = {"eos_token_id": 3, "num_beams": 4, "max_length": 9, "vocab_size": 40}
    settings = read_generation_config(folder_with(tmp_path, config=config))
    assert (settings.eos_token_id, settings.num_beams, settings.max_length) == ((3,), 4, 9)
    assert read_generation_config(folder_with(tmp_path, {}, config)) == GenerationConfig()


def test_no_file_gives_the_defaults(tmp_path):
    assert read_generation_config(tmp_path) == GenerationConfig()


def test_name_of_2020_for_a_forced_beginning(tmp_path):
    config = {"force_bos_token_to_be_generated": True, "bos_token_id": 5}
    assert read_generation_config(folder_with(tmp_path, config=config)).forced_bos_token_id == 5
    assert read_generation_config(folder_with(tmp_path, {"forced_bos_token_id": 6})).forced_bos_token_id == 6
    config = {"force_bos_token_to_be_generated": True}
    (tmp_path / "generation_config.json").unlink()
    assert read_generation_config(folder_with(tmp_path, config=config)).forced_bos_token_id is None


IGNORED = {
    "penalty_alpha": (0.6, 0),
    "guidance_scale": (1.5, 1.0),
    "watermarking_config": ({"bias": 2.0}, {}),
    "constraints": ([1], []),
    "force_words_ids": ([[1]], []),
    "forced_decoder_ids": ([[1, 50259]], []),
    "dola_layers": ("high", None),
    "token_healing": (True, False),
    "assistant_early_exit": (4, None),
    "use_mtp": (True, False),
    "max_time": (2.0, None),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_not_supported_is_named(name, tmp_path):
    asks, does_not = IGNORED[name]
    settings = read_generation_config(folder_with(tmp_path, {name: asks, "num_beams": 2}))
    assert settings.ignored == (f"{name}={asks}",)
    assert settings.updated(num_beams=1).ignored == settings.ignored
    assert read_generation_config(folder_with(tmp_path, {name: does_not})).ignored == ()
    with pytest.raises(InputError, match=f"^option '{name}' is not supported$"):
        settings.updated(**{name: asks})


def test_token_ids_below_0_are_none(tmp_path):
    """As LLaMA's first files wrote their padding, and callers write an end that never comes."""
    values = {"pad_token_id": -1, "eos_token_id": [2, -1], "bos_token_id": -1, "forced_eos_token_id": -1}
    settings = read_generation_config(folder_with(tmp_path, values))
    assert (settings.pad, settings.eos_token_id, settings.bos_token_id) == (2, (2,), None)
    assert settings.forced_eos_token_id == ()
    assert settings.updated(eos_token_id=-1).eos_token_id == ()


def test_tokens_that_stand_in_for_others():
    assert [GenerationConfig().pad, GenerationConfig(eos_token_id=(4, 5)).pad] == [0, 4]
    assert GenerationConfig(eos_token_id=(4, 5), pad_token_id=0).pad == 0
    assert GenerationConfig().decoder_start is None
    assert GenerationConfig(bos_token_id=3).decoder_start == 3
    assert GenerationConfig(bos_token_id=3, decoder_start_token_id=0).decoder_start == 0


def test_what_a_caller_says_goes_first():
    settings = GenerationConfig(
        eos_token_id=(2,), num_beams=4, repetition_penalty=1.5, ignored=("penalty_alpha=0.6",)
    )
    changed = settings.updated(
        num_beams=2, do_sample=True, temperature=1, seed=np.int64(3), eos_token_id=[4, 5]
    )
    assert (changed.num_beams, changed.temperature, changed.seed) == (2, 1.0, 3)
    assert isinstance(changed.temperature, float)
    assert (changed.eos_token_id, changed.repetition_penalty) == ((4, 5), 1.5)
    assert (settings.num_beams, settings.eos_token_id) == (4, (2,))
    assert settings.updated() == settings


def test_none_turns_an_option_off():
    given = {"max_new_tokens": 5, "top_k": 7, "temperature": 0.5, "eos_token_id": 3, "bad_words_ids": [[1]]}
    settings = GenerationConfig().updated(do_sample=True, **given)
    off = settings.updated(**dict.fromkeys(given))
    assert off == GenerationConfig(do_sample=True, top_k=0)


def test_a_damaged_file_is_said_with_its_folder(tmp_path):
    folder_with(tmp_path, {"max_length": "20"})
    with pytest.raises(
        BundleError, match=r"max_length is '20', expected a whole number of at least 1$"
    ) as caught:
        read_generation_config(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: ")
    with pytest.raises(BundleError, match="num_return_sequences is 3"):
        read_generation_config(folder_with(tmp_path, {"num_return_sequences": 3}))


def test_what_only_sampling_reads_does_not_stop_greedy_search(tmp_path):
    values = {"temperature": 0.0, "top_p": 0, "top_k": -1}
    settings = read_generation_config(folder_with(tmp_path, values))
    assert settings.updated(num_beams=2).num_beams == 2
    with pytest.raises(InputError, match=r"temperature is 0\.0"):
        settings.updated(do_sample=True)
    with pytest.raises(BundleError, match=r"temperature is 0\.0"):
        read_generation_config(folder_with(tmp_path, values | {"do_sample": True}))


def test_options_that_change_nothing_are_said(recwarn):
    GenerationConfig(temperature=0.5).updated(num_beams=2, length_penalty=2.0, seed=1)
    GenerationConfig().updated(do_sample=True, temperature=0.5, length_penalty=1.0, top_k=None)
    assert not recwarn
    with pytest.warns(UserWarning, match=r"^temperature, top_p changes nothing without do_sample=True$"):
        GenerationConfig().updated(temperature=0.5, top_p=0.5)
    with pytest.warns(UserWarning, match=r"^length_penalty changes nothing without num_beams above 1$"):
        GenerationConfig().updated(length_penalty=0.5)
