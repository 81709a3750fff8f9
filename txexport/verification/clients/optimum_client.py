"""optimum-onnx: ORTModelFor... of a bundle, its outputs, generation and pipelines."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import optimum.onnxruntime as ort
import torch
import transformers

PACKAGES = ["optimum-onnx", "optimum", "transformers", "torch", "onnxruntime"]
CLASSES = {
    "feature-extraction": ort.ORTModelForFeatureExtraction,
    "fill-mask": ort.ORTModelForMaskedLM,
    "text-classification": ort.ORTModelForSequenceClassification,
    "token-classification": ort.ORTModelForTokenClassification,
    "question-answering": ort.ORTModelForQuestionAnswering,
    "multiple-choice": ort.ORTModelForMultipleChoice,
    "image-classification": ort.ORTModelForImageClassification,
    "image-segmentation": ort.ORTModelForSemanticSegmentation,
    "audio-classification": ort.ORTModelForAudioClassification,
    "audio-frame-classification": ort.ORTModelForAudioFrameClassification,
    "audio-xvector": ort.ORTModelForAudioXVector,
    "zero-shot-image-classification": ort.ORTModelForZeroShotImageClassification,
    "text-generation": ort.ORTModelForCausalLM,
    "text2text-generation": ort.ORTModelForSeq2SeqLM,
    "image-to-text": ort.ORTModelForVision2Seq,
    "automatic-speech-recognition": ort.ORTModelForSpeechSeq2Seq,
}


def _has_boxes(bundle: Path) -> bool:
    """Tell whether a model reads boxes of words, which the classes of tasks do not pass on.

    One on a hub is taken for one that does not.
    """
    manifest = bundle / "txexport.json"
    return (
        manifest.is_file() and json.loads(manifest.read_text(encoding="utf-8"))["spec"]["type"] == "document"
    )


@cache
def load(bundle: Path, task: str, **loading: Any) -> Any:
    """The model; one that recognises speech in one graph has a CTC head, one of pages its own class."""
    speech = task == "automatic-speech-recognition" and bundle.is_dir()  # on a hub, it has two graphs
    ctc = speech and not any(bundle.glob("onnx/encoder_model*.onnx"))
    kind = ort.ORTModelForCTC if ctc else ort.ORTModelForCustomTasks if _has_boxes(bundle) else CLASSES[task]
    return kind.from_pretrained(str(bundle), **loading)


def forward(bundle: Path, task: str, arrays: dict[str, np.ndarray], **loading: Any) -> dict[str, np.ndarray]:
    """The tensor outputs of one pass, by name."""
    inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
    outputs = load(bundle, task, **loading)(**inputs)
    return {name: value.numpy() for name, value in outputs.items() if isinstance(value, torch.Tensor)}


def generate(
    bundle: Path,
    task: str,
    arrays: dict[str, np.ndarray],
    settings: dict[str, Any],
    loading: dict[str, Any] | None = None,
) -> dict[str, np.ndarray]:
    """`sequences` (B,S) with the settings of transformers' generate."""
    inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return {"sequences": load(bundle, task, **(loading or {})).generate(**inputs, **settings).numpy()}


def pipelines(
    bundle: Path,
    task: str,
    arrays: dict[str, np.ndarray],
    inputs: Any,
    settings: dict[str, Any],
    checkpoint: str,
) -> dict[str, Any]:
    """`answer`, by optimum's pipeline with the bundle; `expected`, by transformers' with the checkpoint."""
    return {
        "answer": ort.pipeline(task, model=str(bundle), accelerator="ort")(inputs, **settings),
        "expected": transformers.pipeline(task, model=checkpoint)(inputs, **settings),  # type: ignore[call-overload]
    }
