"""The rows of encoders that are BERT, CLIP or ViT with something else; `rows.py` has all others."""

from helpers.row import (
    CLASSIFY,
    FEATURES,
    FILL,
    LABELS,
    MATCH,
    NEXT,
    PRETRAIN,
    SEE,
    TAG,
    TIED,
    TRANSLATE,
    UNTIED,
    Row,
    encoder,
    heads,
)

TASK_IDS = {"use_task_id": True, "task_type_vocab_size": 3, "type_vocab_size": 4}
BIASED = TIED | {"mlp_bias": True, "attention_bias": True, "head_dim": 10}
MEAN, FIRST = ({"classifier_pooling": kind} | LABELS for kind in ("mean", "bos"))
BARE = {"type_vocab_size": 0, "head_dim": 10}

VECTOR = {"projection_dim": 36}

BERTS = [
    Row("dpr", "DPRQuestionEncoder", FEATURES),
    Row("dpr", "DPRContextEncoder", FEATURES, "passages, projected", VECTOR),
    Row("ernie", "ErnieModel", FEATURES, "task ids", TASK_IDS),
    *heads(encoder("ernie", "Ernie")),
    Row("ernie", "ErnieForPreTraining", PRETRAIN, slow=True),
    Row("ernie", "ErnieForNextSentencePrediction", NEXT, slow=True),
    Row("eurobert", "EuroBertModel", FEATURES),
    Row("eurobert", "EuroBertForMaskedLM", FILL, slow=True),
    Row("eurobert", "EuroBertForMaskedLM", FILL, "biases, tied, own head_dim", BIASED),
    Row("eurobert", "EuroBertForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("eurobert", "EuroBertForSequenceClassification", CLASSIFY, "mean of tokens", MEAN, slow=True),
    Row("eurobert", "EuroBertForSequenceClassification", CLASSIFY, "first token", FIRST, slow=True),
    Row("eurobert", "EuroBertForTokenClassification", TAG, "5 labels", LABELS, slow=True),
    Row("gte", "GteModel", FEATURES),
    Row("gte", "GteModel", FEATURES, "no segments, own head_dim", BARE),
    Row("gte", "GteForMaskedLM", FILL),
    Row("gte", "GteForMaskedLM", FILL, "untied", UNTIED, slow=True),
    Row("gte", "GteForSequenceClassification", CLASSIFY, "5 labels", LABELS, slow=True),
    Row("gte", "GteForTokenClassification", TAG, "5 labels", LABELS, slow=True),
    *heads(encoder("megatron-bert", "MegatronBert")),
    Row("megatron-bert", "MegatronBertForPreTraining", PRETRAIN),
    Row("megatron-bert", "MegatronBertForNextSentencePrediction", NEXT, slow=True),
    Row("nomic_bert", "NomicBertModel", FEATURES),
    Row("nomic_bert", "NomicBertForMaskedLM", FILL),
    Row("nomic_bert", "NomicBertForSequenceClassification", CLASSIFY, "5 labels", LABELS, slow=True),
    Row("nomic_bert", "NomicBertForTokenClassification", TAG, "5 labels", LABELS, slow=True),
    *heads(encoder("roformer", "RoFormer", choices=False)),
    Row("roformer", "RoFormerForMaskedLM", FILL, "narrower tables", {"embedding_size": 20}),
    *heads(encoder("roberta-prelayernorm", "RobertaPreLayerNorm")),
    *heads(encoder("xlm-roberta-xl", "XLMRobertaXL")),
]

FIRST_MARK = {"eos_token_id": 2, "hidden_act": "gelu"}
PROJECTED = {"projection_dim": 36}

TOWERS = [
    Row("chinese_clip", "ChineseCLIPModel", MATCH),
    Row("clip_text_model", "CLIPTextModel", FEATURES),
    Row("clip_text_model", "CLIPTextModelWithProjection", FEATURES, "projected", PROJECTED),
    Row("clip_text_model", "CLIPTextModel", FEATURES, "first releases' mark, gelu", FIRST_MARK),
    Row("clip_vision_model", "CLIPVisionModel", SEE),
    Row("clip_vision_model", "CLIPVisionModelWithProjection", SEE, "projected", PROJECTED),
]

SCALED = {"scale_embedding": True, "activation_function": "relu"}

BARTS = [
    Row("blenderbot-small", "BlenderbotSmallForConditionalGeneration", TRANSLATE),
    Row("blenderbot-small", "BlenderbotSmallForConditionalGeneration", TRANSLATE, "scaled, relu", SCALED),
    Row("umt5", "UMT5ForConditionalGeneration", TRANSLATE),
    Row("umt5", "UMT5EncoderModel", FEATURES),
    Row("plbart", "PLBartForConditionalGeneration", TRANSLATE),
]
