"""Other names of dtypes and tasks, which are accepted wherever the canonical name is.

They are those of transformers' pipelines, optimum, transformers.js and the Hugging Face Hub.
"""

from collections.abc import Mapping

DTYPES: Mapping[str, str] = {
    "fp32": "float32",
    "f32": "float32",
    "fp16": "float16",
    "f16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "q8": "int8-fast",  # transformers.js opens the file of that suffix
    "quantized": "int8-fast",
    "q4": "int4",
}
TASKS: Mapping[str, str] = {
    "sentence-similarity": "feature-extraction",
    "sentiment-analysis": "text-classification",
    "sequence-classification": "text-classification",
    "text-ranking": "text-classification",
    "zero-shot-classification": "text-classification",
    "masked-lm": "fill-mask",
    "mlm": "fill-mask",
    "ner": "token-classification",
    "qa": "question-answering",
    "causal-lm": "text-generation",
    "clm": "text-generation",
    "text-generation-with-past": "text-generation",
    "seq2seq-lm": "text2text-generation",
    "summarization": "text2text-generation",
    "text2text-generation-with-past": "text2text-generation",
    "translation": "text2text-generation",
    "asr": "automatic-speech-recognition",
    "audio-ctc": "automatic-speech-recognition",
    "automatic-speech-recognition-with-past": "automatic-speech-recognition",
    "speech2seq-lm": "automatic-speech-recognition",
    "image-captioning": "image-to-text",
    "image-to-text-with-past": "image-to-text",
    "vision2seq-lm": "image-to-text",
    "semantic-segmentation": "image-segmentation",
    "keypoint-detection": "pose-estimation",
    "speaker-diarization": "audio-frame-classification",
    "speaker-verification": "audio-xvector",
}


def dtype_named(name: str) -> str:
    """The canonical name of a dtype; a name that is no alias is returned as it is."""
    return DTYPES.get(name, name)


def task_named(name: str) -> str:
    """The canonical name of a task; a name that is no alias is returned as it is."""
    return TASKS.get(name, name)
