"""Configuration files for other clients, derived from the checkpoint's."""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from txexport.bundle import read_json
from txexport.checkpoints.tokenizer_conversion import TOKENIZER
from txexport.contracts import cache_names, names, roles
from txexport.errors import BundleError, CheckpointError, UnsupportedError
from txexport.exporter import triton
from txexport.exporter.bundle_plan import BundlePlan
from txexport.formats import DTYPES
from txexport.parts import input_of, signatures
from txexport.parts.inputs import reads_tokens
from txexport.spec import ModelSpec, StackSpec, TextStackSpec, VisionLanguageSpec

CONFIG, GENERATION, GENAI = "config.json", "generation_config.json", "genai_config.json"
PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
TOKENIZER_CONFIG, TRITON_CONFIG = "tokenizer_config.json", "config.pbtxt"

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
MULTI_QUERY = ("gpt_bigcode", "falcon")  # multi_query defaults to true
CONTEXT = 32768
# transformers.js' names of dtypes, whose files it knows by their suffixes.
JS_DTYPES = {
    "float32": "fp32",
    "stored": "fp32",
    "stored-fast": "fp32",
    "float16": "fp16",
    "int8": "int8",
    "int8-fast": "q8",
    "int4": "q4",
}
FRAMES = 3000
OF_ALL = ("architectures", "model_type", "vision_config", "text_config")  # of config.json, not of a decoder


def hub_files(own: Mapping[str, Path | bytes], plan: BundlePlan) -> dict[str, bytes]:
    """The derived files by name; `own` are the checkpoint's. Raises CheckpointError for a damaged one."""
    if CONFIG not in own:
        return {}
    contents = {name: _read(own[name]) for name in (CONFIG, GENERATION, PROCESSOR) if name in own}
    config = contents[CONFIG] if plan.translated is None else dict(plan.translated)  # clients know this name
    told = plan.translated is None and config.get("model_type") is not None
    config = config if told else config | {"model_type": plan.model_type}
    if not plan.hub:
        return {} if told else {CONFIG: _text(config)}
    files = {CONFIG: _config(config, plan)}
    generation = contents.get(GENERATION, contents[CONFIG])
    genai = _genai_settings(plan, contents[CONFIG], generation)
    if genai is not None:
        files[GENAI] = genai
    inner = contents.get(PROCESSOR, {})
    processor = inner.get("image_processor", inner.get("feature_extractor"))
    if PREPROCESSOR not in own and isinstance(processor, dict):
        joins = any(one.role == roles.EMBED_TOKENS for one in plan.hub) and "processor_class" in inner
        files[PREPROCESSOR] = processor | ({"processor_class": inner["processor_class"]} if joins else {})
    if TOKENIZER in own and TOKENIZER_CONFIG not in own:
        files[TOKENIZER_CONFIG] = {}  # transformers.js requires it
    texts = {name: _text(content) for name, content in files.items()}
    if plan.options.client == roles.TRITON:
        for one in plan.hub:
            signature = signatures(plan.spec, one.contract)[one.role]
            name = PurePosixPath(one.path).parts[0]
            texts[f"{name}/{TRITON_CONFIG}"] = triton.config(name, signature).encode()
    return texts


def check_genai(spec: ModelSpec, task: str) -> None:
    """Raise UnsupportedError if onnxruntime-genai does not support the model."""
    decoder = spec.stacks.get("decoder")
    if decoder is None or len(spec.stacks) > 1:
        raise UnsupportedError(f"'genai' is for decoders only, not {task}; leave it out")
    if not _keeps_what_genai_knows(decoder):
        raise UnsupportedError(
            "'genai' needs keys and values, and of states knows those of convolutions alone; leave it out"
        )
    if not _keeps_one_size(decoder):
        raise UnsupportedError(
            "'genai' needs keys and values of one size in all layers, but this model has several; leave "
            "it out"
        )


def _keeps_what_genai_knows(decoder: StackSpec) -> bool:
    """Tell whether layers keep keys and values, and of states the last inputs of a convolution alone."""
    states = {kind for block in decoder.blocks for kind in block.states}
    return states <= {"conv"} and any(block.has_keys for block in decoder.blocks)


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
        graphs = {"type": config["model_type"], "decoder": session | _states(decoder)}
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


def _read(content: Path | bytes) -> dict[str, Any]:
    if isinstance(content, bytes):  # made here
        return json.loads(content)
    try:
        return read_json(content)
    except BundleError as error:
        raise CheckpointError(str(error)) from None


def _text(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def _config(config: dict[str, Any], plan: BundlePlan) -> dict[str, Any]:
    """The checkpoint's config.json, with settings of the graphs for transformers.js.

    By default it looks for eight-bit graphs in a browser, and for weights inside the graph. Settings of
    quantisation are removed, since they are about tensors that a bundle does not have. With multi_query, it
    looks for keys and values in one tensor, which other clients do not know, so multi_query is removed. It
    knows the kinds of layers with state spaces by their older names.
    """
    config = {name: value for name, value in config.items() if name != "quantization_config"}
    if config.get("model_type") in MULTI_QUERY and config.get("multi_query") is True:
        del config["multi_query"]
    if isinstance(plan.spec, VisionLanguageSpec) and plan.spec.axes:
        config = _in_both_forms(config, plan.model_type, plan.spec.decoder)
    decoder = plan.spec.stacks.get("decoder")
    states = [block.states for block in decoder.layers] if decoder is not None else []
    if "layer_types" in config and any("ssm" in each for each in states):
        config["layer_types"] = ["mamba" if each else "attention" for each in states]
    files = {PurePosixPath(one.path).name: 1 for one in plan.hub if roles.data_path(one.path) in plan.data}
    known = [JS_DTYPES[dtype] for dtype in plan.options.dtypes if dtype in JS_DTYPES]
    settings: dict[str, Any] = {"dtype": next(iter(known), "fp32")}
    if not plan.options.single_file:
        settings["use_external_data_format"] = files
    return config | {"transformers.js_config": settings}


def _in_both_forms(config: dict[str, Any], model_type: str, decoder: TextStackSpec) -> dict[str, Any]:
    """A config.json whose decoder is described in text_config, with its sizes at the root too.

    transformers.js looks for Qwen2-VL's sizes at the root, as older files have them, and for Qwen2.5-VL's in
    text_config, as newer ones do, whichever form a file has.
    """
    kind = decoder.blocks[0].masked
    sizes = {
        "hidden_size": decoder.hidden_size,
        "num_hidden_layers": decoder.num_layers,
        "num_attention_heads": kind.num_heads,
        "num_key_value_heads": kind.cache_shapes[0][0],
    }
    text = {name: value for name, value in config.items() if name not in OF_ALL}
    return {**sizes, "text_config": {**text, "model_type": f"{model_type}_text"}, **config}


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


def _states(decoder: TextStackSpec) -> dict[str, Any]:
    """The kinds of layers, the size of a convolution's last inputs, and those of keys and values."""
    attention = next(block.dense for block in decoder.layers if block.has_keys)
    kernel = next(block.states["conv"][1] for block in decoder.layers if "conv" in block.states)
    return {
        "layer_types": ["conv" if block.states else "full_attention" for block in decoder.layers],
        "conv_cache_size": kernel,
        "hidden_size": decoder.hidden_size,
        "num_hidden_layers": decoder.num_layers,
        "num_attention_heads": attention.num_heads,
        "num_key_value_heads": attention.num_kv_heads,
        "head_size": attention.head_dim,
        "inputs": {"past_conv_names": f"{cache_names.PAST_STATES[0]}%d"},
        "outputs": {"present_conv_names": f"{cache_names.PRESENT_STATES[0]}%d"},
    }


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
