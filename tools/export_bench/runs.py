"""Inputs of a case, and the outputs of the original and of an export on them."""

import inspect
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from export_bench.sources import DECODER, ENCODER, IMAGES, PAIRS, SEQ2SEQ, SOUND, SPEECH
from txexport.checkpoints.transformers_loading import from_pretrained, model_from_pretrained

PAD, FIRST, VOCAB = 1, 5, 311  # tokens of tiny_checkpoint: ids below FIRST are special
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """An input. Lengths are those of a batch's rows: tokens, samples or the sides of images."""

    lengths: tuple[int, ...]
    padding: str = "right"
    pieces: tuple[int, ...] = ()  # of a decoder's tokens, one pass each; empty: one pass
    decoded: int = 5  # tokens of an encoder-decoder's decoder
    tokens: tuple[int, ...] = ()  # of every row, in place of random ones
    types: tuple[int, ...] = ()  # token types that are drawn from; empty: zeros
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The fields that differ from their defaults, for JSON."""
        return {name: one for name, one in asdict(self).items() if one != getattr(Case, name, None)}


PLAIN = Case((8,))
RAGGED, LEFT = Case((7, 4)), Case((7, 4), "left")
LONG, MANY = Case((30,)), Case((6,) * 4)
TYPES = Case((7, 4), types=(0, 1))
STEPS = Case((8,), pieces=(5, 1, 1, 1))
LEFT_STEPS = Case((9, 6), "left", pieces=(6, 1, 1, 1))
CHUNKS = Case((9, 9), pieces=(4, 5))
LONG_STEPS = Case((28,), pieces=(24, 1, 2, 1))
LONGEST, LONGEST_STEPS = Case((60, 41)), Case((60,), pieces=(50, 1, 2, 7))  # than a window
TEXTS = (PLAIN, RAGGED, LEFT, LONG, MANY, TYPES, Case((1,)))
PROMPTS = (PLAIN, RAGGED, LEFT, LONG, MANY, STEPS, LEFT_STEPS, CHUNKS, LONG_STEPS, Case((1,)))
TRANSLATIONS = (
    PLAIN,
    RAGGED,
    LONG,
    MANY,
    STEPS,
    Case((7, 4), pieces=(3, 1, 1)),
    Case((9,), pieces=(2, 3)),
    Case((5,), decoded=32, pieces=(28, 1)),
)
CASES = {
    ENCODER: TEXTS,
    DECODER: PROMPTS,
    SEQ2SEQ: TRANSLATIONS,
    IMAGES: (Case((1,)), Case((1,) * 3)),
    PAIRS: (Case((7,)), Case((7, 4)), Case((4, 7, 5, 6))),
    SOUND: (Case((400,)), Case((700, 400)), Case((300,) * 3)),
    SPEECH: (
        Case((1,)),
        Case((1, 1)),
        Case((1, 1), pieces=(2, 1, 1, 1)),
        Case((1,), decoded=32, pieces=(28, 1)),
    ),
}


def cases(kind: str, config: Any) -> tuple[Case, ...]:
    """The inputs at which a right export is tried."""
    windowed = kind == DECODER and getattr(config, "sliding_window", None)
    return CASES[kind] + ((LONGEST, LONGEST_STEPS) if windowed else ())


@dataclass
class Outputs:
    """Named outputs, and of each the elements that count: True where a row has no padding."""

    arrays: Arrays = field(default_factory=dict)
    real: Arrays = field(default_factory=dict)

    def add(self, name: str, array: Any, real: np.ndarray | None = None) -> None:
        """Add an output; `real` is broadcast from its first axes."""
        array = array.detach().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)
        if real is None:
            real = np.ones(array.shape, bool)
        real = real.reshape(real.shape + (1,) * (array.ndim - real.ndim))
        self.arrays[name], self.real[name] = array, np.broadcast_to(real, array.shape)


def texts(case: Case, length: int | None = None) -> Arrays:
    """`input_ids`, `attention_mask`, `token_type_ids` and `position_ids` (B,S) of a case."""
    noise = np.random.default_rng(case.seed)
    lengths = case.lengths if length is None else (length,) * len(case.lengths)
    shape = len(lengths), max(lengths)
    ids = noise.integers(FIRST, VOCAB, shape)
    if case.tokens:
        ids[:] = np.resize(case.tokens, shape[1])
    mask = np.ones(shape, np.int64)
    for row, count in enumerate(lengths):
        gap = slice(0, shape[1] - count) if case.padding == "left" else slice(count, None)
        ids[row, gap], mask[row, gap] = PAD, 0
    types = noise.choice(case.types or (0,), shape).astype(np.int64)
    positions = np.maximum(mask.cumsum(1) - 1, 0)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types, "position_ids": positions}


def samples(case: Case) -> Arrays:
    """`input_values` and `attention_mask` (B,N): noise of unit variance, 0 behind each row's end."""
    shape = len(case.lengths), max(case.lengths)
    mask = (np.arange(shape[1]) < np.array(case.lengths)[:, None]).astype(np.int64)
    values = np.random.default_rng(case.seed).standard_normal(shape, np.float32)
    return {"input_values": values * mask.astype(np.float32), "attention_mask": mask}


def images(case: Case, config: Any) -> np.ndarray:
    """Images (B,3,H,W) of the size that a config states."""
    side = getattr(config, "vision_config", config).image_size
    noise = np.random.default_rng(case.seed + 1)
    return noise.standard_normal((len(case.lengths), 3, side, side), np.float32)


def spectra(case: Case, config: Any) -> np.ndarray:
    """Spectrograms (B,M,F) of the length that a speech encoder demands."""
    shape = len(case.lengths), config.num_mel_bins, 2 * config.max_source_positions
    return np.random.default_rng(case.seed).standard_normal(shape, np.float32)


def original(folder: Path) -> Any:
    """The model of a checkpoint in transformers."""
    config = from_pretrained("AutoConfig", folder)
    options = {"dtype": torch.float32, "attn_implementation": "eager"}
    return model_from_pretrained(config.architectures[0], folder, **options).eval()


def inputs_of(case: Case, kind: str, config: Any) -> Arrays:
    """The inputs of one pass of a kind of model over a case; a model takes those that it names."""
    if kind == IMAGES:
        return {"pixel_values": images(case, config)}
    if kind == SOUND:
        inputs = samples(case)
        if config.feat_extract_norm == "group":  # such models read no mask: padding is silence
            del inputs["attention_mask"]
        return inputs
    if kind == SPEECH:
        decoded = texts(case, case.decoded)["input_ids"]
        return {"input_features": spectra(case, config), "decoder_input_ids": decoded}
    result = texts(case)
    if kind != DECODER:  # which alone takes positions
        del result["position_ids"]
    if getattr(config, "type_vocab_size", 0) < 2:
        del result["token_type_ids"]
    if kind == PAIRS:
        rows = np.arange(len(case.lengths))
        last = -1 if case.padding == "left" else np.array(case.lengths) - 1
        result["input_ids"][rows, last] = config.text_config.eos_token_id
        return result | {"pixel_values": images(case, config)}
    if kind == SEQ2SEQ:
        return result | {"decoder_input_ids": texts(case, case.decoded)["input_ids"]}
    return result


@torch.no_grad()
def expected(model: Any, kind: str, case: Case) -> Outputs:
    """The original's outputs: one pass over everything, whatever the pieces."""
    accepted = inspect.signature(model.forward).parameters
    inputs = inputs_of(case, kind, model.config)
    output = model(**{name: torch.from_numpy(one) for name, one in inputs.items() if name in accepted})
    real = inputs.get("attention_mask", np.ones(())).astype(bool)
    result = Outputs()
    if kind in (SEQ2SEQ, SPEECH):
        result.add("last_hidden_state", output.encoder_last_hidden_state, real if kind == SEQ2SEQ else None)
        result.add("logits", output.logits)
        return result
    for name, value in output.items():
        if not isinstance(value, torch.Tensor):
            continue
        if kind == SOUND and real.ndim:
            frames = model._get_feature_vector_attention_mask(value.shape[1], torch.from_numpy(real).long())
            result.add(name, value, frames.numpy().astype(bool))
        else:
            by_token = value.ndim > 1 and tuple(value.shape[:2]) == real.shape and kind != PAIRS
            result.add(name, value, real if by_token else None)
    if kind == DECODER:
        for place, layer in enumerate(output.past_key_values.layers):
            for part, array in (("key", layer.keys), ("value", layer.values)):
                counted = real[:, None, real.shape[1] - array.shape[2] :]
                result.add(f"present.{place}.{part}", array, np.repeat(counted, array.shape[1], 1))
    return result


class Graph:
    """An ONNX file in onnxruntime; takes what it names of the inputs that it is given."""

    def __init__(self, file: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 4
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.inputs = {one.name: one for one in self.session.get_inputs()}
        self.outputs = [one.name for one in self.session.get_outputs()]

    def __call__(self, inputs: Arrays) -> Arrays:
        """The outputs by name; past keys and values that are not given are empty."""
        feeds = {name: inputs[name] for name in self.inputs if name in inputs}
        batch = len(next(iter(inputs.values())))
        for name, one in self.inputs.items():
            if name not in feeds and name.startswith("past_key_values"):
                heads, size = (axis if isinstance(axis, int) else 1 for axis in one.shape[1::2])
                feeds[name] = np.zeros((batch, heads, 0, size), np.float32)
        return dict(zip(self.outputs, self.session.run(None, feeds), strict=True))


def actual(folder: Path, kind: str, case: Case, config: Any) -> Outputs:
    """The outputs of an export's graphs, fed in the case's pieces."""
    inputs, result = inputs_of(case, kind, config), Outputs()
    if kind in (SEQ2SEQ, SPEECH):
        return _translated(folder, case, inputs)
    graph = Graph(folder / "model.onnx")
    if kind != DECODER:
        for name, array in graph(inputs).items():
            result.add(name, array)
        return result
    logits, past, start = [], {}, 0
    for size in case.pieces or (inputs["input_ids"].shape[1],):
        end = start + size
        feeds = {name: inputs[name][:, start:end] for name in ("input_ids", "position_ids")}
        outputs = graph(feeds | {"attention_mask": inputs["attention_mask"][:, :end]} | past)
        past = _past(outputs)
        logits.append(outputs["logits"])
        start = end
    result.add("logits", np.concatenate(logits, 1))
    for name, array in past.items():
        result.add(name.replace("past_key_values", "present"), array)
    return result


def _past(outputs: Arrays) -> Arrays:
    return {
        name.replace("present", "past_key_values"): array
        for name, array in outputs.items()
        if name.startswith("present")
    }


def _translated(folder: Path, case: Case, inputs: Arrays) -> Outputs:
    """Outputs of an encoder and its decoders: the first piece without past, the others with it."""
    result = Outputs()
    encoded = Graph(folder / "encoder_model.onnx")(inputs)["last_hidden_state"]
    result.add("last_hidden_state", encoded)
    tokens = inputs["decoder_input_ids"]
    shared = {"encoder_hidden_states": encoded}
    if "attention_mask" in inputs:
        shared["encoder_attention_mask"] = inputs["attention_mask"]
    merged = folder / "decoder_model_merged.onnx"
    first = Graph(merged if merged.is_file() else folder / "decoder_model.onnx")
    later = first if merged.is_file() else Graph(folder / "decoder_with_past_model.onnx")
    logits, past, start = [], {}, 0
    for size in _pieces(case, tokens.shape[1]):
        graph = later if past else first
        feeds = shared | past | {"input_ids": tokens[:, start : start + size]}
        outputs = graph(feeds | {"use_cache_branch": np.array([bool(past)])})
        crossed = {name: array for name, array in past.items() if ".encoder." in name}
        past = _past(outputs) | crossed
        logits.append(outputs["logits"])
        start += size
    result.add("logits", np.concatenate(logits, 1))
    return result


def _pieces(case: Case, length: int) -> tuple[int, ...]:
    """The case's pieces, of which the last takes all that is left."""
    if not case.pieces:
        return (length,)
    pieces, left = [], length
    for size in case.pieces:
        pieces.append(min(size, left))
        left -= pieces[-1]
    return tuple(size for size in (*pieces, left) if size)
