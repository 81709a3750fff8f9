"""Targets: the settings beside the weights of checkpoints, of tokenizers, processors, templates, modules."""

import json
from functools import partial
from typing import Any

import numpy as np
from sentencepiece import sentencepiece_model_pb2

import txexport
from fuzzing import containers, json_values, protobuf, raw_bytes, templates
from fuzzing.case import TEXTS, Case, ask, look
from fuzzing.seeds import PYTHON
from txexport.runtime.preprocessing.extractors import read_extractor

SENTENCES = ("modules.json", "1_Pooling/config.json", "2_Dense/config.json", "sentence_bert_config.json")


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
