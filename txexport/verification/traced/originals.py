"""The library's model of a checkpoint, for tracing and as the judge of what was traced."""

import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from logging import CRITICAL, disable, root
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.exporters.utils import get_leaf_tensors
from transformers.utils import logging

from txexport.checkpoints import transformers_loading
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, UnsupportedError, first_line, shown
from txexport.verification.traced import inputs
from txexport.verification.traced.inputs import Facts

RANGES = ("sliding_window", "attention_chunk_size", "attention_window", "window_size")
UNLIMITED = 1 << 20  # tokens of a model that names no limit
PLAIN = 224  # the side of an image where neither config nor processor names one
# By its input, what stands among a text's tokens: the class's method for its features, and the id's names.
BESIDE_TEXT = {
    "pixel_values": ("get_image_features", ("image_token_id", "image_token_index")),
    "input_features": ("get_audio_features", ("audio_token_id", "audio_token_index")),
}
SPECTRA = ("feature_projection_input_dim",)  # other names of the width of a spectrum
RESERVED = re.compile(r"(image|video|audio)_token_(id|index)")  # ids that stand for something else than text
FLAGS = {"use_cache": False, "output_attentions": False, "output_hidden_states": False}


@dataclass(frozen=True)
class Original:
    """A checkpoint's model of transformers, in float32 and evaluation mode."""

    folder: Path
    model: Any

    @property
    def config(self) -> Any:
        """Its configuration."""
        return self.model.config

    @property
    def architecture(self) -> str:
        """The name of its class."""
        return type(self.model).__name__

    @cached_property
    def processors(self) -> list[Any]:
        """The library's processors that the checkpoint has files for."""
        result = []
        for kind, file in PROCESSORS.items():
            if any((self.folder / name).is_file() for name in file):
                with quiet(), suppress(Exception):  # some need packages; the model can be traced without
                    result.append(transformers_loading.from_pretrained(kind, self.folder))
        return result

    @cached_property
    def inputs(self) -> list[str]:
        """The names of the inputs to trace, in the order of the class's forward.

        They are its main input, and others that the checkpoint's processors give or that belong to it.
        Raises UnsupportedError for a main input, or one without which its forward cannot be called, that is
        not known.
        """
        main = self.model.main_input_name
        for name in [main, *sorted(self._required)]:
            if not isinstance(name, str) or name not in inputs.AXES:
                raise UnsupportedError(f"{self.architecture} reads {shown(name)}, which cannot be traced")
        named = {name for one in self.processors for name in getattr(one, "model_input_names", ())}
        chosen = named | {main} | self._belonging(main) | self._required
        return [name for name in self.arguments if name in chosen and name in inputs.AXES]

    def _belonging(self, main: str) -> set[str]:
        """The inputs that go with the main one, for a checkpoint without processors too."""
        result = set()
        if main == "input_ids":
            result |= {"attention_mask", "bbox", "pixel_values"}
            if hasattr(self.model, "get_audio_features"):
                result |= {"input_features", "input_features_mask", "feature_attention_mask"}
            if getattr(self.config.get_text_config(), "type_vocab_size", 0) > 1:
                result.add("token_type_ids")
        if self.config.is_encoder_decoder and "decoder_input_ids" in self.arguments:
            result.add("decoder_input_ids")
        if main != "input_ids" and "input_ids" in self.arguments and not self.config.is_encoder_decoder:
            result |= {"input_ids", "attention_mask"}
        return result

    @cached_property
    def facts(self) -> Facts:
        """The numbers of the config and the processors that bound the inputs."""
        text = self.config.get_text_config()
        height, width = _image_size(self.config, self.processors)
        sizes = {
            inputs.HEIGHT: height,
            inputs.WIDTH: width,
            inputs.CHANNELS: _number(self.config, ("num_channels", "in_channels", "in_chans"), 3),
            inputs.BANDS: _number(
                self.config, ("num_mel_bins", "feature_size", "input_feat_per_channel", *SPECTRA), 80
            ),
            inputs.FRAMES: _number(self.config, ("num_frames", "max_length"), 16),
            inputs.REGION_FEATURES: _number(self.config, ("visual_feat_dim",), 2048),
            inputs.SOUND_CHANNELS: _number(self.config, ("audio_channels",), 1),
            inputs.COORDINATES: _number(text, ("dim_bbox",), 4),
            inputs.SERIES: _number(self.config, ("num_input_channels", "input_size"), 1),
            inputs.CONTEXT: _number(self.config, ("context_length", "prediction_length"), 32),
        }
        return Facts(
            vocabulary=_number(text, ("vocab_size",), 2),
            end=_token(text, ("eos_token_id", "sep_token_id")),
            padding=_token(text, ("pad_token_id",)),
            token_types=max(1, _number(text, ("type_vocab_size",), 1)),
            coordinates=min(1000, _number(text, ("max_2d_position_embeddings",), 1000)),
            sizes=sizes,
        )

    @cached_property
    def placeholders(self) -> dict[str, tuple[Callable[..., Any], int]]:
        """By input of images or sounds: the method for its features, and the id in their place in a text."""
        text = self.config.get_text_config()
        result = {}
        for name, (method, ids) in BESIDE_TEXT.items():
            tokens = (_token(one, ids, text) for one in _configs(self.config))
            token = next((one for one in tokens if one is not None), None)
            maker = next((one for one in self.model.modules() if hasattr(one, method)), None)
            if token is not None and maker is not None:
                result[name] = getattr(maker, method), token
        return result

    @cached_property
    def reserved_ids(self) -> set[int]:
        """The ids in a text's place of images, videos and sounds."""
        named = [item for one in _configs(self.config) for item in vars(one).items()]
        return {value for name, value in named if RESERVED.fullmatch(name) and isinstance(value, int)}

    @property
    def source_positions(self) -> int | None:
        """The positions of an encoder of sounds that takes one length alone, None if it names none."""
        configs = _configs(self.config)
        return next((size for one in configs if (size := getattr(one, "max_source_positions", None))), None)

    @property
    def longest(self) -> int:
        """The longest sequence of tokens that the config names; large where it names none."""
        return _number(self.config.get_text_config(), ("max_position_embeddings", "n_positions"), UNLIMITED)

    @property
    def ranges(self) -> dict[str, int]:
        """The numbers of tokens at which the config names another computation: windows, chunks, positions."""
        text = self.config.get_text_config()
        sizes: dict[str, Any] = {name: getattr(text, name, None) for name in RANGES}
        rope = getattr(text, "rope_parameters", None) or {}
        sizes["original_max_position_embeddings"] = rope.get("original_max_position_embeddings")
        return {name: size for name, size in sizes.items() if isinstance(size, int) and size > 0}

    @property
    def patch(self) -> int:
        """The side of an image's patches, 16 where the config names none."""
        return _number(self.config, ("patch_size",), 16)

    @cached_property
    def _required(self) -> set[str]:
        """The arguments without which its forward cannot be called."""
        parameters = inspect.signature(self.model.forward).parameters.values()
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return {one.name for one in parameters if one.default is one.empty and one.kind not in kinds}

    @cached_property
    def arguments(self) -> list[str]:
        """The names of the arguments of its forward, in their order."""
        return list(inspect.signature(self.model.forward).parameters)

    def forward(self, arguments: Mapping[str, Any]) -> Any:
        """The answer of the model, without gradients. Raises what the model raises.

        Raises UnsupportedError for a model that changes its own settings while it runs, as one that leaves
        sparse attention for good after a short input: no graph has the same answers, and it is no judge.
        """
        before = self._settings()
        with torch.no_grad(), quiet():
            answer = self.model(**arguments)
        if changed := [name for name, value in self._settings().items() if before.get(name, value) != value]:
            raise UnsupportedError(f"{self.architecture} changes its own {changed[0]} while it runs")
        return answer

    def _settings(self) -> dict[str, str | bool]:
        """The words and switches that its modules hold, by name."""
        return {
            f"{place}.{name}".lstrip("."): value
            for place, module in self.model.named_modules()
            for name, value in vars(module).items()
            if isinstance(value, str | bool)
        }

    def run(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs by name, in the model's precision. Raises what the model raises."""
        feeds = {name: torch.from_numpy(np.array(value)) for name, value in values.items()}
        outputs = get_leaf_tensors(self.forward(self.in_its_precision(feeds) | self.flags))
        return {name: tensor.numpy() for name, tensor in outputs.items()}

    def in_its_precision(self, feeds: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Inputs with floats in the type of the model's parameters."""
        dtype = next((one.dtype for one in self.model.parameters() if one.is_floating_point()), torch.float32)
        return {name: one.to(dtype) if one.is_floating_point() else one for name, one in feeds.items()}

    @cached_property
    def flags(self) -> dict[str, bool]:
        """Arguments of the forward that keep caches and inner values out of its outputs."""
        return {name: value for name, value in FLAGS.items() if name in self.arguments}


PROCESSORS = {
    "AutoTokenizer": ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "spiece.model"),
    "AutoImageProcessor": ("preprocessor_config.json", "processor_config.json"),
    "AutoFeatureExtractor": ("preprocessor_config.json", "processor_config.json"),
}


def original(folder: Path, architecture: str | None = None) -> Original:
    """The model of a checkpoint, of the class that config.json names, or of another one by name.

    Raises CheckpointError or UnsupportedError.
    """
    with quiet():
        try:
            config = transformers_loading.from_pretrained("AutoConfig", folder)
        except Exception as error:
            reason = first_line(error)
            raise CheckpointError(f"{folder}: transformers cannot read the config: {reason}") from None
        named = architecture or next(iter(config.architectures or []), None)
        if named is None:
            raise CheckpointError(
                f"{folder}: config.json names no class in architectures; give --architecture"
            )
        kind = getattr(transformers, named, None)
        is_model = isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)
        if not (is_model or (kind is not None and named.startswith("AutoModel"))):
            version = transformers.__version__
            raise UnsupportedError(f"{folder}: transformers {version} has no model class {named}")
        options: dict[str, Any] = {"dtype": torch.float32, "output_loading_info": True}
        place: Path | None = folder
        if not any(folder.glob("*.safetensors")):  # older weights are read here, where nothing in them runs
            checkpoint, place = Checkpoint(folder), None
            numbers = {name: torch.from_numpy(checkpoint.read(name)) for name in checkpoint.tensors}
            options |= {"config": config, "state_dict": numbers}
        try:
            model, info = transformers_loading.model_from_pretrained(named, place, **options)
        except Exception as error:
            raise CheckpointError(f"{folder}: transformers cannot load it: {first_line(error)}") from None
    if absent := sorted(info["missing_keys"]):
        raise CheckpointError(f"{folder} lacks {len(absent)} parameters of {named}, such as {absent[0]}")
    return Original(folder, model.eval())


@contextmanager
def quiet() -> Iterator[None]:
    """Without progress bars, logs and warnings of the libraries, and what they print."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    disabled = root.manager.disable
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    disable(CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        disable(disabled)
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _configs(config: Any) -> Iterator[Any]:
    """A configuration and those within it."""
    yield config
    for value in vars(config).values():
        if isinstance(value, transformers.PreTrainedConfig):
            yield from _configs(value)


def _number(config: Any, names: tuple[str, ...], default: int) -> int:
    """The first whole number by one of these names in a configuration or one within it."""
    for one in _configs(config):
        for name in names:
            value = getattr(one, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return default


def _token(config: Any, names: tuple[str, ...], text: Any = None) -> int | None:
    """The first id by one of these names that the vocabulary has, which is that of `text` or its own."""
    ids = [getattr(config, name, None) for name in names]
    ids = [number[0] if isinstance(number, list) and number else number for number in ids]
    size = getattr(text or config, "vocab_size", 0)
    return next((number for number in ids if isinstance(number, int) and 0 <= number < size), None)


def _image_size(config: Any, processors: list[Any]) -> tuple[int, int]:
    for one in _configs(config):
        value = getattr(one, "image_size", None)
        if isinstance(value, int):
            return value, value
        if isinstance(value, list | tuple) and len(value) == 2:
            return value[0], value[1]
    for one in processors:
        size = getattr(one, "size", None) or {}
        if "height" in size and "width" in size:
            return size["height"], size["width"]
    return PLAIN, PLAIN
