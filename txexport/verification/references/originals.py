"""The originals that a bundle is held against."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from txmodels.architectures import DualEncoderModel as DualEncoder
from txmodels.model import Transformer as Model
from txmodels.training.checkpoints import build

from txexport import families
from txexport.checkpoints import transformers_loading
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.image_size import Resized
from txexport.checkpoints.stored import FLOATS, Stored
from txexport.contracts import cache_names
from txexport.contracts.names import (
    ATTENTION_MASK,
    ATTENTIONS,
    ENCODER_ATTENTION_MASK,
    INPUT_FEATURES,
    INPUT_IDS,
    LAST_HIDDEN_STATE,
    LOGITS,
    PIXEL_VALUES,
    POOLER_OUTPUT,
    TEXT,
    VISION,
    of_layer,
)
from txexport.errors import UnsupportedError, install
from txexport.families import Resolved
from txexport.spec import EncoderSpec
from txexport.tasks import TASKS
from txexport.verification.counts import CACHES
from txexport.verification.references.centred_products import CentredProducts
from txexport.verification.references.kept import Kept

Arrays = dict[str, np.ndarray]
Source = list[int] | np.ndarray | None  # tokens, a spectrogram (bands,frames), or pixels of 3 axes


class Reference(Protocol):
    """A model in PyTorch, float32, that knows nothing of the bundle.

    One that has `in_double()` computes in float64 within it, which tells what its float32 is off by; and
    one that has `perturbed(seed)` in float64 with all numbers off by a last bit of float32.
    """

    name: str
    lacks: Mapping[str, str]  # kinds of outputs (see `counts`) that it does not give, and why

    def encode(self, inputs: Arrays) -> Arrays:
        """A padded batch -> outputs by the names of an encoder graph."""
        ...

    def decode(self, tokens: list[int], source: Source) -> Arrays:
        """One row in one pass, without padding or past -> outputs by the names of a dynamic decoder graph.

        No batch axis. With a source, the encoder's outputs too: last_hidden_state and cross caches.
        """
        ...


class Twin:
    """The PyTorch components of txmodels, filled from the checkpoint."""

    name = "twin"
    lacks: Mapping[str, str] = {}

    def __init__(self, checkpoint: Checkpoint, resolved: Resolved, outputs: Collection[str] = ()):
        self.model = build(checkpoint, resolved, outputs=outputs).eval()
        self.centred = isinstance(checkpoint, Kept) and checkpoint.centred

    @contextmanager
    def in_double(self) -> Iterator[None]:
        """Compute in float64 meanwhile."""
        with in_double(self.model):
            yield

    @contextmanager
    def perturbed(self, seed: int) -> Iterator[None]:
        """See `perturbed`."""
        with perturbed(self.model, seed, self.centred):
            yield

    @torch.inference_mode()
    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        outputs = read(self.model, **tensors(inputs))
        return {name: value.numpy() for name, value in outputs.items()}

    @torch.inference_mode()
    def decode(self, tokens: list[int], source: Source) -> Arrays:
        """See Reference."""
        assert isinstance(self.model, Model)
        result = one_pass(self.model, torch.tensor([tokens]), **source_tensors(source))
        return {name: value[0].numpy() for name, value in result.items()}


class Double(Twin):
    """The twin as a reference in float64.

    What both bundle and float32 are off by is float32's own rounding; what the bundle alone is off by is an
    error.
    """

    name = "float64"


@contextmanager
def in_double(module: nn.Module) -> Iterator[None]:
    """A module in float64, and the numbers that it makes itself, as rotations are; then as it was."""
    before = torch.get_default_dtype()
    module.double()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
        module.float()  # exact: the numbers were float32


@contextmanager
def perturbed(module: nn.Module, seed: int, centred: bool) -> Iterator[None]:
    """A module in float64 whose weights, and what its parts give, are off by up to a last bit of float32.

    What its outputs are then off by is what float32 can promise of them, whatever the processor and in
    whatever order it sums: a float32 computation is as good as an exact one of such numbers. `centred` are
    products that take the middle off rows: see CentredProducts.
    """
    random = torch.Generator().manual_seed(seed)

    def off(numbers: Any) -> Any:
        if isinstance(numbers, tuple):
            return tuple(map(off, numbers))
        if not isinstance(numbers, Tensor) or not numbers.is_floating_point():
            return numbers
        noise = torch.rand(numbers.shape, generator=random, dtype=torch.float64)
        return numbers * (1 + torch.finfo(torch.float32).eps * (2 * noise - 1))

    kept = {parameter: parameter.data for parameter in module.parameters()}
    with in_double(module), CentredProducts(random) if centred else nullcontext():
        hooks = [part.register_forward_hook(lambda _, __, given: off(given)) for part in module.modules()]
        for parameter in kept:
            parameter.data = off(parameter.data)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for parameter, numbers in kept.items():
                parameter.data = numbers


def tensors(arrays: Arrays) -> dict[str, Tensor]:
    """Arrays as tensors; floating-point ones of the type that is computed in."""
    result = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return {
        name: value.to(torch.get_default_dtype()) if value.is_floating_point() else value
        for name, value in result.items()
    }


def source_tensors(source: Source) -> dict[str, Tensor]:
    """What an encoder reads of a source, as a batch of one by input names; nothing where there is none."""
    if source is None:
        return {}
    if isinstance(source, np.ndarray):
        port = INPUT_FEATURES if source.ndim == 2 else PIXEL_VALUES
        return tensors({port: source[None]})
    ids = torch.tensor([source])
    return {INPUT_IDS: ids, ATTENTION_MASK: torch.ones_like(ids)}


def read(model: Any, **inputs: Tensor) -> dict[str, Tensor]:
    """What an encoder or two towers put out, by the names of their graphs."""
    if isinstance(model, DualEncoder):
        return model.compare(**inputs)
    return model.encode(**inputs) if model.reads_tokens else model.encode_signal(*inputs.values())


def one_pass(model: Any, decoder_input_ids: Tensor, **source: Tensor) -> dict[str, Tensor]:
    """decoder_input_ids (1,T) and what an encoder reads -> as `Reference.decode`, with a batch axis."""
    inputs: dict = {}
    result, own = {}, None
    if source:
        result = read(model, **source)
        if ATTENTION_MASK in source:
            inputs[ENCODER_ATTENTION_MASK] = source[ATTENTION_MASK]
        inputs["cross"] = [
            tuple(result[name] for name in cache_names.present(i, cache_names.ENCODER))
            for i in range(len(model.cross))
        ]
        own = cache_names.DECODER
    logits, present, layers = model.decode_layers(decoder_input_ids, model.empty_past(1), **inputs)
    caches = {
        name: tensor
        for i, pair in enumerate(present)
        for name, tensor in zip(cache_names.present(i, own), pair, strict=True)
    }
    return result | caches | layers | {LOGITS: logits}


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
        spec = resolved.spec
        self.centred = isinstance(checkpoint, Kept) and checkpoint.centred
        self.pooler = isinstance(spec, EncoderSpec) and (spec.pooler or spec.vector is not None)
        decoder = spec.stacks.get("decoder")
        self.kv_heads = [block.masked.cache_shapes[0][0] for block in decoder.layers] if decoder else []
        self.new_cache = transformers.DynamicCache
        name = resolved.original or TASKS[resolved.task].judge(resolved.model_type)
        self.asked = {f"output_{kind}": True for kind in outputs}
        self.given: dict[str, bool] = dict(self.asked)
        if isinstance(checkpoint, Resized) and checkpoint.interpolated:
            checkpoint, self.given = checkpoint.whole, self.asked | {"interpolate_pos_encoding": True}
        config = _plain_config(checkpoint, resolved, "eager" if ATTENTIONS in outputs else None)
        family = families.module(resolved.model_type)
        renamed = getattr(family, "LIBRARY_NAMES", {}) if resolved.translated is not None else {}
        if checkpoint.in_safetensors and not checkpoint.quantised and not renamed:
            model = transformers_loading.model_from_pretrained(
                name, checkpoint.folder, dtype=torch.float32, config=config
            )
        else:
            model = _filled(name, config, checkpoint, renamed)
        self.model = model.eval()
        why = families.WITHOUT_CACHE.get(resolved.model_type)
        self.lacks = {} if why is None else {CACHES: why}

    @contextmanager
    def in_double(self) -> Iterator[None]:
        """Compute in float64 meanwhile, but for what the library itself narrows to float32."""
        with in_double(self.model):
            yield

    @contextmanager
    def perturbed(self, seed: int) -> Iterator[None]:
        """See `perturbed`."""
        with perturbed(self.model, seed, self.centred):
            yield

    @torch.inference_mode()
    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        outputs = self.model(**tensors(inputs), **self.given)
        named = {name: value for name, value in outputs.items() if isinstance(value, torch.Tensor)}
        named.pop("encoder_last_hidden_state", None)  # of an encoder-decoder, whose head is on the decoder
        if not self.pooler:
            named.pop(POOLER_OUTPUT, None)  # a layer that the checkpoint lacks, made up by the library
        if self.pooler and LAST_HIDDEN_STATE not in named:  # of DPR, which gives its layers' when it is asked
            states = self.model(**tensors(inputs), output_hidden_states=True).hidden_states
            named[LAST_HIDDEN_STATE] = states[-1]
        named |= _of_layers(outputs, self.asked)
        return {name: value.numpy() for name, value in named.items()}

    @torch.inference_mode()
    def decode(self, tokens: list[int], source: Source) -> Arrays:
        """See Reference."""
        ids = torch.tensor([tokens])
        if source is None:
            cached = {} if CACHES in self.lacks else self._empty_cache()
            inputs = {INPUT_IDS: ids, ATTENTION_MASK: torch.ones_like(ids)}
            outputs = self.model(**inputs, **cached, **self.asked)
            past = self._own_heads(_cache(transformers_loading.cache_of(outputs))) if cached else {}
            return {LOGITS: outputs.logits[0].numpy(), **past, **self._rows(outputs)}
        given = source_tensors(source)
        outputs = self.model(**given, decoder_input_ids=ids, use_cache=True, **self.asked)
        cache = transformers_loading.cache_of(outputs)
        return {
            LOGITS: outputs.logits[0].numpy(),
            LAST_HIDDEN_STATE: outputs.encoder_last_hidden_state[0].numpy(),
            **_cache(cache.self_attention_cache, cache_names.DECODER),
            **_cache(cache.cross_attention_cache, cache_names.ENCODER),
            **self._rows(outputs),
        }

    def _empty_cache(self) -> dict[str, Any]:
        """Arguments that have keys and values kept. Raises AssertionError where no parameter takes them.

        A cache made without the config keeps every token, where a window would drop the older ones.
        """
        name = transformers_loading.cache_parameter(self.model.forward)
        if name is None:
            names = " or ".join(transformers_loading.CACHE_NAMES)
            raise AssertionError(f"{type(self.model).__name__}.forward has no parameter {names}")
        return {name: self.new_cache(), "use_cache": True}

    def _rows(self, outputs: Any) -> Arrays:
        """Of one row, what layers gave, without the batch axis."""
        return {name: value[0].numpy() for name, value in _of_layers(outputs, self.asked).items()}

    def _own_heads(self, caches: Arrays) -> Arrays:
        """Caches (K,T,H) without the copies of key heads that some models make before they store them."""
        own = {}
        for name, array in caches.items():
            heads = self.kv_heads[cache_names.layer_of(name)]
            own[name] = array[:: len(array) // heads]
        return own


def _of_layers(outputs: Any, asked: Collection[str]) -> dict[str, Tensor]:
    """The tuples of every layer's tensors that the library gives where `asked`, by a graph's names."""
    towers = {TEXT: outputs.get("text_model_output"), VISION: outputs.get("vision_model_output")}
    result: dict[str, Tensor] = {}
    kinds = tuple(name.removeprefix("output_") for name in asked)  # some give one kind without being asked
    for tower, given in (towers if towers[TEXT] is not None else {None: outputs}).items():
        for kind, values in given.items():
            if isinstance(values, tuple) and kind.endswith(kinds):
                result |= {of_layer(kind, layer, tower): value for layer, value in enumerate(values)}
    return result


def _filled(auto: str, config: Any, checkpoint: Checkpoint, renamed: Mapping[str, tuple[str, ...]]) -> Any:
    """The original with the numbers that a checkpoint's tensors stand for.

    Of quantised ones the library itself would make others, with kernels for a GPU, and pickles it is never
    given. Packed matrices are (out,in), and those of its Conv1D modules and of some experts are not. Parts of
    names are other ones where `renamed` says so, and tensors of several names are theirs in turn.
    """
    from transformers.pytorch_utils import Conv1D

    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):
        empty = transformers_loading.model_of_config(auto, config)
    turned = [
        f".{name}.{leaf}"
        for name, module in empty.named_modules()
        if isinstance(module, Conv1D) or getattr(module, "is_transposed", False)
        for leaf, _ in module.named_parameters(recurse=False)
        if not leaf.endswith("bias")
    ]
    state: dict[str, Tensor] = {}
    for name, tensor in checkpoint.tensors.items():
        packed = not isinstance(tensor, Stored)
        if packed or tensor.dtype in FLOATS:
            numbers = torch.from_numpy(checkpoint.read(name))
            is_turned = packed and any(one.endswith(f".{name}") for one in turned)
            numbers = numbers.mT.contiguous() if is_turned else numbers
            names = [name]
            for old, parts in renamed.items():
                names = [one.replace(old, part) for one in names for part in parts] if old in name else names
            state |= dict(zip(names, numbers.chunk(len(names)) if names[1:] else [numbers], strict=True))
    kind = type(empty).__name__
    return transformers_loading.model_from_pretrained(
        kind, None, dtype=torch.float32, config=config, state_dict=state
    )


def _plain_config(checkpoint: Checkpoint, resolved: Resolved, attention: str | None) -> Any:
    """A checkpoint's config without what it asks of PyTorch alone: tuples, chunks, kernels.

    `attention` is the kernel to take, of which "eager" alone tells its weights; of those for experts it alone
    computes in float64.
    """
    values = resolved.translated or resolved.spelt_out
    if values is None and checkpoint.as_published and checkpoint.config.get("model_type") is not None:
        config = transformers_loading.from_pretrained("AutoConfig", checkpoint.folder)
    else:
        values = values or checkpoint.config | {"model_type": resolved.model_type}
        config = transformers_loading.config_of(values)
    # A kernel that config.json names may not be on this machine; all of them compute the same attention.
    config._attn_implementation = attention or ("eager" if config._attn_implementation == "eager" else None)
    for one in filter(None, (config, *(getattr(config, name, None) for name in config.sub_configs))):
        one.return_dict = True
        one._experts_implementation = "eager"
        if getattr(one, "chunk_size_feed_forward", 0):
            one.chunk_size_feed_forward = 0
        if attention is not None and getattr(one, "attention_type", None) == "block_sparse":
            # BigBird turns to it for texts as short as graphs take, but by then is not heard telling weights.
            one.attention_type = "original_full"
    return config


def _cache(cache, part: str | None = None) -> Arrays:
    """A transformers cache as arrays (K,T,H) by output name, in its present form and that of version 4."""
    if hasattr(cache, "layers"):
        pairs = [(layer.keys, layer.values) for layer in cache.layers]
    else:
        pairs = list(zip(cache.key_cache, cache.value_cache, strict=True))
    return {
        name: tensor[0].numpy()
        for i, pair in enumerate(pairs)
        for name, tensor in zip(cache_names.present(i, part), pair, strict=True)
    }


REFERENCES = {"twin": Twin, "transformers": Transformers}
