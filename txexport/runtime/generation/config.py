"""Generation settings from a checkpoint's files, and the caller's overrides."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from txexport.bundle import read_json
from txexport.errors import BundleError, InputError, shown, warn
from txexport.runtime.generation.options import SEQUENCES, check_option, read_option
from txexport.support.near_names import did_you_mean


@dataclass(frozen=True)
class GenerationConfig:
    """All options of generation, with the names and defaults of transformers' GenerationConfig.

    Negative token ids count as none, as in published files. `ignored` lists the unsupported settings of a
    checkpoint's files, as "name=value".
    """

    # length, in tokens
    max_new_tokens: int | None = None  # overrides max_length
    max_length: int | None = None  # includes the prompt, as does min_length
    min_new_tokens: int | None = None  # overrides min_length
    min_length: int = 0
    stop_strings: tuple[str, ...] = ()
    # search
    num_beams: int = 1
    num_beam_groups: int = 1
    diversity_penalty: float = 0.0
    early_stopping: bool | Literal["never"] = False
    length_penalty: float = 1.0
    num_return_sequences: int = 1
    # sampling
    do_sample: bool = False
    seed: int | None = None  # not in transformers; None for different samples each time
    temperature: float = 1.0
    top_h: float | None = None
    top_k: int = 50  # 0 for all
    top_p: float = 1.0
    min_p: float | None = None
    typical_p: float = 1.0
    epsilon_cutoff: float = 0.0
    eta_cutoff: float = 0.0
    renormalize_logits: bool = False
    # several tokens a step
    prompt_lookup_num_tokens: int | None = None  # drafts copied from the text
    max_matching_ngram_size: int = 2  # longest n-gram that is looked up
    num_assistant_tokens: int = 20  # most drafts of assistant_model
    num_assistant_tokens_schedule: str = "constant"
    assistant_confidence_threshold: float = 0.4  # a draft ends after a less likely token
    # repetition; the encoder_ options compare with the source
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    encoder_repetition_penalty: float = 1.0
    encoder_no_repeat_ngram_size: int = 0
    presence_penalty: float = 0.0  # this and the next as OpenAI defines them, over new tokens
    frequency_penalty: float = 0.0
    # biased, banned and forced tokens
    sequence_bias: dict[tuple[int, ...], float] = field(default_factory=dict)
    logit_bias: dict[int, float] = field(default_factory=dict)  # not in transformers; for single tokens
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    forced_bos_token_id: int | None = None
    forced_eos_token_id: tuple[int, ...] = ()
    exponential_decay_length_penalty: tuple[int, float] | None = None  # first new token, factor
    remove_invalid_values: bool = False
    # constrained decoding by llguidance: at most one; not in transformers
    json_schema: dict | None = None  # or its JSON text
    regex: str | None = None  # of the whole text
    grammar: str | None = None  # in Lark's notation
    # special tokens
    bos_token_id: int | None = None
    eos_token_id: tuple[int, ...] = ()
    pad_token_id: int | None = None
    decoder_start_token_id: int | None = None
    ignored: tuple[str, ...] = ()

    @property
    def pad(self) -> int:
        """The padding token: pad_token_id, or an end of sequence, or 0."""
        return (*self.eos_token_id, 0)[0] if self.pad_token_id is None else self.pad_token_id

    @property
    def decoder_start(self) -> int | None:
        """The first token of an encoder-decoder's decoder: decoder_start_token_id, or bos_token_id."""
        return self.bos_token_id if self.decoder_start_token_id is None else self.decoder_start_token_id

    def updated(self, **options: Any) -> "GenerationConfig":
        """A copy with the `options` replaced; None turns an option off.

        A `temperature` of 0 means greedy search, as in most other programs; transformers refuses it. Warns of
        options that have no effect without another. Raises InputError for unknown names, and for values that
        are out of range or in conflict.
        """
        for name in options:
            if name not in DEFAULTS:
                raise InputError(_unknown(name))
        values = {k: OFF[k] if value is None else read_option(k, value) for k, value in options.items()}
        if values.get("temperature") == 0 and not values.get("do_sample"):
            values |= {"temperature": OFF["temperature"], "do_sample": False}
        config = replace(self, **values)
        _check(config, options)
        for names, needed, there in (
            (SAMPLING, "do_sample=True", config.do_sample),
            (BEAMS, "num_beams above 1", config.num_beams > 1),
            (GROUPS, "num_beam_groups above 1", config.num_beam_groups > 1),
            (LOOKUP, "prompt_lookup_num_tokens", config.prompt_lookup_num_tokens is not None),
        ):
            idle = [name for name, value in values.items() if name in names and value != OFF[name]]
            if idle and not there:
                warn(f"{', '.join(idle)} changes nothing without {needed}")
        for name, other, unset in (
            ("max_new_tokens", "max_length", None),
            ("min_new_tokens", "min_length", 0),
        ):
            first, second = getattr(config, name), getattr(config, other)
            if first is not None and second != unset:
                warn(f"{name}={first} overrides {other}={second}, which is ignored")
        return config


def read_generation_config(folder: Path) -> GenerationConfig:
    """Read generation_config.json, or config.json if there is none, as transformers does.

    Raises BundleError for a damaged file and for values out of range, except those of sampling options while
    do_sample is false.
    """
    path, config = folder / "generation_config.json", read_json(folder / "config.json", missing={})
    settings = read_json(path) if path.is_file() else config
    values = {key: value for key, value in settings.items() if value is not None}
    if config.get("force_bos_token_to_be_generated"):  # BART's name for it in files of 2020
        values.setdefault("forced_bos_token_id", config.get("bos_token_id", -1))
    ignored = [f"{k}={values[k]}" for k, idle in UNSUPPORTED.items() if k in values and values[k] not in idle]
    known = [name for name in DEFAULTS if name in values and name not in OURS]
    try:
        result = GenerationConfig(**{k: read_option(k, values[k]) for k in known}, ignored=tuple(ignored))
        _check(result)
    except InputError as error:
        raise BundleError(f"{folder}: {error}") from None
    return result


CONSTRAINTS = ("json_schema", "regex", "grammar")
DEFAULTS = {name: value for name, value in vars(GenerationConfig()).items() if name != "ignored"}
OFF = DEFAULTS | {"top_k": 0}
OURS = {
    "seed",
    "logit_bias",
    "presence_penalty",
    "frequency_penalty",
    *CONSTRAINTS,
}  # not read from files: transformers has none of these settings
BEAMS = {"early_stopping", "length_penalty"}
GROUPS = {"diversity_penalty"}
LOOKUP = {"max_matching_ngram_size"}
SAMPLING = {"temperature", "top_h", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"}
# Unsupported options of transformers, and their values that have no effect.
UNSUPPORTED: dict[str, tuple] = {
    "penalty_alpha": (0,),
    "guidance_scale": (1,),
    "watermarking_config": ({},),
    "constraints": ([],),
    "force_words_ids": ([],),
    "forced_decoder_ids": ([],),
    "dola_layers": (),
    "token_healing": (False,),
    "assistant_early_exit": (),
    "use_mtp": (False,),
    "max_time": (),
}


OTHER_NAMES = {  # names in other programming interfaces
    "stop": "stop_strings",
    "stop_sequences": "stop_strings",
    "max_tokens": "max_new_tokens",
    "n": "num_return_sequences",
    "best_of": "num_beams",
    "beam_size": "num_beams",
    "random_seed": "seed",
}


def _unknown(name: str) -> str:
    if name in UNSUPPORTED:
        return f"option '{name}' is not supported"
    if name in OTHER_NAMES:
        return f"no option '{name}'; did you mean {OTHER_NAMES[name]}?"
    return f"no option '{name}'{did_you_mean(name, DEFAULTS)}"


def _check(config: GenerationConfig, explicit: Collection[str] = ()) -> None:
    """Raise InputError for values out of range; of SAMPLING, if do_sample is true or they are `explicit`."""
    for name in DEFAULTS:
        if config.do_sample or name not in SAMPLING or name in explicit:
            check_option(name, getattr(config, name))
    for name in ("num_beams", "num_return_sequences"):
        if getattr(config, name) > SEQUENCES:
            raise InputError(f"{name} is {shown(getattr(config, name))}, expected at most {SEQUENCES}")
    beams, groups, several = config.num_beams, config.num_beam_groups, config.num_return_sequences
    if several > beams and not (config.do_sample and beams == 1):
        raise InputError(
            f"num_return_sequences is {several}, expected at most num_beams={beams}, or do_sample=True alone"
        )
    if beams % groups:
        raise InputError(f"num_beam_groups is {groups}, expected a divisor of num_beams={beams}")
    if beams > 1 and config.prompt_lookup_num_tokens is not None:
        raise InputError(f"num_beams is {beams}, expected 1 with prompt_lookup_num_tokens")
    if groups > 1 and config.do_sample:
        raise InputError(f"num_beam_groups is {groups}, expected 1 with do_sample=True")
    if groups > 1 and not config.diversity_penalty:
        raise InputError(f"diversity_penalty is 0.0, expected a number above 0 with num_beam_groups={groups}")
    constraints = [name for name in CONSTRAINTS if getattr(config, name) is not None]
    if len(constraints) > 1:
        raise InputError(f"{' and '.join(constraints)} are given, expected one of them")
    for name in ("forced_bos_token_id", "forced_eos_token_id"):
        forced = getattr(config, name)
        tokens = {forced} - {None} if not isinstance(forced, tuple) else set(forced)
        if tokens and tokens <= set(config.suppress_tokens):
            raise InputError(f"{name} is {forced}, expected a token that suppress_tokens does not rule out")
