"""The original in the transformers library as a reference."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from txexport import families
from txexport.checkpoints import transformers_loading
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.image_size import Resized
from txexport.checkpoints.language import InLanguage
from txexport.checkpoints.stored import FLOATS, Stored
from txexport.contracts import cache_names
from txexport.contracts.names import (
    ALIGNMENT_WEIGHTS,
    ATTENTION_MASK,
    ATTENTIONS,
    CLASS_QUERIES_LOGITS,
    CROSS_ATTENTIONS,
    INPUT_IDS,
    INPUT_VALUES,
    LAST_HIDDEN_STATE,
    LOGITS,
    POOLER_OUTPUT,
    PRED_BOXES,
    PRED_MASKS,
    of_layer,
)
from txexport.errors import UnsupportedError, install
from txexport.families import Resolved
from txexport.parts import architecture_of
from txexport.spec import Architecture, VisionLanguageSpec
from txexport.tasks import row_of
from txexport.verification.counts import CACHES
from txexport.verification.references.caches import cache_of, cached, empty_cache
from txexport.verification.references.captioned import captioned
from txexport.verification.references.crossed import attended, with_image_mask
from txexport.verification.references.dequantised import DequantisedCheckpoint
from txexport.verification.references.expert_capacity import limits_experts, token_by_token
from txexport.verification.references.in_parts import in_parts
from txexport.verification.references.originals import (
    ids_of,
    in_order,
    kept_windows,
    of_layers,
    part_of,
    source_tensors,
    tensors,
)
from txexport.verification.references.pictured import by_prompt, kinds, pictured, source_pictures
from txexport.verification.references.precision import in_float64, perturbed
from txexport.verification.references.prompted import prompted
from txexport.verification.references.reference import Arrays, Pictures, Source

SHUFFLING = ("mask", "ids_restore")  # what an original that shuffles patches tells of their order


class Transformers:
    """The unpatched original in the transformers library."""

    name = "transformers"

    def __init__(self, checkpoint: Checkpoint, resolved: Resolved, outputs: Collection[str] = ()):
        try:
            import transformers
        except ImportError:
            raise UnsupportedError(
                f"the reference 'transformers' is not installed; {install('verify')}"
            ) from None
        spec = self.spec = resolved.spec
        self.centred = isinstance(checkpoint, DequantisedCheckpoint) and checkpoint.centred
        self.pooler = architecture_of(spec).vector_output(spec) is not None
        decoder = spec.stacks.get("decoder")
        layers = decoder.layers if decoder else ()
        self.kv_heads = [block.masked.cache_shapes[0][0] if block.has_keys else 0 for block in layers]
        self.windowed = any(block.has_keys and block.masked.window is not None for block in layers)
        self.new_cache, self.new_pair = transformers.DynamicCache, transformers.EncoderDecoderCache
        self.states = [tuple(block.states) for block in layers]
        row = row_of(resolved.task, resolved.spec.architecture)
        self.detects = "detect" in row.methods or Architecture.GROUNDED in row.architectures
        name = resolved.original or row.judge(resolved.model_type)
        self.layer_outputs = {f"output_{kind}": True for kind in outputs}
        self.alignment = spec.alignment
        self.arguments: dict[str, bool] = dict(self.layer_outputs)
        if isinstance(checkpoint, Resized) and checkpoint.interpolated:
            self.arguments = self.layer_outputs | {"interpolate_pos_encoding": True}
            checkpoint = checkpoint.whole
        language: dict[str, Any] = {}
        if isinstance(checkpoint, InLanguage) and _loads(checkpoint):
            language = {"target_lang": checkpoint.language, "ignore_mismatched_sizes": True}
            checkpoint = checkpoint.base
        attention = "eager" if ATTENTIONS in outputs or self.alignment else None
        config = _plain_config(checkpoint, resolved, attention)
        family = families.module(resolved.model_type)
        respelt = resolved.translated is not None or resolved.spelt_out is not None
        renamed = getattr(family, "LIBRARY_NAMES", {}) if respelt else {}
        self.inputs: Mapping[str, str] = getattr(family, "LIBRARY_INPUTS", {})
        self.channels = getattr(family, "LIBRARY_CHANNELS", False)
        self.shuffles = getattr(family, "SHUFFLES", False)
        self.scores = getattr(family, "RETURNS_SCORES", False)
        if checkpoint.in_safetensors and not checkpoint.quantised and not renamed:
            model = transformers_loading.model_from_pretrained(
                name, checkpoint.folder, dtype=torch.float32, config=config, **language
            )
        else:
            model = _filled(name, config, checkpoint, renamed)
        self.arguments |= getattr(family, "ARGUMENTS", {})
        self.model = model.eval()
        self.windows = kept_windows(model)
        reason = families.WITHOUT_CACHE.get(resolved.model_type)
        self.lacks = {} if reason is None else {CACHES: reason}

    @contextmanager
    def in_float64(self) -> Iterator[None]:
        """Compute in float64 within the context, except where the library itself casts to float32."""
        with in_float64(self.model):
            yield

    @contextmanager
    def perturbed(self, seed: int) -> Iterator[None]:
        """Compute with random errors within the context; see `precision.perturbed`."""
        with perturbed(self.model, seed, self.centred):
            yield

    @torch.no_grad()  # the library keeps tensors for all models, and inference tensors cannot be trained on
    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        for layer, window, shift in self.windows:
            layer.window_size, layer.shift_size = window, shift
        renamed = self._own_inputs(inputs)
        if (outputs := in_parts(self.model, renamed, self.spec)) is not None:
            return outputs
        order = {"noise": in_order(self.model, renamed)} if self.shuffles else {}
        outputs = self.model(**renamed, **self.arguments, **order)
        named = {name: value for name, value in outputs.items() if isinstance(value, torch.Tensor)}
        named.pop("encoder_last_hidden_state", None)  # of an encoder-decoder with its head on the decoder
        if self.shuffles:
            named = {name: value for name, value in named.items() if name not in SHUFFLING}
        if not self.pooler:
            named.pop(POOLER_OUTPUT, None)  # of a layer that the checkpoint lacks and the library initialises
        elif POOLER_OUTPUT in named:  # ResNet's has a row and a column beside its channels
            named[POOLER_OUTPUT] = named[POOLER_OUTPUT].flatten(1)
        if PRED_MASKS in named and LOGITS not in named:
            return prompted(self.model, renamed)
        if self.detects:
            named = {name: named[name] for name in (LOGITS, PRED_BOXES)}  # without those of its layers
        if PRED_MASKS in named:  # without states of each part, and masks of the first queries
            named = {name: named[name] for name in (LOGITS, PRED_BOXES, PRED_MASKS)}
        if CLASS_QUERIES_LOGITS in named:  # it returns states of each part too
            named = {name: value for name, value in named.items() if LAST_HIDDEN_STATE not in name}
        if self.pooler and LAST_HIDDEN_STATE not in named:  # DPR gives it with output_hidden_states alone
            states = self.model(**renamed, output_hidden_states=True).hidden_states
            named[LAST_HIDDEN_STATE] = states[-1]
        named |= of_layers(outputs, self.layer_outputs, self.scores)
        return {name: value.numpy() for name, value in named.items()}

    def _renamed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Inputs by the library's names."""
        return {self.inputs.get(name, name): value for name, value in inputs.items()}

    def _own_inputs(self, inputs: Arrays) -> dict[str, Tensor]:
        """A graph's inputs by the library's names; waveforms (B,N), or of one channel (B,1,N)."""
        result = self._renamed(tensors(inputs))
        return result | ({INPUT_VALUES: result[INPUT_VALUES][:, None]} if self.channels else {})

    @torch.no_grad()
    def decode(self, tokens: list[int], source: Source, prompt: int | None = None) -> Arrays:
        """See Reference."""
        ids = ids_of(tokens, source)
        if source is None or isinstance(source, Pictures):
            cache_arguments = {"use_cache": False} if CACHES in self.lacks else self._empty_cache()
            images = with_image_mask(by_prompt(source_tensors(source), self.spec, self.model), ids, self.spec)
            inputs = {INPUT_IDS: ids, ATTENTION_MASK: torch.ones_like(ids)} | images
            inputs |= kinds(ids, self.spec, images, prompt)
            named = self.arguments if images else self.layer_outputs
            outputs = self.model(**inputs, **cache_arguments, **named)
            caches = {}
            if CACHES not in self.lacks:
                caches = cached(cache_of(outputs), states=self.states)
            vectors = attended(self.model, self.spec, images, caches)
            past = self._own_heads({name: value[0].numpy() for name, value in caches.items()})
            reads_images = isinstance(self.spec, VisionLanguageSpec)
            vectors |= pictured(self.model, ids, images, **named) if reads_images else {}
            rows = _rows(outputs, self.layer_outputs)
            return {LOGITS: outputs.logits[0].numpy(), **past, **rows, **vectors}
        encoder_inputs, arguments = self._renamed(source_tensors(source)), dict(self.layer_outputs)
        apart = getattr(self.model, "enc_to_dec_proj", None) is not None
        if apart or (self.alignment and not arguments):  # an encoder's weights would fill the memory
            masks = {name: value for name, value in encoder_inputs.items() if name == ATTENTION_MASK}
            encoder_inputs = {
                "encoder_outputs": self.model.get_encoder()(**encoder_inputs, **arguments)
            } | masks
        if self.alignment:
            arguments[f"output_{ATTENTIONS}"] = True
        if hasattr(self.model, "text_decoder"):
            outputs = captioned(self.model, encoder_inputs, ids, arguments)
        elif limits_experts(self.spec):
            outputs = token_by_token(self.model, encoder_inputs, ids, self._empty_pair(), arguments)
        else:
            caches = self._empty_pair()
            outputs = self.model(**encoder_inputs, decoder_input_ids=ids, **caches, **arguments)
        cache, encoded = cache_of(outputs), outputs.encoder_last_hidden_state
        result = {
            LOGITS: outputs.logits,
            LAST_HIDDEN_STATE: encoder_inputs["encoder_outputs"][0] if apart else encoded,
            **cached(cache.self_attention_cache, cache_names.DECODER),
            **cached(cache.cross_attention_cache, cache_names.ENCODER),
            **of_layers(outputs, arguments) | source_pictures(self.model, source, encoder_inputs, outputs),
        }
        return self._aligned({name: part_of(source, name, value.numpy()) for name, value in result.items()})

    def _aligned(self, layers: Arrays) -> Arrays:
        """The outputs of layers, and the weights of the alignment's heads (A,S,E)."""
        if self.alignment is None:
            return layers
        heads = [layers[of_layer(CROSS_ATTENTIONS, layer)][head] for layer, head in self.alignment.heads]
        return layers | {ALIGNMENT_WEIGHTS: np.stack(heads)}

    def _empty_cache(self) -> dict[str, Any]:
        """Arguments with an empty cache."""
        return empty_cache(self.model, any(self.states), self.new_cache)

    def _empty_pair(self) -> dict[str, Any]:
        """Arguments for a decoder's new caches, of itself and of its encoder, that keep every token."""
        name = transformers_loading.cache_parameter(self.model.forward)
        if name is None or not (self.windowed or limits_experts(self.spec)):
            return {"use_cache": True}
        return {name: self.new_pair(self.new_cache(), self.new_cache()), "use_cache": True}

    def _own_heads(self, caches: Arrays) -> Arrays:
        """Caches (K,T,H) without the repeated key/value heads that some models store."""
        result = {}
        for name, array in caches.items():
            if not cache_names.is_state(name):
                array = array[:: len(array) // self.kv_heads[cache_names.layer_of(name)]]
            result[name] = array
        return result


def _loads(checkpoint: InLanguage) -> bool:
    """Return whether the library loads a language's adapter by itself, without reading pickles."""
    base = checkpoint.base
    return base.in_safetensors and base.as_published and checkpoint.adapter_file.suffix == ".safetensors"


def _rows(outputs: Any, arguments: Collection[str]) -> Arrays:
    """The outputs of layers for one row, without the batch axis; `arguments` asked the library for them."""
    return {name: value[0].numpy() for name, value in of_layers(outputs, arguments).items()}


def _filled(auto: str, config: Any, checkpoint: Checkpoint, renamed: Mapping[str, tuple[str, ...]]) -> Any:
    """The original with a checkpoint's tensors, dequantised here.

    The library's own quantised loaders need kernels for a GPU, and it is never given pickles. Packed
    matrices are (out,in); those of Conv1D modules and of some experts are transposed for the library.
    `renamed` maps parts of tensor names to the library's. A tensor with several new names is split evenly,
    and one with none is left out.
    """
    from transformers.pytorch_utils import Conv1D

    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):
        empty = transformers_loading.model_of_config(auto, config)
    transposed = [
        f".{name}.{leaf}"
        for name, module in empty.named_modules()
        if isinstance(module, Conv1D) or getattr(module, "is_transposed", False)
        for leaf, _ in module.named_parameters(recurse=False)
        if not leaf.endswith("bias")
    ]
    state: dict[str, Tensor] = {}
    for name, tensor in checkpoint.tensors.items():
        packed, names = not isinstance(tensor, Stored), [name]
        for old, parts in renamed.items():
            names = [one.replace(old, part) for one in names for part in parts] if old in name else names
        if names and (packed or tensor.dtype in FLOATS):
            numbers = torch.from_numpy(checkpoint.read(name))
            is_transposed = packed and any(one.endswith(f".{name}") for one in transposed)
            numbers = numbers.mT.contiguous() if is_transposed else numbers
            state |= dict(zip(names, numbers.chunk(len(names)) if names[1:] else [numbers], strict=True))
    kind = type(empty).__name__
    # The model's config is of texts alone where `config` is of images and texts.
    return transformers_loading.model_from_pretrained(
        kind, None, dtype=torch.float32, config=empty.config, state_dict=state
    )


def _plain_config(checkpoint: Checkpoint, resolved: Resolved, attention: str | None) -> Any:
    """A checkpoint's config without options of PyTorch alone: tuples, chunks, kernels.

    `attention` is the attention kernel; only "eager" returns weights. Experts are "eager" too, the only
    kernel that computes in float64.
    """
    values = resolved.translated or resolved.spelt_out
    if values is None and checkpoint.as_published and checkpoint.config.get("model_type") is not None:
        config = transformers_loading.from_pretrained("AutoConfig", checkpoint.folder)
    else:
        values = values or checkpoint.config | {"model_type": resolved.model_type}
        config = transformers_loading.config_of(values)
    # config.json may name a kernel that is not installed here; all of them compute the same attention.
    config._attn_implementation = attention or ("eager" if config._attn_implementation == "eager" else None)
    for part in filter(None, (config, *(getattr(config, name, None) for name in config.sub_configs))):
        part.return_dict = True
        part._experts_implementation = "eager"
        if getattr(part, "chunk_size_feed_forward", 0):
            part.chunk_size_feed_forward = 0
        if attention is not None and getattr(part, "attention_type", None) == "block_sparse":
            # BigBird falls back to it for texts as short as a graph takes, but then returns no weights.
            part.attention_type = "original_full"
    return config
