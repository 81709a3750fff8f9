"""Encoder-decoders of texts: a graph that reads the source once, and one of a step over a growing cache."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
import transformers
from onnx_ir.passes.common import RemoveUnusedNodesPass
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES

from txexport.checkpoints import transformers_loading
from txexport.contracts import cache_names, names, roles
from txexport.contracts.stage import GENERATED, ONCE, STEP, GraphFacts, Stage, sources_of
from txexport.errors import UnsupportedError, first_line
from txexport.runtime.model import Model
from txexport.verification.checks import TensorCheck
from txexport.verification.traced import steps
from txexport.verification.traced.decoders import (
    CACHED,
    LIMIT,
    contract_name,
    heads_of,
    prompt,
    source_values,
)
from txexport.verification.traced.originals import Original
from txexport.verification.traced.steps import StepCase
from txexport.verification.traced.tracing import dims, exported, input_name, output_name

SOURCE, PAST, NEW = 11, 7, 5  # sizes of the trace
ROWS = 2
ENCODER_LIMIT = "encoder"
HIDDEN = "encoder_outputs.last_hidden_state"  # an input that no step reads
SIZES: dict[str, tuple[str, ...]] = {
    names.INPUT_IDS: (names.BATCH_SIZE, names.SEQUENCE_LENGTH),
    names.ENCODER_ATTENTION_MASK: (names.BATCH_SIZE, names.ENCODER_SEQUENCE_LENGTH),
}


def is_sequence(original: Original) -> bool:
    """Tell whether the class writes a text from another one, over a cache."""
    every = MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.values()
    classes = {one for names_ in every for one in ([names_] if isinstance(names_, str) else names_)}
    takes_cache = transformers_loading.cache_parameter(original.arguments) is not None
    reads_text = original.config.is_encoder_decoder and original.model.main_input_name == names.INPUT_IDS
    return original.architecture in classes and takes_cache and reads_text


class _Source(torch.nn.Module):
    """A class as a function from a source to its hidden states and the keys and values of cross-attention."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """Hidden states (rows, tokens, D); keys and values (rows, heads, tokens, H) of each layer."""
        cache = _empty_cache()
        feeds = {"input_ids": input_ids, "attention_mask": attention_mask}
        outputs = self.model(**feeds, decoder_input_ids=input_ids[:, :1], **{CACHED: cache}, use_cache=True)
        result = {names.LAST_HIDDEN_STATE: outputs.encoder_last_hidden_state}
        for place, layer in enumerate(cache.cross_attention_cache.layers):
            keys, values = (f"{what}{place}" for what in ("keys", "values"))
            result |= {keys: layer.keys, values: layer.values}
        return result


def _empty_cache() -> Any:
    return transformers.EncoderDecoderCache(transformers.DynamicCache(), transformers.DynamicCache())


def traced_sequence(original: Original, opset: int) -> dict[str, ir.Model]:
    """The two graphs by role. Raises UnsupportedError where the class or the exporter fails."""
    source = {
        name: torch.from_numpy(array)
        for name, array in source_values(original, ROWS, SOURCE, 0, False).items()
    }
    reader = exported(_Source(original.model).eval(), original.architecture, source, None, opset)
    _name_source(reader)
    tokens = torch.from_numpy(prompt(original.facts, ROWS, PAST + NEW, 0, None)[names.INPUT_IDS])
    cache = _empty_cache()
    before = {"decoder_input_ids": tokens[:, :PAST].clone(), CACHED: cache, "use_cache": True}
    try:
        outputs = original.forward(source | before)
    except Exception as error:
        raise UnsupportedError(f"{original.architecture} does not run: {first_line(error)}") from None
    hidden = BaseModelOutput(last_hidden_state=torch.zeros_like(outputs["encoder_last_hidden_state"]))
    last = {names.ATTENTION_MASK: source[names.ATTENTION_MASK], "encoder_outputs": hidden}
    last |= before | {"decoder_input_ids": tokens[:, PAST:].clone()}
    step = exported(original.model, original.architecture, last, None, opset)
    _name_step(step, original)
    return {roles.ENCODER: reader, roles.DECODER: step}


def _name_source(model: ir.Model) -> None:
    """Give the source's graph the contract's names."""
    shape = (names.BATCH_SIZE, names.ENCODER_SEQUENCE_LENGTH)
    for value in model.graph.inputs:
        value.shape = ir.Shape(shape)
    for place, value in enumerate(model.graph.outputs):
        if place == 0:
            value.name, value.shape = names.LAST_HIDDEN_STATE, ir.Shape([*shape, dims(value)[-1]])
            continue
        layer, what = divmod(place - 1, 2)
        heads, width = heads_of(value)
        value.name = cache_names.present(layer, cache_names.ENCODER)[what]
        value.shape = ir.Shape([shape[0], heads, shape[1], width])


def _name_step(model: ir.Model, original: Original) -> None:
    """Give a step's graph the contract's names, without what no step reads or changes."""
    graph = model.graph
    graph.outputs[:] = [
        value
        for value in graph.outputs
        if output_name(value) == names.LOGITS or "self_attention_cache" in output_name(value)
    ]
    RemoveUnusedNodesPass()(model)
    if any(input_name(value) == HIDDEN and value.uses() for value in graph.inputs):
        raise UnsupportedError(f"{original.architecture}: a step reads the encoder's hidden states again")
    graph.inputs[:] = [value for value in graph.inputs if input_name(value) != HIDDEN]
    renamed = {"decoder_input_ids": names.INPUT_IDS, names.ATTENTION_MASK: names.ENCODER_ATTENTION_MASK}
    lengths = {cache_names.PAST: names.PAST_SEQUENCE_LENGTH, cache_names.PRESENT: names.TOTAL_SEQUENCE_LENGTH}
    for values, kind, name_of in (
        (graph.inputs, cache_names.PAST, input_name),
        (graph.outputs, cache_names.PRESENT, output_name),
    ):
        for value in values:
            name = name_of(value)
            if name in renamed:
                value.name, value.shape = renamed[name], ir.Shape(SIZES[renamed[name]])
            elif name == names.LOGITS:
                value.name, value.shape = name, ir.Shape([*SIZES[names.INPUT_IDS], dims(value)[-1]])
            else:
                heads, width = heads_of(value)
                value.name = contract_name(name, kind)
                is_cross = cache_names.is_cross(value.name)
                tokens = names.ENCODER_SEQUENCE_LENGTH if is_cross else lengths[kind]
                value.shape = ir.Shape([names.BATCH_SIZE, heads, tokens, width])


def stages_of(original: Original, graphs: Mapping[str, Any]) -> list[Stage]:
    """The two graphs as stages, as of a family's encoder-decoder; `graphs` have their inputs and outputs."""
    facts = [GraphFacts(original.facts.vocabulary, limit=limit) for limit in (ENCODER_LIMIT, LIMIT)]
    reader, step = graphs[roles.ENCODER], graphs[roles.DECODER]
    from_encoder = {
        cache_names.to_past(port.name): f"{roles.ENCODER}.{port.name}"
        for port in reader.outputs
        if cache_names.is_present(port.name)
    }
    from_encoder[names.ENCODER_ATTENTION_MASK] = f"{roles.ENCODER}.{names.ATTENTION_MASK}"
    from_encoder[names.INPUT_IDS] = GENERATED
    return [
        Stage(roles.ENCODER, ONCE, sources_of(reader.inputs), facts[0]),
        Stage(roles.DECODER, STEP, sources_of(step.inputs, from_encoder), facts[1]),
    ]


def checks_of(original: Original, model: Model) -> dict[str, Callable[[], list[TensorCheck]]]:
    """Every case of a traced bundle that generates, by name, to be called."""
    return (sequence_checks if is_sequence(original) else steps.decoder_checks)(original, model)


def sequence_checks(original: Original, model: Model) -> dict[str, Callable[[], list[TensorCheck]]]:
    """Every case of an encoder-decoder by name, to be called."""

    def encode(source: Mapping[str, np.ndarray]) -> np.ndarray:
        return model.sessions[roles.ENCODER].run(source)[names.LAST_HIDDEN_STATE]

    checks: dict[str, Callable[[], list[TensorCheck]]] = {
        steps.RAGGED_ENCODER: partial(steps.encoder_judged, original, encode, True)
    }
    for case in steps.plan_with_source(original):
        checks[case.name] = partial(_step_check, original, model, case)
    return checks | steps.searches(original, model)


def _step_check(original: Original, model: Model, case: StepCase) -> list[TensorCheck]:
    """Logits, keys and values of a case, those of the source too."""
    source = source_values(original, case.rows, case.source, case.seed, case.ragged)
    read = model.sessions[roles.ENCODER].run(source)
    present = {name: array for name, array in read.items() if cache_names.is_present(name)}
    fixed = {cache_names.to_past(name): array for name, array in present.items()}
    fixed[names.ENCODER_ATTENTION_MASK] = source[names.ATTENTION_MASK]
    session = model.sessions[roles.DECODER]
    shapes = {name: port.shape for name, port in session.inputs.items() if not cache_names.is_cross(name)}

    def step(**values: np.ndarray) -> dict[str, np.ndarray]:
        return session.run({name: (values | fixed)[name] for name in session.inputs}) | present

    return steps.judged(original, step, case, steps.empty_cache(shapes), source)
