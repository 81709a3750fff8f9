"""Configuration files for other clients, derived from the checkpoint's."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from txexport import families
from txexport.bundle import read_json
from txexport.checkpoints.tokenizer_conversion import TOKENIZER
from txexport.contracts import roles
from txexport.errors import BundleError, CheckpointError
from txexport.exporter import triton
from txexport.exporter.bundle_plan import BundlePlan
from txexport.exporter.genai import genai_files
from txexport.parts import signatures
from txexport.spec import TextStackSpec, VisionLanguageSpec

CONFIG, GENERATION = "config.json", "generation_config.json"
PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
TOKENIZER_CONFIG, TRITON_CONFIG = "tokenizer_config.json", "config.pbtxt"
MULTI_QUERY = ("gpt_bigcode", "falcon")  # multi_query defaults to true
# Their sizes are at the root of config.json in older files, and in text_config in newer ones.
BOTH_FORMS = ("qwen2_vl", "qwen2_5_vl")
LISTS_ALL_LAYERS = "nemotron_h"  # its list of layers includes feed-forward layers, which keep nothing
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
    inner = contents.get(PROCESSOR, {})
    processor = inner.get("image_processor", inner.get("feature_extractor"))
    images = partial(_image_processor, own, inner)
    files |= genai_files(plan, contents[CONFIG], generation, images)
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


def _image_processor(files: Mapping[str, Path | bytes], inner: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the image processor, those `inner` to the file of all processors first."""
    settings = inner.get("image_processor") or (_read(files[PREPROCESSOR]) if PREPROCESSOR in files else {})
    return settings if isinstance(settings, dict) else {}


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
    knows layers with state spaces by their older names. A layer's place in `layer_types` is the number in the
    names of its states.
    """
    config = {name: value for name, value in config.items() if name != "quantization_config"}
    if config.get("model_type") in MULTI_QUERY and config.get("multi_query") is True:
        del config["multi_query"]
    if isinstance(plan.spec, VisionLanguageSpec) and plan.model_type in BOTH_FORMS:
        config = _in_both_forms(config, plan.model_type, plan.spec.decoder)
    if getattr(plan.spec, "several_axes", False) and "text_config" in config:
        config = _of_text_model(config, plan.model_type)
    decoder = plan.spec.stacks.get("decoder")
    states = [block.states for block in decoder.layers] if decoder is not None else []
    listed = "layer_types" in config or plan.model_type == LISTS_ALL_LAYERS
    if listed and any("ssm" in each for each in states):
        config["layer_types"] = ["mamba" if each else "attention" for each in states]
    files = {PurePosixPath(one.path).name: 1 for one in plan.hub if roles.data_path(one.path) in plan.data}
    known = [JS_DTYPES[dtype] for dtype in plan.options.dtypes if dtype in JS_DTYPES]
    settings: dict[str, Any] = {"dtype": next(iter(known), "fp32")}
    if not plan.options.single_file:
        settings["use_external_data_format"] = files
    return config | {"transformers.js_config": settings}


def _of_text_model(config: dict[str, Any], model_type: str) -> dict[str, Any]:
    """The config.json of the text model. With that of the whole model, transformers.js opens other graphs."""
    outer = {name: value for name, value in config.items() if name not in OF_ALL}
    [architecture, *_] = families.module(model_type).TASKS["text-generation"]
    inner = {"model_type": f"{model_type}_text", **config["text_config"]}
    return {**outer, **inner, "architectures": [architecture]}


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
