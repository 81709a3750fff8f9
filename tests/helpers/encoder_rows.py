"""Rows of encoders related to BERT, CLIP or ViT; `rows.py` has all others."""

from helpers.jina_bert import QK_NORM
from helpers.row import (
    ANSWER,
    CHOOSE,
    CLASSIFY,
    FEATURES,
    FILL,
    LABEL,
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
    labelled,
)

TASK_IDS = {"use_task_id": True, "task_type_vocab_size": 3, "type_vocab_size": 4}
BIASED = TIED | {"mlp_bias": True, "attention_bias": True, "head_dim": 10}
MEAN, FIRST = ({"classifier_pooling": kind} | LABELS for kind in ("mean", "bos"))
BARE = {"type_vocab_size": 0, "head_dim": 10}

VECTOR = {"projection_dim": 36}
APART = {"share_att_key": False, "norm_rel_ebd": "none", "pos_att_type": "c2p|p2c"}
CLAMPED = {"clamp_len": 4, "ff_activation": "relu", "layer_norm_eps": 1e-3}
VIEWED = {"position_biased_input": True, "max_relative_positions": -1}
SEGMENTS = {"type_vocab_size": 2, "layer_norm_eps": 1e-3}
SINGLE = {"position_buckets": -1, "max_relative_positions": 7, "pos_att_type": ["c2p"]}
KEYS_ONLY = {"share_att_key": False, "pos_att_type": ["p2c"]}
NEWER = {"legacy": False, "hidden_act": "gelu_new"}
BLOCKS = {"attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1}
BLOCKS |= {"rescale_embeddings": True, "use_bias": False}
KEYS_AND_PLACES = {"position_biased_input": True, "type_vocab_size": 2, "pos_att_type": ["p2c"]}
ASKED = LABELS | {"pooler_hidden_act": "tanh"}
GROUPED_HEAD = {"num_groups": 2, "head_ratio": 8, "conv_kernel_size": 3, "layer_norm_eps": 1e-3}
GROUPED_HEAD |= {"embedding_size": 48, "hidden_act": "relu"}
FIRST_TOKEN = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}
SEVERAL_LANGUAGES = {"n_langs": 4, "use_lang_emb": False, "gelu_activation": False, "layer_norm_eps": 1e-3}
ODD_WIDTH = {"hidden_size": 45, "hidden_act": "relu", "layer_norm_eps": 1e-3, "type_vocab_size": 2}
OTHER_GROUPS = {"q_groups": 1, "v_groups": 2, "post_attention_groups": 4, "intermediate_groups": 1}

BERTS = [
    Row("big_bird", "BigBirdModel", FEATURES),
    Row("big_bird", "BigBirdModel", FEATURES, "blocks, scaled, no biases", BLOCKS),
    Row("big_bird", "BigBirdForMaskedLM", FILL, slow=True),
    Row("big_bird", "BigBirdForPreTraining", PRETRAIN),
    Row("big_bird", "BigBirdForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("big_bird", "BigBirdForTokenClassification", TAG, "5 labels", LABELS, slow=True),
    Row("big_bird", "BigBirdForMultipleChoice", CHOOSE, slow=True),
    Row("xlnet", "XLNetModel", FEATURES),
    Row("xlnet", "XLNetModel", FEATURES, "clamped, relu, eps", CLAMPED),
    Row("xlnet", "XLNetLMHeadModel", FEATURES, "from pretraining", slow=True),
    Row("xlnet", "XLNetForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("xlnet", "XLNetForTokenClassification", TAG, "5 labels", LABELS, slow=True),
    Row("xlnet", "XLNetForQuestionAnsweringSimple", ANSWER, "3 layers", {"n_layer": 3}, slow=True),
    Row("deberta", "DebertaModel", FEATURES),
    Row("deberta", "DebertaModel", FEATURES, "p2c, learned positions, segments", KEYS_AND_PLACES),
    Row("deberta", "DebertaForMaskedLM", FILL, slow=True),
    Row("deberta", "DebertaForMaskedLM", FILL, "untied", UNTIED, slow=True),
    Row("deberta", "DebertaForMaskedLM", FILL, "not legacy, tanh gelu", NEWER, slow=True),
    Row("deberta", "DebertaForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("deberta", "DebertaForTokenClassification", TAG, "5 labels", LABELS, slow=True),
    Row("deberta", "DebertaForQuestionAnswering", ANSWER, slow=True),
    Row("deberta-v2", "DebertaV2Model", FEATURES),
    Row("deberta-v2", "DebertaV2Model", FEATURES, "own projections of positions", APART),
    Row("deberta-v2", "DebertaV2Model", FEATURES, "single distances, c2p", SINGLE),
    Row("deberta-v2", "DebertaV2Model", FEATURES, "p2c, own projections", KEYS_ONLY),
    Row("deberta-v2", "DebertaV2Model", FEATURES, "learned positions, segments, eps", VIEWED | SEGMENTS),
    Row("deberta-v2", "DebertaV2ForMaskedLM", FILL),
    Row("deberta-v2", "DebertaV2ForMaskedLM", FILL, "untied", UNTIED, slow=True),
    Row("deberta-v2", "DebertaV2ForMaskedLM", FILL, "not legacy, tanh gelu", NEWER),
    Row("deberta-v2", "DebertaV2ForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("deberta-v2", "DebertaV2ForSequenceClassification", CLASSIFY, "tanh pooler", ASKED, slow=True),
    Row("deberta-v2", "DebertaV2ForTokenClassification", TAG, "5 labels", LABELS, slow=True),
    Row("deberta-v2", "DebertaV2ForQuestionAnswering", ANSWER, slow=True),
    Row("deberta-v2", "DebertaV2ForMultipleChoice", CHOOSE, slow=True),
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
    *heads(encoder("jina_embeddings_v3", "JinaEmbeddingsV3", choices=False)),
    *heads(encoder("megatron-bert", "MegatronBert")),
    Row("megatron-bert", "MegatronBertForPreTraining", PRETRAIN),
    Row("megatron-bert", "MegatronBertForNextSentencePrediction", NEXT, slow=True),
    Row("nomic_bert", "NomicBertModel", FEATURES),
    Row("nomic_bert", "NomicBertForMaskedLM", FILL),
    Row("nomic_bert", "NomicBertForSequenceClassification", CLASSIFY, "5 labels", LABELS, slow=True),
    Row("nomic_bert", "NomicBertForTokenClassification", TAG, "5 labels", LABELS, slow=True),
    Row("rembert", "RemBertModel", FEATURES),
    Row("rembert", "RemBertForMaskedLM", FILL),
    *(row for row in heads(encoder("rembert", "RemBert"))[1:] if row.task != FILL),
    *heads(encoder("roformer", "RoFormer", choices=False)),
    Row("roformer", "RoFormerForMaskedLM", FILL, "narrower tables", {"embedding_size": 20}),
    *encoder("convbert", "ConvBert", choices=False),
    Row("convbert", "ConvBertModel", FEATURES, "groups, one head, eps", GROUPED_HEAD),
    Row("convbert", "ConvBertForMultipleChoice", CHOOSE, config=FIRST_TOKEN),
    *encoder("fnet", "FNet"),
    Row("fnet", "FNetForPreTraining", PRETRAIN),
    Row("fnet", "FNetForNextSentencePrediction", NEXT, slow=True),
    Row("fnet", "FNetModel", FEATURES, "odd width, relu, eps", ODD_WIDTH),
    Row("xlm", "XLMModel", FEATURES),
    Row("xlm", "XLMModel", FEATURES, "relu, eps, several languages", SEVERAL_LANGUAGES),
    Row("xlm", "XLMWithLMHeadModel", FILL),
    Row("xlm", "XLMWithLMHeadModel", FILL, "untied", UNTIED),
    Row("xlm", "XLMForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("xlm", "XLMForTokenClassification", TAG, "5 labels", LABELS),
    Row("xlm", "XLMForQuestionAnsweringSimple", ANSWER),
    Row("flaubert", "FlaubertModel", FEATURES),
    Row("flaubert", "FlaubertWithLMHeadModel", FILL, slow=True),
    Row("flaubert", "FlaubertForSequenceClassification", CLASSIFY, "5 labels", LABELS, slow=True),
    Row("flaubert", "FlaubertForTokenClassification", TAG, "5 labels", LABELS, slow=True),
    Row("flaubert", "FlaubertForQuestionAnsweringSimple", ANSWER, slow=True),
    *encoder("squeezebert", "SqueezeBert"),
    Row("squeezebert", "SqueezeBertModel", FEATURES, "other groups", OTHER_GROUPS),
    *heads(encoder("roberta-prelayernorm", "RobertaPreLayerNorm")),
    *heads(encoder("xlm-roberta-xl", "XLMRobertaXL")),
]

FIRST_MARK = {"eos_token_id": 2, "hidden_act": "gelu"}
PROJECTED = {"projection_dim": 36}

BIASLESS = {f"{name}_bias": False for name in ("query", "value", "proj", "mlp")}
BIASLESS |= {"use_gated_mlp": True, "hidden_act": "silu", "num_register_tokens": 0}

PLACED = {"use_absolute_embeddings": True, "image_size": 42, "qkv_bias": False}
ODD_WINDOWS = {"image_size": [42, 60], "window_size": 3, "hidden_act": "relu", "mlp_ratio": 2.5}
OBLONG_WINDOWS = {"image_size": [42, 60], "window_size": 5, "qkv_bias": False, "mlp_ratio": 2.5}

TOWERS = [
    Row("chinese_clip", "ChineseCLIPModel", MATCH),
    Row("clip_text_model", "CLIPTextModel", FEATURES),
    Row("clip_text_model", "CLIPTextModelWithProjection", FEATURES, "projected", PROJECTED),
    Row("clip_text_model", "CLIPTextModel", FEATURES, "first releases' mark, gelu", FIRST_MARK),
    Row("clip_vision_model", "CLIPVisionModel", SEE),
    Row("clip_vision_model", "CLIPVisionModelWithProjection", SEE, "projected", PROJECTED),
    Row("dinov2_with_registers", "Dinov2WithRegistersModel", SEE),
    Row("dinov2_with_registers", "Dinov2WithRegistersForImageClassification", LABEL, "5 labels", LABELS),
    Row("dinov3_vit", "DINOv3ViTModel", SEE),
    Row("dinov3_vit", "DINOv3ViTModel", SEE, "gated, no registers, no biases", BIASLESS),
    Row("swin", "SwinModel", SEE),
    Row("swin", "SwinModel", SEE, "learned positions, no biases", PLACED),
    Row("swin", "SwinModel", SEE, "oblong, odd windows", ODD_WINDOWS),
    Row("swin", "SwinForImageClassification", LABEL, "5 labels", LABELS),
    Row("swinv2", "Swinv2Model", SEE),
    Row("swinv2", "Swinv2Model", SEE, "oblong, no biases", OBLONG_WINDOWS),
    Row("swinv2", "Swinv2ForImageClassification", LABEL, "5 labels", LABELS),
    Row("siglip", "SiglipModel", MATCH),
    Row("siglip", "SiglipForImageClassification", LABEL, "5 labels", LABELS),
    Row("siglip2", "Siglip2Model", MATCH),
    Row("siglip_text_model", "SiglipTextModel", FEATURES),
    Row("siglip_vision_model", "SiglipVisionModel", SEE),
    Row("siglip_vision_model", "SiglipVisionModel", SEE, "no pool", {"vision_use_head": False}),
]

SCALED = {"scale_embedding": True, "activation_function": "relu"}

BIG_PEGASUS = "BigBirdPegasusForConditionalGeneration"
SPARSE = {"attention_type": "block_sparse", "block_size": 3, "use_bias": True}
SWITCH = "SwitchTransformersForConditionalGeneration"
OTHER_SWITCH = {"tie_word_embeddings": False, "router_bias": True, "num_sparse_encoder_layers": 4}
SMALL_CAPACITY = {"expert_capacity": 3, "num_experts": 3}
BARTS = [
    Row("blenderbot-small", "BlenderbotSmallForConditionalGeneration", TRANSLATE),
    Row("blenderbot-small", "BlenderbotSmallForConditionalGeneration", TRANSLATE, "scaled, relu", SCALED),
    Row("umt5", "UMT5ForConditionalGeneration", TRANSLATE),
    Row("umt5", "UMT5ForConditionalGeneration", TRANSLATE, "not scaled", {"tie_word_embeddings": False}),
    Row("umt5", "UMT5EncoderModel", FEATURES),
    Row("umt5", "UMT5ForSequenceClassification", CLASSIFY, "5 labels", LABELS, slow=True),
    *labelled("umt5"),
    Row("plbart", "PLBartForConditionalGeneration", TRANSLATE),
    Row("switch_transformers", SWITCH, TRANSLATE),
    Row("switch_transformers", SWITCH, TRANSLATE, "not tied, a biased router", OTHER_SWITCH),
    Row("switch_transformers", SWITCH, TRANSLATE, "capacity of 3", SMALL_CAPACITY),
    Row("switch_transformers", "SwitchTransformersEncoderModel", FEATURES),
    Row("switch_transformers", "SwitchTransformersEncoderModel", FEATURES, "capacity of 3", SMALL_CAPACITY),
    Row("splinter", "SplinterModel", FEATURES),
    Row("splinter", "SplinterForQuestionAnswering", ANSWER),
    Row(
        "splinter",
        "SplinterForQuestionAnswering",
        ANSWER,
        "another question's token",
        {"question_token_id": 9},
    ),
    Row("bigbird_pegasus", BIG_PEGASUS, TRANSLATE),
    Row("bigbird_pegasus", BIG_PEGASUS, TRANSLATE, "sparse from 34 tokens on, biases", SPARSE),
    Row("bigbird_pegasus", "BigBirdPegasusForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("bigbird_pegasus", "BigBirdPegasusForQuestionAnswering", ANSWER),
    Row("mvp", "MvpForConditionalGeneration", TRANSLATE),
    Row("mvp", "MvpForConditionalGeneration", TRANSLATE, "scaled, relu", SCALED),
    Row("mvp", "MvpForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("mvp", "MvpForQuestionAnswering", ANSWER),
]

NORMED, GATED_RELU = {"code": QK_NORM}, {"feed_forward_type": "reglu"}
EIGHT = {"num_attention_heads": 8}
SPARSER = {"num_experts": 3, "moe_top_k": 1, "moe_every_n_layers": 3, "rotary_emb_base": 10_000.0}
# Compared with definitions in plain PyTorch, written by `published.WITHOUT_LIBRARY`.
WITHOUT_LIBRARY = [
    Row("jina_bert", "JinaBertModel", FEATURES),
    Row("jina_bert", "JinaBertModel", FEATURES, "relu gate, 8 heads", GATED_RELU | EIGHT),
    Row("jina_bert", "JinaBertForMaskedLM", FILL),
    Row("jina_bert", "JinaBertModel", FEATURES, "normed queries", NORMED),
    Row("jina_bert", "JinaBertModel", FEATURES, "normed queries, relu gate", NORMED | GATED_RELU),
    Row("jina_bert", "JinaBertForMaskedLM", FILL, "normed queries", NORMED),
    Row("jina_bert", "JinaBertForSequenceClassification", CLASSIFY, "1 label", {"num_labels": 1}),
    Row("jina_bert", "JinaBertForTokenClassification", TAG, "5 labels", LABELS),
    Row("jina_bert", "JinaBertForQuestionAnswering", ANSWER),
    Row("nomic_bert_moe", "NomicBertModel", FEATURES),
    Row("nomic_bert_moe", "NomicBertModel", FEATURES, "1 of 3 experts in every third layer", SPARSER),
]
