"""The rows of encoders that are BERT, CLIP or ViT with something else; `rows.py` has all others."""

from helpers.row import FEATURES, SEE, Row

FIRST_MARK = {"eos_token_id": 2, "hidden_act": "gelu"}
PROJECTED = {"projection_dim": 36}

TOWERS = [
    Row("clip_text_model", "CLIPTextModel", FEATURES),
    Row("clip_text_model", "CLIPTextModelWithProjection", FEATURES, "projected", PROJECTED),
    Row("clip_text_model", "CLIPTextModel", FEATURES, "first releases' mark, gelu", FIRST_MARK),
    Row("clip_vision_model", "CLIPVisionModel", SEE),
    Row("clip_vision_model", "CLIPVisionModelWithProjection", SEE, "projected", PROJECTED),
]
