"""The readers of external data that are fuzzed: one function each, listed in TARGETS.

A function makes one mutant of a seed, from the case's random source alone, and passes it to its reader
through `case.attempt`, which accepts only a result or a TxexportError with a message of one line.
"""

import base64
import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import numpy as np
import onnx
import tiny_checkpoint
import tiny_quantised
from sentencepiece import sentencepiece_model_pb2

import txexport
from fuzzing import (
    arguments,
    commands,
    containers,
    forms,
    gguf,
    http,
    hub,
    json_values,
    language_models,
    pickled,
    protobuf,
    raw_bytes,
    templates,
)
from fuzzing.case import LONGEST, TEXTS, Case, FaultError, ask, look
from fuzzing.seeds import EXPERTS, GGUF, IMAGE_FORMATS, PICKLED, PYTHON, SOUND_FORMATS
from txexport.bundle.proof import ANSWERS
from txexport.checkpoints.checkpoint import sha256
from txexport.runtime.preprocessing.extractors import read_extractor
from txexport.verification.attestations.hash_tree import root_of
from txexport.verification.attestations.statement import PAYLOAD
from txexport.verification.attestations.statement import read as read_statement

SENTENCES = ("modules.json", "1_Pooling/config.json", "2_Dense/config.json", "sentence_bert_config.json")


@dataclass(frozen=True)
class Target:
    """A reader: its function, and its relative weight."""

    run: Callable[[Case], None]
    weight: int = 1


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


def tokenizer(case: Case) -> None:
    """tokenizer.json and its settings, for tasks that use tokens' texts and offsets."""
    kinds = ("decoder", "classifier", "reader", "tagger", "pretrained", "chooser", "sentences", "towers")
    folder = case.copy(f"checkpoints/{case.random.choice(kinds)}")
    file = folder / case.random.choice(("tokenizer.json", "tokenizer.json", "tokenizer_config.json"))
    case.change(file, json_values.change)
    case.try_checkpoint(folder)


def vocabulary(case: Case) -> None:
    """Sources of a tokenizer.json: SentencePiece, vocab.json, vocab.txt."""
    names = ("translator", "translator", "languages", "languages", "words", *PYTHON)
    folder = case.copy(f"checkpoints/{case.random.choice(names)}")
    if folder.name in PYTHON:
        text = folder.name == "protein" and case.random.random() < 0.5
        name, how = ("vocab.txt", raw_bytes.change) if text else ("tokenizer_config.json", json_values.change)
        case.change(folder / name, how)
    elif folder.name == "words":
        case.change(folder / "vocab.txt", raw_bytes.change)
    elif case.random.random() < 0.5:
        kind = sentencepiece_model_pb2.ModelProto
        (model,) = [
            path for name in ("*.spm", "*.model") for path in folder.glob(name) if path.stem != "target"
        ]
        case.change(model, partial(protobuf.change, kind=kind))
    else:
        name = case.random.choice(("vocab.json", "vocab.json", "tokenizer_config.json"))
        case.change(folder / name, json_values.change)
    case.try_checkpoint(folder)


def generation_config(case: Case) -> None:
    """generation_config.json of a decoder, a translator, a speech model."""
    folder = case.copy(f"checkpoints/{case.random.choice(('decoder', 'translator', 'speech'))}")
    case.change(folder / "generation_config.json", json_values.change)
    case.try_checkpoint(folder, lambda model: ask(model), _asked_for_its_own_length)


def _asked_for_its_own_length(model: txexport.Model) -> object:
    return None if model.manifest.task == "automatic-speech-recognition" else model.generate(TEXTS)


SEEING = (  # not "objects", whose images by default take longer than a mutant may
    *("images", "towers", "depths", "poses", "segments", "masks", "patches", "described"),
    *("captions", "seen", "pages", "questioned", "drawn"),
)


def processor(case: Case) -> None:
    """preprocessor_config.json, or processor_config.json, of images and of audio."""
    folder = case.copy(f"checkpoints/{case.random.choice(('speech', *SEEING))}")
    file = folder / "preprocessor_config.json"
    if case.random.random() < 0.3:
        part = "feature_extractor" if folder.name == "speech" else "image_processor"
        together = folder / "processor_config.json"
        together.write_text(json.dumps({part: json.loads(file.read_bytes())}))
        file = together
    case.change(file, json_values.change)
    case.try_checkpoint(folder, look)


def recogniser(case: Case) -> None:
    """The vocabulary, settings and config.json of a model with a CTC head."""
    name, vocabulary = case.random.choice((("letters", "vocab.json"), ("subsampled", "tokenizer.json")))
    folder = case.copy(f"checkpoints/{name}")
    names = (vocabulary, "tokenizer_config.json", "preprocessor_config.json", "config.json")
    case.change(folder / case.random.choice(names), json_values.change)
    case.try_checkpoint(folder)


SOUND = np.sin(np.arange(4000, dtype=np.float32))


def extractor(case: Case) -> None:
    """The settings of a feature extractor of sounds, and its features."""
    folder = case.copy(f"checkpoints/{case.random.choice(('frames', 'subsampled', 'letters', 'noises'))}")
    case.change(folder / "preprocessor_config.json", json_values.change)
    case.attempt(lambda: read_extractor(folder).inputs(SOUND))


CHAT_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"continue_final_message": True},
    {"chat_template_kwargs": {"bos_token": "x" * 99, "loop": [], "namespace": None, "range": 1}},
    {"chat_template": "default", "chat_template_kwargs": {"documents": [{"title": {"title": "\0"}}]}},
)


def chat_template(case: Case) -> None:
    """chat_template.jinja, that of tokenizer_config.json, or a named one; its variables; continuation."""
    folder = case.copy("checkpoints/decoder")
    file = case.change(folder / "chat_template.jinja", templates.change)
    kind, options = case.random.random(), case.random.choice(CHAT_OPTIONS)
    if kind < 0.2:
        (folder / "additional_chat_templates").mkdir()
        file.rename(folder / "additional_chat_templates/default.jinja")
    elif kind < 0.5:
        settings = json.loads((folder / "tokenizer_config.json").read_bytes())
        settings["chat_template"] = file.read_text("utf-8", errors="replace")
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        file.unlink()
    messages = [{"role": "system", "content": "the"}, {"role": "user", "content": "cat"}]
    case.try_checkpoint(folder, lambda model: model.chat(messages, max_new_tokens=3, **options))


def sentence_transformers(case: Case) -> None:
    """modules.json and the files that it refers to."""
    folder = case.copy("checkpoints/sentences")
    name = case.random.choice((*SENTENCES, SENTENCES[0], "config_sentence_transformers.json", None))
    if name is None:
        case.change(folder / "2_Dense/model.safetensors", containers.safetensors)
    else:
        case.change(folder / name, json_values.change)
    case.try_checkpoint(folder)


def late_interaction(case: Case) -> None:
    """artifact.metadata of ColBERT, or the settings that a bundle has from it."""
    if case.random.random() < 0.5:
        folder = case.copy("checkpoints/tokens")
        case.change(folder / "artifact.metadata", json_values.change)
        case.try_checkpoint(folder, lambda model: model.rerank(TEXTS[0], TEXTS))
        return
    folder = case.copy("bundles/tokens")
    files = ("config_sentence_transformers.json", "modules.json", "1_Dense/config.json")
    case.change(folder / case.random.choice(files), json_values.change)
    model = case.attempt(txexport.load, folder, device="cpu", threads=1, check=False)
    if model is not None:
        case.attempt(model.rerank, TEXTS[0], TEXTS)


def sound(case: Case) -> None:
    """A WAV file."""
    file = case.change(case.copy("files/sound.wav"), containers.wav)
    case.attempt(case.model("speech").transcribe, file, max_new_tokens=3)
    case.attempt(case.model("noises").classify_audio, file)


def sound_file(case: Case) -> None:
    """A sound file that libsndfile decodes, as a path, as bytes, and in pieces."""
    name = case.random.choice(("float.wav", *(f"sound.{kind.lower()}" for kind in SOUND_FORMATS)))
    how = containers.wav if name == "float.wav" else raw_bytes.change
    file = case.change(case.copy(f"files/{name}"), how)
    letters = case.model("letters")
    case.attempt(letters.transcribe, file, timestamps="word")
    case.attempt(lambda: list(letters.stream_transcript(file.read_bytes(), chunk_length_s=0.1)))
    case.attempt(case.model("speech").transcribe, file, max_new_tokens=3)


def image(case: Case) -> None:
    """An image file, half of them PNG."""
    kind = case.random.choice(("PNG",) * len(IMAGE_FORMATS) + IMAGE_FORMATS).lower()
    how = containers.png if kind == "png" else raw_bytes.change
    file = case.change(case.copy(f"files/image.{kind}"), how)
    case.attempt(case.model("towers").embed_image, file)
    case.attempt(case.model("images").classify_image, file)


def npz(case: Case) -> None:
    """Inputs of `compare`."""
    file = case.change(case.copy("files/inputs.npz"), containers.npz)
    graph = case.seeds / "bundles/sentences/onnx/model.onnx"
    case.attempt(txexport.compare, graph, graph, inputs=[file])


def manifest(case: Case) -> None:
    """txexport.json, read by inspect, by load, and by an export that replaces the bundle."""
    name = case.random.choice(("classifier", "decoder", "towers", "translator"))
    folder = case.copy(f"bundles/{name}")
    case.change(folder / "txexport.json", json_values.change)
    case.attempt(txexport.inspect, folder)
    case.try_bundle(folder)
    case.attempt(txexport.export, case.seeds / "checkpoints" / name, folder, force=True)


def companion(case: Case) -> None:
    """A file beside a bundle's graphs, changed after export."""
    name = case.random.choice(
        ("classifier", "decoder", "speech", "noises", "images", "sentences", "translator")
    )
    folder = case.copy(f"bundles/{name}")
    files = [file for file in sorted(folder.rglob("*")) if file.suffix in HOWS]
    file = case.random.choice([file for file in files if file.name != "txexport.json"])
    case.change(file, HOWS[file.suffix])
    case.attempt(txexport.inspect, folder)
    case.try_bundle(folder)


def onnx_file(case: Case) -> None:
    """An ONNX file for `compare`."""
    folder = case.copy(f"bundles/{case.random.choice(('sentences', 'decoder', 'pretrained'))}")
    file = case.change(folder / "onnx/model.onnx", HOWS[".onnx"])
    case.attempt(txexport.compare, case.seeds / f"bundles/{folder.name}/onnx/model.onnx", file)


def onnx_bundle(case: Case) -> None:
    """A graph in a bundle, with its hash in the manifest updated."""
    folder = case.copy(f"bundles/{case.random.choice(('sentences', 'decoder', 'pretrained'))}")
    text = json.loads((folder / "txexport.json").read_bytes())
    graph = text["formats"]["float32"]["native"]["model"]
    file = case.change(folder / graph["file"], HOWS[".onnx"])
    graph["sha256"] = sha256(file)
    (folder / "txexport.json").write_text(json.dumps(text))
    case.attempt(txexport.inspect, folder)
    case.try_bundle(folder)


def verified(case: Case) -> None:
    """Any file of a bundle or of its checkpoint, and texts, as read by verify."""
    name = case.random.choice(("classifier", "images", "decoder", "sentences"))
    bundle, source = case.copy(f"bundles/{name}"), case.work / "source"
    shutil.copytree(case.seeds / "checkpoints" / name, source)
    texts = case.work / "texts.txt"
    texts.write_text("the cat\na dog\tthe rug\n")
    folder = case.random.choice((bundle, bundle, source, texts))
    files = [file for file in sorted(folder.rglob("*")) if file.suffix in HOWS] or [texts]
    file = case.random.choice(files)
    case.change(file, HOWS[file.suffix])
    options = {"texts": texts} if folder == texts else {}
    case.attempt(lambda: txexport.verify(bundle, source=source, **OF_VERIFY, **options) and None)


def answers(case: Case) -> None:
    """The answers that a bundle keeps, with their hash in the manifest updated, as read by verify_here."""
    folder = case.copy(f"proved/{case.random.choice(('classifier', 'decoder'))}")
    before = sha256(folder / ANSWERS)

    def packed(random: Random, data: bytes) -> tuple[bytes, str]:
        content, note = json_values.change(random, gzip.decompress(data))
        return gzip.compress(content), note

    file = case.change(folder / ANSWERS, case.random.choice((packed, packed, raw_bytes.change)))
    manifest = folder / "txexport.json"
    manifest.write_text(manifest.read_text().replace(before, sha256(file)))
    case.attempt(lambda: txexport.verify_here(folder, device="cpu") and None)


def attestation(case: Case) -> None:
    """A statement, alone and in an envelope, whose roots often fit its changed leaves."""
    name = case.random.choice(("classifier", "decoder"))
    folder, file = case.copy(f"proved/{name}"), case.copy(f"statements/{name}.json")
    case.change(file, case.random.choice((json_values.change, _leaf, _leaf, raw_bytes.change)))
    if case.random.random() < 0.3:
        payload = base64.b64encode(file.read_bytes()).decode()
        values = {"payloadType": PAYLOAD, "payload": payload, "signatures": [{"sig": ""}]}
        file.write_text(json.dumps({"dsseEnvelope": values}))
        if case.random.random() < 0.3:
            case.change(file, json_values.change)
    elif (statement := case.attempt(lambda: Hidden(read_statement(file)))) is not None:
        roots = {"weights": root_of(statement.value.weights), "checkpoint": root_of(statement.value.tensors)}
        values = json.loads(file.read_bytes())
        for section, root in roots.items():
            values["predicate"][section]["root"] = root
        file.write_text(json.dumps(values))
    source = case.random.choice((None, None, case.seeds / "checkpoints" / name))
    report = case.attempt(lambda: Hidden(txexport.verify_attestation(folder, file, source=source)))
    for sentence in report.value.differences if report is not None else ():
        if len(sentence.splitlines()) != 1 or len(sentence) > LONGEST:
            raise FaultError(f"a difference not of one line: {sentence[:100]!r}")


def _leaf(random: Random, data: bytes) -> tuple[bytes, str]:
    """Change a leaf of a statement."""
    values = json.loads(data)
    leaves = values["predicate"][random.choice(("weights", "weights", "checkpoint"))]["leaves"]
    number = random.randrange(len(leaves))
    leaves[number], note = json_values.change_value(random, leaves[number])
    return json_values.dumps(values).encode(), f"leaf {number}: {note}"


@dataclass(frozen=True)
class Hidden:
    """A result whose numbers are not examined."""

    value: Any


OF_VERIFY = {"cases": "quick", "reference": "twin"}
HOWS = {
    ".json": json_values.change,
    ".npz": containers.npz,
    ".safetensors": containers.safetensors,
    ".onnx_data": containers.safetensors,
    ".jinja": templates.change,
    ".onnx": partial(protobuf.change, kind=onnx.ModelProto),
    ".txt": raw_bytes.change,
}
TARGETS = {
    "config": Target(config, 6),
    "safetensors": Target(safetensors, 2),
    "pickled": Target(pickled_weights, 3),
    "adapter": Target(adapter),
    "hub": Target(hub.answers, 2),
    "shards": Target(shards),
    "quantised": Target(quantised, 3),
    "gguf": Target(gguf_file, 3),
    "tokenizer": Target(tokenizer, 3),
    "vocabulary": Target(vocabulary, 2),
    "ctc": Target(recogniser, 2),
    "language-model": Target(language_models.language_model),
    "extractor": Target(extractor, 2),
    "generation-config": Target(generation_config, 2),
    "processor": Target(processor, 2),
    "chat-template": Target(chat_template, 2),
    "sentence-transformers": Target(sentence_transformers, 2),
    "late-interaction": Target(late_interaction),
    "wav": Target(sound, 2),
    "sound": Target(sound_file, 3),
    "image": Target(image, 2),
    "npz": Target(npz),
    "manifest": Target(manifest, 2),
    "companion": Target(companion, 2),
    "onnx": Target(onnx_file, 2),
    "onnx-bundle": Target(onnx_bundle),
    "verify": Target(verified),
    "answers": Target(answers),
    "attestation": Target(attestation),
    "http": Target(http.body, 2),
    "form": Target(forms.form),
    "arguments": Target(arguments.of_models, 6),
    "inputs": Target(arguments.of_graphs, 2),
    "functions": Target(arguments.of_functions, 2),
    "command": Target(commands.command, 2),
}
