"""The rows of encoders that are BERT, CLIP or ViT with something else; `rows.py` has all others."""

from helpers.row import CLASSIFY, FEATURES, FILL, LABELS, SEE, TAG, UNTIED, Row

FIRST_MARK = {"eos_token_id": 2, "hidden_act": "gelu"}
PROJECTED = {"projection_dim": 36}

BERTS = [
    Row("gte", "GteModel", FEATURES),
    Row("gte", "GteModel", FEATURES, "no segments, own head_dim", {"type_vocab_size": 0, "head_dim": 10}),
    Row("gte", "GteForMaskedLM", FILL),
    Row("gte", "GteForMaskedLM", FILL, "untied", UNTIED),
    Row("gte", "GteForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("gte", "GteForTokenClassification", TAG, "5 labels", LABELS),
    Row("nomic_bert", "NomicBertModel", FEATURES),
    Row("nomic_bert", "NomicBertForMaskedLM", FILL),
    Row("nomic_bert", "NomicBertForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("nomic_bert", "NomicBertForTokenClassification", TAG, "5 labels", LABELS),
]

TOWERS = [
    Row("clip_text_model", "CLIPTextModel", FEATURES),
    Row("clip_text_model", "CLIPTextModelWithProjection", FEATURES, "projected", PROJECTED),
    Row("clip_text_model", "CLIPTextModel", FEATURES, "first releases' mark, gelu", FIRST_MARK),
    Row("clip_vision_model", "CLIPVisionModel", SEE),
    Row("clip_vision_model", "CLIPVisionModelWithProjection", SEE, "projected", PROJECTED),
]
