"""optimum-intel: OVModelFor... of a bundle's graphs, converted by OpenVINO at load."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import optimum.intel as intel
import torch

PACKAGES = ["openvino", "optimum-intel", "optimum", "transformers", "torch"]
CLASSES = {
    "feature-extraction": intel.OVModelForFeatureExtraction,
    "fill-mask": intel.OVModelForMaskedLM,
    "text-classification": intel.OVModelForSequenceClassification,
    "token-classification": intel.OVModelForTokenClassification,
    "question-answering": intel.OVModelForQuestionAnswering,
    "image-classification": intel.OVModelForImageClassification,
    "audio-classification": intel.OVModelForAudioClassification,
    "audio-frame-classification": intel.OVModelForAudioFrameClassification,
    "audio-xvector": intel.OVModelForAudioXVector,
    "zero-shot-image-classification": intel.OVModelForZeroShotImageClassification,
    "mask-generation": intel.OVSamModel,
    "text-generation": intel.OVModelForCausalLM,
    "text2text-generation": intel.OVModelForSeq2SeqLM,
    "automatic-speech-recognition": intel.OVModelForSpeechSeq2Seq,
}
# Each class looks for one file name in one folder; classes of several graphs ignore `subfolder`.
ONE_GRAPH = {"file_name": "onnx/model.onnx"}
THREE_GRAPHS = {
    "encoder_file_name": "onnx/encoder_model.onnx",
    "decoder_file_name": "onnx/decoder_model.onnx",
    "decoder_with_past_file_name": "onnx/decoder_with_past_model.onnx",
}
TWO_GRAPHS = {
    "vision_encoder_file_name": "onnx/vision_encoder.onnx",
    "prompt_encoder_mask_decoder_file_name": "onnx/prompt_encoder_mask_decoder.onnx",
}
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}  # the default is bfloat16 on processors that have it


def _has_boxes(bundle: Path) -> bool:
    """Tell whether a model reads boxes of words, which the classes of tasks do not pass on."""
    return json.loads((bundle / "txexport.json").read_text(encoding="utf-8"))["spec"]["type"] == "document"


@cache
def load(bundle: Path, task: str) -> Any:
    """The model; one that recognises speech in one graph has a CTC head."""
    if (bundle / "openvino_model.xml").exists():
        return CLASSES[task].from_pretrained(bundle, ov_config=EXACT)
    ctc = task == "automatic-speech-recognition" and not any(bundle.glob("onnx/encoder_model*.onnx"))
    has_three = task in ("text2text-generation", "automatic-speech-recognition") and not ctc
    one = intel.OVModelForCustomTasks if _has_boxes(bundle) else CLASSES[task]
    kind, files = intel.OVModelForCTC if ctc else one, THREE_GRAPHS if has_three else ONE_GRAPH
    files = TWO_GRAPHS if task == "mask-generation" else files
    return kind.from_pretrained(bundle, from_onnx=True, ov_config=EXACT, **files)


def forward(bundle: Path, task: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensor outputs of one pass, by name."""
    inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
    outputs = load(bundle, task)(**inputs)
    return {name: value.numpy() for name, value in outputs.items() if isinstance(value, torch.Tensor)}


def generate(
    bundle: Path, task: str, arrays: dict[str, np.ndarray], settings: dict[str, Any]
) -> dict[str, np.ndarray]:
    """`sequences` (B,S) with the settings of transformers' generate."""
    inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return {"sequences": load(bundle, task).generate(**inputs, **settings).numpy()}
