"""Decoders: a graph of one step over a growing cache, in the contract of the graphs for other clients."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
import transformers
from transformers.exporters.utils import get_leaf_tensors
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from txexport.checkpoints import transformers_loading
from txexport.contracts import Port, cache_names, names
from txexport.contracts.stage import STEP, GraphFacts, Stage, sources_of
from txexport.errors import UnsupportedError, shown
from txexport.verification.traced import cases, inputs
from txexport.verification.traced.inputs import Facts, Layout, fill
from txexport.verification.traced.originals import Original, quiet
from txexport.verification.traced.reasons import reason_of
from txexport.verification.traced.tracing import dims, exported, input_name, output_name

ROWS, PAST, NEW = 2, 7, 5  # sizes of the trace
LIMIT = "decoder"  # the name of a decoder's limit in the manifest
CACHED = "past_key_values"  # an argument of the class, newer ones call it cache and take this name too
PARTS = {"self_attention_cache": cache_names.DECODER, "cross_attention_cache": cache_names.ENCODER}
TOKENS: Layout = {names.INPUT_IDS: ("rows", "tokens"), names.ATTENTION_MASK: ("rows", "tokens")}


def is_decoder(original: Original) -> bool:
    """Tell whether the class generates from tokens alone, without images or sounds, over a cache."""
    causal = {
        one
        for classes in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
        for one in ([classes] if isinstance(classes, str) else classes)
    }
    wanted = {names.INPUT_IDS, names.ATTENTION_MASK, names.POSITION_IDS}
    takes_cache = transformers_loading.cache_parameter(original.arguments) is not None
    is_causal = original.architecture in causal and not original.placeholders
    return is_causal and wanted <= {*original.arguments} and takes_cache


def prompt(facts: Facts, rows: int, tokens: int, seed: int, padded: str | None) -> dict[str, np.ndarray]:
    """Seeded ids, mask and positions (rows, tokens); rows but the first have padding where `padded` says.

    That is at the left, or in the middle, as of prompts that were padded at the right and continued.
    """
    values = fill(TOKENS, {"rows": rows, "tokens": tokens}, facts, seed, padded == "left")
    if padded == "left":
        values = {name: array[:, ::-1].copy() for name, array in values.items()}
    mask = values[names.ATTENTION_MASK]
    if padded == "middle":
        for row in range(1, rows):
            mask[row, tokens // 2 - row : tokens // 2] = 0
    return values | {names.POSITION_IDS: np.maximum(mask.cumsum(1) - 1, 0)}


def source_values(
    original: Original, rows: int, tokens: int, seed: int, ragged: bool
) -> dict[str, np.ndarray]:
    """Seeded inputs of an encoder: `tokens` of a text and their mask, or a signal of the model's size.

    Raises UnsupportedError if the encoder reads something else.
    """
    main = original.model.main_input_name
    named = [main, *([names.ATTENTION_MASK] if main == names.INPUT_IDS else [])]
    changed = {inputs.BATCH: rows, inputs.SEQUENCE: tokens}
    for layout in inputs.layouts(named) if main in inputs.AXES else ():
        for one in (base | changed for base in cases.every_base(original)):
            if _encodes(original, layout, one):
                return fill(layout, one, original.facts, seed, ragged)
    raise UnsupportedError(f"{original.architecture} does not encode {shown(main)} alone")


def _encodes(original: Original, layout: Layout, sizes: Mapping[str, int]) -> bool:
    """Tell whether the encoder runs with inputs of this layout."""
    try:
        encoded(original, fill(layout, sizes, original.facts, 0, False))
    except Exception:  # whatever its modules raise for a wrong shape
        return False
    return True


def encoded(original: Original, source: Mapping[str, np.ndarray]) -> np.ndarray:
    """The last hidden states of the class's encoder for a source."""
    encoder = original.model.get_encoder()
    feeds = {name: torch.from_numpy(array) for name, array in source.items()}
    with torch.no_grad(), quiet():
        return encoder(**original.in_its_precision(feeds)).last_hidden_state.numpy()


def answered(
    original: Original, values: Mapping[str, np.ndarray], source: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Logits, keys and values of all tokens in one pass of the class, by the contract's names.

    With a `source`, the values are those of the decoder, and its keys and values have two parts.
    """
    feeds = {name: torch.from_numpy(array) for name, array in values.items()}
    cache: Any = transformers.DynamicCache()
    if source is not None:
        cache = transformers.EncoderDecoderCache(cache, transformers.DynamicCache())
        sources = {name: torch.from_numpy(array) for name, array in source.items()}
        feeds = original.in_its_precision(sources) | {"decoder_input_ids": feeds[names.INPUT_IDS]}
    outputs = original.forward(feeds | {CACHED: cache, "use_cache": True})
    return {names.LOGITS: outputs["logits"].numpy()} | {
        contract_name(name, cache_names.PRESENT): tensor.numpy()
        for name, tensor in get_leaf_tensors(cache).items()
    }


def traced_decoder(original: Original, opset: int) -> ir.Model:
    """The graph of a decoder's step. Raises UnsupportedError if it fails, or for states of other kinds."""
    values = prompt(original.facts, ROWS, PAST + NEW, 0, None)
    first = {name: torch.from_numpy(array[:, :PAST].copy()) for name, array in values.items()}
    cache = transformers.DynamicCache()
    try:
        original.forward(first | {CACHED: cache, "use_cache": True})
    except Exception as error:
        _refuse_states(original, first)
        raise UnsupportedError(
            f"{original.architecture} does not run: {reason_of(original, error)}"
        ) from None
    _refuse_states_of(original, cache)
    last = {name: torch.from_numpy(array[:, PAST:].copy()) for name, array in values.items()}
    last[names.ATTENTION_MASK] = torch.from_numpy(values[names.ATTENTION_MASK])
    model = exported(
        original.model, original.architecture, last | {CACHED: cache, "use_cache": True}, None, opset
    )
    _rename(model)
    return model


def _refuse_states(original: Original, feeds: Mapping[str, Any]) -> None:
    """Raise UnsupportedError if the class runs over a cache of its own layers, and for its states."""
    cache = transformers.DynamicCache(config=original.config)
    with suppress(Exception):
        original.forward({**feeds, CACHED: cache, "use_cache": True})
    _refuse_states_of(original, cache)


def _refuse_states_of(original: Original, cache: Any) -> None:
    """Raise UnsupportedError for a cache of other states than keys and values."""
    if strange := [name for name in get_leaf_tensors(cache) if not name.endswith((".keys", ".values"))]:
        raise UnsupportedError(
            f"{original.architecture} keeps '{strange[0]}' between steps, and a traced decoder can keep only "
            "keys and values"
        )


def _rename(model: ir.Model) -> None:
    """Give inputs, outputs and their dimensions the contract's names."""
    sizes = {
        names.INPUT_IDS: (names.BATCH_SIZE, names.SEQUENCE_LENGTH),
        names.POSITION_IDS: (names.BATCH_SIZE, names.SEQUENCE_LENGTH),
        names.ATTENTION_MASK: (names.BATCH_SIZE, names.TOTAL_SEQUENCE_LENGTH),
    }
    lengths = {cache_names.PAST: names.PAST_SEQUENCE_LENGTH, cache_names.PRESENT: names.TOTAL_SEQUENCE_LENGTH}
    for values, kind, name_of in (
        (model.graph.inputs, cache_names.PAST, input_name),
        (model.graph.outputs, cache_names.PRESENT, output_name),
    ):
        for value in values:
            name = name_of(value)
            if name in sizes:
                value.name, value.shape = name, ir.Shape(sizes[name])
            elif name == names.LOGITS:
                value.name, value.shape = name, ir.Shape([*sizes[names.INPUT_IDS], dims(value)[-1]])
            else:
                heads, width = heads_of(value)
                value.name = contract_name(name, kind)
                value.shape = ir.Shape([names.BATCH_SIZE, heads, lengths[kind], width])


def heads_of(value: ir.Value) -> tuple[int | str, int | str]:
    """The heads and width of keys or values (rows, heads, tokens, width). Raises UnsupportedError."""
    sizes = dims(value)
    if len(sizes) != 4:
        raise UnsupportedError(
            f"the exporter gives {shown(str(value.name))} {len(sizes)} dimensions, and keys and values have 4"
        )
    return sizes[1], sizes[3]


def contract_name(name: str, kind: str) -> str:
    """The contract's name of the keys or values that the library calls, such as cache.layers.0.keys."""
    *_, layer, what = name.split(".")
    part = next((part for cache, part in PARTS.items() if cache in name), None)
    return cache_names.pair(kind, layer, part)[what == "values"]


def stage_of(original: Original, inputs: list[Port], role: str) -> Stage:
    """A graph of these inputs as a stage that runs at every step."""
    facts = GraphFacts(vocab_size=original.facts.vocabulary, limit=LIMIT)
    return Stage(role, STEP, sources_of(inputs), facts)
