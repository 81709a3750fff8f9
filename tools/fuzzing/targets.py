"""The readers of external data that are fuzzed: one function each, listed in TARGETS.

A function makes one mutant of a seed, from the case's random source alone, and passes it to its reader
through `case.attempt`, which accepts only a result or a TxexportError with a message of one line.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fuzzing import (
    arguments,
    bundles,
    checkpoints,
    commands,
    forms,
    http,
    hub,
    inputs,
    language_models,
    settings,
)
from fuzzing.case import Case


@dataclass(frozen=True)
class Target:
    """A reader: its function, and its relative weight."""

    run: Callable[[Case], None]
    weight: int = 1


TARGETS = {
    "config": Target(checkpoints.config, 6),
    "safetensors": Target(checkpoints.safetensors, 2),
    "pickled": Target(checkpoints.pickled_weights, 3),
    "adapter": Target(checkpoints.adapter),
    "hub": Target(hub.answers, 2),
    "shards": Target(checkpoints.shards),
    "quantised": Target(checkpoints.quantised, 3),
    "gguf": Target(checkpoints.gguf_file, 3),
    "tokenizer": Target(settings.tokenizer, 3),
    "vocabulary": Target(settings.vocabulary, 2),
    "ctc": Target(settings.recogniser, 2),
    "language-model": Target(language_models.language_model),
    "extractor": Target(settings.extractor, 2),
    "generation-config": Target(settings.generation_config, 2),
    "processor": Target(settings.processor, 2),
    "chat-template": Target(settings.chat_template, 2),
    "sentence-transformers": Target(settings.sentence_transformers, 2),
    "late-interaction": Target(settings.late_interaction),
    "wav": Target(inputs.sound, 2),
    "sound": Target(inputs.sound_file, 3),
    "image": Target(inputs.image, 2),
    "npz": Target(inputs.npz),
    "manifest": Target(bundles.manifest, 2),
    "companion": Target(bundles.companion, 2),
    "onnx": Target(bundles.onnx_file, 2),
    "onnx-bundle": Target(bundles.onnx_bundle),
    "verify": Target(bundles.verified),
    "answers": Target(bundles.answers),
    "attestation": Target(bundles.attestation),
    "http": Target(http.body, 2),
    "form": Target(forms.form),
    "arguments": Target(arguments.of_models, 6),
    "inputs": Target(arguments.of_graphs, 2),
    "functions": Target(arguments.of_functions, 2),
    "command": Target(commands.command, 2),
}
