"""Targets: the configuration and the weights of checkpoints."""

import json
from random import Random

import tiny_checkpoint
import tiny_quantised

import txexport
from fuzzing import containers, gguf, json_values, pickled
from fuzzing.case import Case
from fuzzing.seeds import EXPERTS, GGUF, PICKLED


def config(case: Case) -> None:
    """config.json of a checkpoint of any family."""
    folder = case.copy(f"families/{case.random.choice(list(tiny_checkpoint.FAMILIES))}")
    case.change(folder / "config.json", json_values.change)
    case.attempt(txexport.inspect, folder)
    case.try_checkpoint(folder)


def safetensors(case: Case) -> None:
    """The weights of a checkpoint."""
    folder = case.copy(f"families/{case.random.choice(('bert', 'gpt2', 'clip', 't5'))}")
    case.change(folder / "model.safetensors", containers.safetensors)
    case.attempt(txexport.inspect, folder)
    case.try_checkpoint(folder)


def pickled_weights(case: Case) -> None:
    """A pytorch_model.bin, in one of its two formats, and as training frameworks save it."""
    folder = case.copy(f"checkpoints/{case.random.choice(list(PICKLED))}")
    case.change(folder / "pytorch_model.bin", pickled.change)
    case.attempt(txexport.inspect, folder)
    case.try_checkpoint(folder)


def adapter(case: Case) -> None:
    """An adapter of a checkpoint: its config, or its weights."""
    base, folder = case.copy("families/bert"), case.copy("adapter")
    if case.random.random() < 0.5:
        case.change(folder / "adapter_config.json", json_values.change)
    else:
        case.change(folder / "adapter_model.safetensors", containers.safetensors)
    case.attempt(txexport.export, base, case.work / "out", adapter=folder, only="native")


def shards(case: Case) -> None:
    """The index of a checkpoint in several files, or one of them."""
    folder = case.copy("checkpoints/sharded")
    if case.random.random() < 0.7:
        case.change(folder / "model.safetensors.index.json", json_values.change)
    else:
        files = sorted(folder.glob("*.safetensors"))
        case.change(case.random.choice(files), containers.safetensors)
    case.try_checkpoint(folder)


def quantised(case: Case) -> None:
    """The quantization_config of a quantised checkpoint, or its tensors."""
    folder = case.copy(f"quantised/{case.random.choice([*tiny_quantised.FORMATS, EXPERTS])}")
    if case.random.random() < 0.4:
        case.change(folder / "config.json", _quantisation)
    else:
        case.change(folder / "model.safetensors", containers.safetensors)
    case.attempt(txexport.inspect, folder)
    case.try_checkpoint(folder)


def _quantisation(random: Random, data: bytes) -> tuple[bytes, str]:
    """Write a config.json with another quantization_config."""
    values, key = json.loads(data), "quantization_config"
    values[key], note = json_values.change_value(random, values[key])
    return json_values.dumps(values).encode(), f"{key}: {note}"


def gguf_file(case: Case) -> None:
    """A GGUF file: its header, from which a config, tensors and a tokenizer are made."""
    file = case.copy(f"files/{case.random.choice(list(GGUF))}.gguf")
    case.change(file, gguf.change)
    case.attempt(txexport.inspect, file)
    case.try_checkpoint(file)
