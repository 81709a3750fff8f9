"""The settings of onnxruntime-genai, genai_config.json, and what it supports."""

from collections.abc import Callable, Mapping
from typing import Any

from txexport.contracts import cache_names, names, roles
from txexport.errors import UnsupportedError
from txexport.exporter.bundle_plan import BundlePlan
from txexport.exporter.genai_images import PROCESSOR, image_graphs, image_processor
from txexport.formats import DTYPES
from txexport.parts import input_of
from txexport.parts.inputs import reads_tokens
from txexport.spec import ModelSpec, StackSpec, TextStackSpec, VisionLanguageSpec

GENAI = "genai_config.json"
# onnxruntime-genai 0.18: the settings of generation_config.json that it takes, its longest context
# for a model without a limit, and the only length of sounds that it makes spectrograms of.
SEARCH: dict[str, tuple[type, ...]] = {
    "do_sample": (bool,),
    "early_stopping": (bool,),
    **dict.fromkeys(("min_length", "max_length", "no_repeat_ngram_size", "num_beams", "top_k"), (int,)),
    **dict.fromkeys(("num_return_sequences",), (int,)),
    **dict.fromkeys(("length_penalty", "repetition_penalty", "temperature", "top_p"), (int, float)),
    "diversity_penalty": (int, float),
}
CONTEXT = 32768
FRAMES = 3000
CONV = cache_names.STATES[0]


def check_genai(spec: ModelSpec, task: str) -> None:
    """Raise UnsupportedError if onnxruntime-genai does not support the model."""
    decoder = spec.stacks.get("decoder")
    if decoder is None or len(spec.stacks) > 1:
        raise UnsupportedError(f"'genai' is for decoders only, not {task}; leave it out")
    if not _keeps_what_genai_knows(decoder):
        raise UnsupportedError(
            "'genai' knows the states of a convolution and of one recurrence in a layer, but this model has "
            "others; leave it out"
        )
    if not _keeps_one_size(decoder):
        raise UnsupportedError(
            "'genai' needs keys and values of one size in all layers, but this model has several; leave "
            "it out"
        )


def _keeps_what_genai_knows(decoder: StackSpec) -> bool:
    """Tell whether it can name the states: those of a convolution, with or without one recurrence.

    Where there are only convolutions, it also needs a layer with keys and values.
    """
    kinds = {frozenset(block.states) for block in decoder.blocks if block.states}
    if len(kinds) != 1:
        return not kinds
    (states,) = kinds
    if states == {CONV}:
        return any(block.has_keys for block in decoder.blocks)
    return CONV in states and len(states) == 2


def genai_files(
    plan: BundlePlan,
    config: Mapping[str, Any],
    generation: Mapping[str, Any],
    images: Callable[[], dict[str, Any]],
) -> dict[str, dict[str, Any]]:
    """Its settings by file; none for a model that it does not run. `images` reads an image processor's."""
    if any(one.role == roles.EMBEDDING for one in plan.hub):
        processor = image_processor(images(), plan.model_type)
        return {} if processor is None else {GENAI: _pictured(plan, config, generation), PROCESSOR: processor}
    settings = _genai_settings(plan, config, generation)
    return {} if settings is None else {GENAI: settings}


def _pictured(plan: BundlePlan, config: Mapping[str, Any], generation: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a decoder that reads images among its tokens.

    It masks every token of a prompt with the id of padding, which the original does not. So padding is the
    token of videos, which no prompt contains.
    """
    assert isinstance(plan.spec, VisionLanguageSpec)
    files: dict[str, str] = {}
    for one in plan.hub:
        files.setdefault(one.role, one.path)
    decoder, stack = plan.spec.decoder, _sizes(plan.spec.decoder)
    if decoder.stateful:
        stack, generation = stack | _states(decoder, _kinds_of_states(decoder)), _without_beams(generation)
    graphs = image_graphs(plan.spec, plan.model_type, config, files, _session(plan), stack)
    padding = {"pad_token_id": graphs["video_token_id"]}
    return _genai(decoder, {**generation, **padding}, graphs)


def _without_beams(generation: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without num_beams: its beam search does not reorder the states of a recurrence."""
    return {name: value for name, value in generation.items() if name != "num_beams"}


def _genai_settings(
    plan: BundlePlan, config: Mapping[str, Any], generation: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The settings of onnxruntime-genai; None for a model that it does not run."""
    encoder, decoder = plan.spec.stacks.get("encoder"), plan.spec.stacks.get("decoder")
    if decoder is None or not plan.spec.generates or not reads_tokens(decoder):
        return None
    if encoder is not None:
        known = plan.native and _is_whisper(encoder)
        return _genai(decoder, generation, _whisper(encoder, decoder, plan)) if known else None
    if not _keeps_one_size(decoder) or len(plan.spec.stacks) > 1:  # one that reads images among its tokens
        return None
    if not _keeps_what_genai_knows(decoder):
        return None
    shared = any(one.role == roles.SHARED for one in plan.hub)
    file = _file(plan, roles.SHARED if shared else roles.MODEL)
    session: dict[str, Any] = {"filename": file, **_session(plan)}
    graphs: dict[str, Any] = {"type": "decoder", "decoder": session}
    if decoder.stateful:
        kinds = _kinds_of_states(decoder)
        recurs = len(kinds) > 1
        kind = "decoder" if recurs else config["model_type"]  # LFM2 has a class of its own
        graphs = {"type": kind, "decoder": session | _sizes(decoder) | _states(decoder, kinds)}
        if recurs:
            generation = _without_beams(generation)
    settings = _genai(decoder, generation, graphs, shared)
    if not shared and _has_long_factors(decoder):
        settings["model"]["context_length"] = config["max_position_embeddings"]
    return settings


def _is_whisper(encoder: StackSpec) -> bool:
    """Tell whether an encoder reads spectrograms of the size that onnxruntime-genai makes."""
    port, *_ = input_of(encoder).ports(encoder, (names.BATCH_SIZE, names.SEQUENCE_LENGTH))
    return port.name == names.INPUT_FEATURES and port.shape[2] == FRAMES


def _keeps_one_size(decoder: StackSpec) -> bool:
    """Tell whether keys and values have one size in all layers, as onnxruntime-genai requires."""
    shapes = {block.masked.cache_shapes for block in decoder.blocks if block.attends}
    return len(shapes) <= 1 and all(keys == values for keys, values in shapes)


def _has_long_factors(decoder: StackSpec) -> bool:
    """Tell whether the graph with a growing cache continues beyond our limit, by LongRoPE's long factors."""
    rotaries = (block.masked.rotary for block in decoder.blocks if block.has_keys)
    return any(rotary is not None and rotary.long_frequencies for rotary in rotaries)


def _genai(
    decoder: TextStackSpec,
    generation: Mapping[str, Any],
    graphs: dict[str, Any],
    shared: bool = False,
) -> dict[str, Any]:
    """The settings of onnxruntime-genai, whose prompts are padded on the right.

    With a `shared` buffer it allocates `max_length` tokens at once, and has no beam search.
    """
    context = decoder.limit or CONTEXT
    model = {"vocab_size": decoder.embedding.vocab_size, "context_length": context, **graphs}
    for name in ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"):
        if _is_id(generation.get(name)):
            model[name] = generation[name]
    search = {
        name: generation[name]
        for name, kinds in SEARCH.items()
        if isinstance(generation.get(name), kinds) and (bool in kinds) == isinstance(generation[name], bool)
    }
    if "max_length" in search:
        search["max_length"] = min(search["max_length"], context)
    return {"model": model, "search": {**search, "past_present_share_buffer": shared}}


def _is_id(value: object) -> bool:
    """Tell whether a setting is a token id or a list of token ids."""
    ids = value if isinstance(value, list) and value else [value]
    return all(type(one) is int and one >= 0 for one in ids)


def _kinds_of_states(decoder: TextStackSpec) -> list[str]:
    """The kinds of states, which all layers with states have in common; the convolution comes first."""
    states = next(block.states for block in decoder.layers if block.states)
    return sorted(states, key=cache_names.STATES.index)


def _sizes(decoder: TextStackSpec) -> dict[str, Any]:
    """The sizes of the stack, and of its keys and values; 1 for each of these where no layer has any."""
    attends = next((block.dense for block in decoder.layers if block.has_keys), None)
    heads = (attends.num_heads, attends.num_kv_heads, attends.head_dim) if attends else (1, 1, 1)
    named = zip(("num_attention_heads", "num_key_value_heads", "head_size"), heads, strict=True)
    return {"hidden_size": decoder.hidden_size, "num_hidden_layers": decoder.num_layers, **dict(named)}


def _states(decoder: TextStackSpec, kinds: list[str]) -> dict[str, Any]:
    """The names of the states. For LFM2, also the kind of each layer and the size of the convolution."""
    names_there = ("conv", "recurrent")[: len(kinds)]
    past, present = (
        cache_names.states(time, "%d", kinds) for time in (cache_names.PAST, cache_names.PRESENT)
    )
    ports = {
        "inputs": {f"past_{name}_names": port for name, port in zip(names_there, past, strict=True)},
        "outputs": {f"present_{name}_names": port for name, port in zip(names_there, present, strict=True)},
    }
    if len(kinds) > 1:
        return ports
    kernel = next(block.states[CONV][1] for block in decoder.layers if CONV in block.states)
    layers = ["conv" if block.states else "full_attention" for block in decoder.layers]
    return {"layer_types": layers, "conv_cache_size": kernel, **ports}


def _file(plan: BundlePlan, role: str) -> str:
    return next(one.path for one in plan.hub if one.role == role)


def _session(plan: BundlePlan) -> dict[str, Any]:
    """The options of its sessions; by default they round activations of products with blocks of integers."""
    dtype = DTYPES[plan.options.dtypes[0]]
    return {"session_options": dict(dtype.session_options)} if dtype.blocks else {}


def _whisper(encoder: StackSpec, decoder: StackSpec, plan: BundlePlan) -> dict[str, Any]:
    """The settings of an encoder with the keys of cross-attention, and a decoder that continues any past."""
    attention = decoder.layers[0].dense
    file = next(one.path for one in plan.native if one.role == roles.ENCODER)
    own, cross = (
        {
            kind: dict(zip(("key", "value"), cache_names.pair(kind, "%d", part), strict=True))
            for kind in (cache_names.PAST, cache_names.PRESENT)
        }
        for part in (cache_names.DECODER, cache_names.ENCODER)
    )
    return {
        "type": "whisper",
        "encoder": {
            "filename": file,
            **_session(plan),
            "hidden_size": encoder.hidden_size,
            "num_hidden_layers": encoder.num_layers,
            "num_attention_heads": encoder.layers[0].dense.num_heads,
            "head_size": encoder.layers[0].dense.head_dim,
            "inputs": {"audio_features": names.INPUT_FEATURES},
            "outputs": {
                names.ENCODER_HIDDEN_STATES: names.LAST_HIDDEN_STATE,
                "cross_present_key_names": cross[cache_names.PRESENT]["key"],
                "cross_present_value_names": cross[cache_names.PRESENT]["value"],
            },
        },
        "decoder": {
            "filename": _file(plan, roles.DECODER_WITH_PAST),
            **_session(plan),
            "hidden_size": decoder.hidden_size,
            "num_hidden_layers": decoder.num_layers,
            "num_attention_heads": attention.num_heads,
            "num_key_value_heads": attention.num_kv_heads,
            "head_size": attention.head_dim,
            "inputs": {
                "input_ids": names.INPUT_IDS,
                "past_key_names": own[cache_names.PAST]["key"],
                "past_value_names": own[cache_names.PAST]["value"],
                "cross_past_key_names": cross[cache_names.PAST]["key"],
                "cross_past_value_names": cross[cache_names.PAST]["value"],
            },
            "outputs": {
                "logits": names.LOGITS,
                "present_key_names": own[cache_names.PRESENT]["key"],
                "present_value_names": own[cache_names.PRESENT]["value"],
            },
        },
    }
