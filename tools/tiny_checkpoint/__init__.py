"""Small random checkpoints in transformers' format, with a tokenizer: for tests and demonstrations.

PYTHONPATH=tools python -m tiny_checkpoint gpt2 FOLDER

Weights are drawn so that a missing term is always detected: no norm scale is 1 and no bias is 0.
The sizes are in modules by subject; each family's row of `FAMILIES` is in `_rows_texts` or `_rows_others`.
"""

from tiny_checkpoint._building import WITHIN, build, save
from tiny_checkpoint._decoders import GEMMA2, LLAMA, MINISTRAL3
from tiny_checkpoint._detection import DETR, LW_DETR, RF_DETR, RT_DETR
from tiny_checkpoint._dual_encoders import CLAP, CLAP_SOUNDS, CLIP, CLIPSEG
from tiny_checkpoint._encoder_decoders import BERTS, CAPTIONS, SPEECH, T5GEMMA, WHISPER
from tiny_checkpoint._encoders import BERT
from tiny_checkpoint._experts import MISTRAL4
from tiny_checkpoint._families import FAMILIES
from tiny_checkpoint._images import DEPTH, SWIN, VIT
from tiny_checkpoint._pictured import AXES, CANVASES, FLORENCE2, PIXTRAL, QWEN2_VL
from tiny_checkpoint._segmentation import DETR_MASKS, FOUR_STAGES, MASKFORMER, RESNET_MAPS, SAM2, UPERNET
from tiny_checkpoint._sounds import AST, AUDIO_FLAMINGO3, PARAKEET, QWEN2_AUDIO, VOXTRAL, WAV2VEC2_BERT
from tiny_checkpoint._vocabulary import IDS, VOCAB

__all__ = [
    "AST",
    "AUDIO_FLAMINGO3",
    "AXES",
    "BERT",
    "BERTS",
    "CANVASES",
    "CAPTIONS",
    "CLAP",
    "CLAP_SOUNDS",
    "CLIP",
    "CLIPSEG",
    "DEPTH",
    "DETR",
    "DETR_MASKS",
    "FAMILIES",
    "FLORENCE2",
    "FOUR_STAGES",
    "GEMMA2",
    "IDS",
    "LLAMA",
    "LW_DETR",
    "MASKFORMER",
    "MINISTRAL3",
    "MISTRAL4",
    "PARAKEET",
    "PIXTRAL",
    "QWEN2_AUDIO",
    "QWEN2_VL",
    "RESNET_MAPS",
    "RF_DETR",
    "RT_DETR",
    "SAM2",
    "SPEECH",
    "SWIN",
    "T5GEMMA",
    "UPERNET",
    "VIT",
    "VOCAB",
    "VOXTRAL",
    "WAV2VEC2_BERT",
    "WHISPER",
    "WITHIN",
    "build",
    "save",
]
