"""Calls of an export's graphs, each with the outputs of the original in transformers on the same inputs."""

import inspect
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from export_bench.runs import original

Arrays = dict[str, np.ndarray]


@dataclass
class Example:
    """The inputs that a checker takes: a batch of texts of one length, with masks of a kind."""

    batch: int
    length: int
    mask: str = "ones"  # or "random", of which the first is 1, or "triangle": rows of 3, 4, … tokens
    past: int = 0  # of the tokens, those that come as past keys and values


class Call(torch.nn.Module):
    """The original behind one graph, with the graph's inputs and outputs in their order."""

    def __init__(self, model: Any, file: Path, feeds: Arrays) -> None:
        super().__init__()
        self.model, self.file = model, file
        graph = onnx.load(file, load_external_data=False).graph
        self.names = [one.name for one in graph.input]
        self.outputs = [one.name for one in graph.output]
        self.feeds = {name: feeds[name] for name in self.names}

    @property
    def arguments(self) -> tuple[torch.Tensor, ...]:
        """The inputs in the graph's order."""
        return tuple(torch.from_numpy(one) for one in self.feeds.values())

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The outputs by the graph's names."""
        inputs = dict(zip(self.names, tensors, strict=True))
        if self.file.name == "encoder_model.onnx":
            return (self.model.get_encoder()(**inputs).last_hidden_state,)
        if "decoder" in self.file.name:
            return self._decoded(inputs)
        past = _cache(inputs, "")
        if past is not None:
            inputs = {name: one for name, one in inputs.items() if not name.startswith("past")}
            inputs |= {"past_key_values": past, "use_cache": True}
        output = self.model(**inputs)
        presents = {} if past is None else _presents(output.past_key_values, "")
        return tuple(presents[name] if name in presents else output[name] for name in self.outputs)

    def _decoded(self, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        branch = inputs.pop("use_cache_branch", None)
        steps = self.file.name.startswith("decoder_with_past") or (branch is not None and bool(branch))
        decoded, crossed = (_cache(inputs, part) for part in ("decoder.", "encoder."))
        if not steps:
            decoded, crossed = DynamicCache(), DynamicCache()
        hidden = inputs.get("encoder_hidden_states")
        if hidden is None:
            keys = inputs["past_key_values.0.encoder.key"]
            hidden = keys.new_zeros((keys.shape[0], keys.shape[2], self.model.config.hidden_size))
        more = {}
        if "encoder_attention_mask" in inputs:
            more["attention_mask"] = inputs["encoder_attention_mask"]
        output = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=hidden),
            decoder_input_ids=inputs["input_ids"],
            past_key_values=EncoderDecoderCache(decoded, crossed),
            use_cache=True,
            **more,
        )
        values = {"logits": output.logits}
        values |= _presents(output.past_key_values.self_attention_cache, "decoder.")
        values |= _presents(output.past_key_values.cross_attention_cache, "encoder.")
        return tuple(values[name] for name in self.outputs)


def _cache(inputs: dict[str, torch.Tensor], part: str) -> DynamicCache | None:
    """The past of a graph's inputs, if it has one; a window does not shorten it."""
    count = sum(
        name.startswith("past") and name.endswith(f"{part}key") and len(name.split(".")) == 3 + bool(part)
        for name in inputs
    )
    if not count:
        return None
    cache = DynamicCache()
    for layer in range(count):
        keys, values = (inputs[f"past_key_values.{layer}.{part}{kind}"] for kind in ("key", "value"))
        cache.update(keys, values, layer)
    return cache


def _presents(cache: DynamicCache, part: str) -> dict[str, torch.Tensor]:
    return {
        f"present.{place}.{part}{kind}": tensor
        for place, layer in enumerate(cache.layers)
        for kind, tensor in (("key", layer.keys), ("value", layer.values))
    }


@cache
def model_of(checkpoint: str) -> Any:
    """The original; kept, since entries share checkpoints whose bytes are equal."""
    return original(Path(checkpoint))


_SHARED: dict[str, str] = {}


@torch.no_grad()
def calls(folder: Path, example: Example) -> list[Call]:
    """A call of every graph of an entry's export."""
    record = json.loads((folder / "entry.json").read_text(encoding="utf-8"))
    model = model_of(_SHARED.setdefault(record["source"], str(folder / "checkpoint")))
    export, feeds = folder / "export", inputs_of(model, record["model"], example)
    if record["model"] in ("encoder-decoder", "speech"):
        return _translating(model, export, feeds)
    file = export / "model.onnx"
    if record["model"] != "decoder":
        return [Call(model, file, feeds)]
    return [Call(model, file, _with_past(model, file, feeds, example.past))]


def _with_past(model: Any, file: Path, feeds: Arrays, count: int) -> Arrays:
    """A decoder's inputs with the first tokens as past keys and values, by the original."""
    graph = onnx.load(file, load_external_data=False).graph
    sizes = {
        one.name: [axis.dim_value for axis in one.type.tensor_type.shape.dim]
        for one in graph.input
        if one.name.startswith("past")
    }
    batch = len(feeds["input_ids"])
    past = {name: np.zeros((batch, shape[1], 0, shape[3]), np.float32) for name, shape in sizes.items()}
    if count:
        first = {name: torch.from_numpy(one[:, :count]) for name, one in feeds.items() if one.ndim == 2}
        accepted = inspect.signature(model.forward).parameters
        first = {name: one for name, one in first.items() if name in accepted}
        output = model(**first, past_key_values=DynamicCache(), use_cache=True)
        presents = _presents(output.past_key_values, "")
        past = {name: presents[name.replace("past_key_values", "present")].numpy() for name in past}
    step = {name: feeds[name][:, count:] for name in ("input_ids", "position_ids")}
    return feeds | step | past


def _translating(model: Any, export: Path, feeds: Arrays) -> list[Call]:
    """Calls of an encoder, of a decoder's first pass, and of a step behind it."""
    result = [Call(model, export / "encoder_model.onnx", feeds)]
    hidden = result[0](*result[0].arguments)[0].numpy()
    tokens = feeds["decoder_input_ids"]
    shared = {"encoder_hidden_states": hidden, "input_ids": tokens[:, :-1]}
    if "attention_mask" in feeds:
        shared["encoder_attention_mask"] = feeds["attention_mask"]
    first = Call(model, export / "decoder_model.onnx", shared)
    result.append(first)
    values = dict(zip(first.outputs, first(*first.arguments), strict=True))
    past = {
        name.replace("present", "past_key_values"): one.numpy()
        for name, one in values.items()
        if name.startswith("present")
    }
    step = shared | past | {"input_ids": tokens[:, -1:]}
    result.append(Call(model, export / "decoder_with_past_model.onnx", step))
    merged = export / "decoder_model_merged.onnx"
    if merged.is_file():
        empty = {name: one[:, :, :0] for name, one in past.items()}
        result.append(Call(model, merged, shared | empty | {"use_cache_branch": np.array([False])}))
        result.append(Call(model, merged, step | {"use_cache_branch": np.array([True])}))
    return result


def inputs_of(model: Any, kind: str, example: Example) -> Arrays:
    """Inputs of a kind of model, drawn with a fixed seed."""
    draw, config = np.random.default_rng(0), model.config
    shape = example.batch, example.length
    vocabulary = getattr(config, "text_config", config).vocab_size if kind not in ("images", "sound") else 2
    mask = np.ones(shape, np.int64)
    if example.mask == "random":
        mask = draw.integers(0, 2, shape)
        mask[:, 0] = 1
    elif example.mask == "triangle":
        mask = np.tril(mask, 2)
    feeds: Arrays = {
        "input_ids": draw.integers(3, vocabulary, shape) if vocabulary > 3 else mask,
        "attention_mask": mask,
        "token_type_ids": draw.integers(0, getattr(config, "type_vocab_size", 0) or 1, shape),
        "position_ids": np.maximum(mask.cumsum(1) - 1, 0),
        "decoder_input_ids": draw.integers(3, max(vocabulary, 4), shape),
    }
    vision = getattr(config, "vision_config", config)
    if hasattr(vision, "image_size"):
        side = vision.image_size
        feeds["pixel_values"] = draw.standard_normal((example.batch, 3, side, side), np.float32)
    if kind == "sound":
        feeds["input_values"] = draw.standard_normal((example.batch, 600), np.float32)
        feeds["attention_mask"] = np.ones((example.batch, 600), np.int64)
        if example.mask == "random":
            feeds["attention_mask"][1::2, 400:] = 0
    if kind == "speech":
        frames = 2 * config.max_source_positions
        feeds["input_features"] = draw.standard_normal(
            (example.batch, config.num_mel_bins, frames), np.float32
        )
        del feeds["attention_mask"]
    if kind == "texts and images":
        feeds["input_ids"][:, -1] = config.text_config.eos_token_id
        feeds["attention_mask"] = np.ones(shape, np.int64)
    return feeds
