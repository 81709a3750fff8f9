"""The rows to verify: each is exported and compared with transformers, whole tensors, every cache.

A family is supported when each of its tasks has a row here; docs/ has the table of families made from them.
"""

from dataclasses import replace

import tiny_checkpoint

from helpers.encoder_rows import BARTS, BERTS, TOWERS, WITHOUT_LIBRARY
from helpers.row import (
    ANSWER,
    CLASSIFY,
    CONVERSE,
    DEPTH,
    DESCRIBE,
    DETECT,
    FEATURES,
    FILL,
    FIND,
    GENERATE,
    HEAR,
    LABEL,
    LABELS,
    LISTEN,
    MASKS,
    MATCH,
    MATCH_SOUND,
    NEXT,
    POSE,
    PRETRAIN,
    RANK,
    SEE,
    SEGMENT,
    SOUNDS,
    SPEAKER,
    TAG,
    TIED,
    TIME_DELAYS,
    TRANSLATE,
    UNTIED,
    Row,
    decoder,
    document,
    encoder,
    heads,
    labelled,
    sound_heads,
)
from helpers.row import CHOOSE as CHOOSE

ESM1B = {"position_embedding_type": "absolute", "emb_layer_norm_before": True, "token_dropout": False}
MEAN = {"classifier_pooling": "mean", "num_labels": 3}
BIASES = {"norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True}

WIDER = {"attention_window": 10, "pad_token_id": 7, "type_vocab_size": 2}

ANY_MASK = {
    "mask_decoder_config": {"dynamic_multimask_via_stability": False},
    "vision_config": {"fpn_top_down_levels": [0, 1, 2, 3]},
}

HELIUM_BIASES = {"attention_bias": True, "mlp_bias": True}

PUBLISHED_PAGES = {
    **{
        "type_vocab_size": 1,
        "rel_pos_bins": 32,
        "max_rel_pos": 128,
        "rel_2d_pos_bins": 64,
        "max_rel_2d_pos": 256,
    },
    **{"coordinate_size": 8, "shape_size": 8, "input_size": 32, "patch_size": 16},
}
PUBLISHED_MOBILE = {"classifier_activation": False, "num_feedforward_networks": 4}

ENCODERS = [
    *encoder("bert", "Bert"),
    Row("bert", "BertForPreTraining", PRETRAIN),
    Row("bert", "BertForPreTraining", FEATURES, "from pretraining"),
    Row("bert", "BertForMaskedLM", FEATURES, "without pooler"),
    Row(
        "bert",
        "BertModel",
        FEATURES,
        "relu, eps, 3 segments",
        {"hidden_act": "relu", "layer_norm_eps": 1e-3, "type_vocab_size": 3},
    ),
    Row("bert", "BertModel", FEATURES, "tanh gelu", {"hidden_act": "gelu_new"}),
    Row("bert", "BertForMaskedLM", FILL, "silu", {"hidden_act": "silu"}),
    Row("bert", "BertForPreTraining", FILL, "from pretraining"),
    Row("bert", "BertForNextSentencePrediction", NEXT),
    Row("bert", "BertForPreTraining", NEXT, "from pretraining"),
    Row("bert", "BertForSequenceClassification", CLASSIFY, "regression", {"num_labels": 1}),
    *encoder("roberta", "Roberta"),
    Row(
        "roberta", "RobertaModel", FEATURES, "padding 7, segments", {"pad_token_id": 7, "type_vocab_size": 2}
    ),
    *encoder("xlm-roberta", "XLMRoberta"),
    *encoder("camembert", "Camembert"),
    *heads(encoder("data2vec-text", "Data2VecText")),
    *encoder("longformer", "Longformer"),
    Row("longformer", "LongformerModel", FEATURES, "one window, segments", WIDER),
    *encoder("distilbert", "DistilBert"),
    Row("distilbert", "DistilBertForMaskedLM", FILL, "relu", {"activation": "relu"}),
    *encoder("albert", "Albert"),
    Row("albert", "AlbertForPreTraining", FEATURES, "from pretraining"),
    Row("albert", "AlbertForMaskedLM", FILL, "embeddings as wide", {"embedding_size": 48}),
    *encoder("electra", "Electra"),
    Row("electra", "ElectraForPreTraining", FEATURES, "from pretraining"),
    Row("electra", "ElectraForMaskedLM", FILL, "embeddings as wide", {"embedding_size": 48}),
    *encoder("mpnet", "MPNet"),
    *encoder("mobilebert", "MobileBert"),
    Row("mobilebert", "MobileBertForPreTraining", PRETRAIN, "as published", PUBLISHED_MOBILE),
    Row("mobilebert", "MobileBertForPreTraining", FEATURES, "as published", PUBLISHED_MOBILE),
    Row("mobilebert", "MobileBertForSequenceClassification", CLASSIFY, "as published", PUBLISHED_MOBILE),
    *document("layoutlm", "LayoutLM"),
    Row(
        "layoutlm",
        "LayoutLMModel",
        FEATURES,
        "relu, eps, 3 segments",
        {
            "hidden_act": "relu",
            "layer_norm_eps": 1e-3,
            "type_vocab_size": 3,
            "max_2d_position_embeddings": 1001,
        },
    ),
    Row("layoutlm", "LayoutLMForMaskedLM", FEATURES, "without pooler"),
    *document("layoutlmv3", "LayoutLMv3"),
    Row("layoutlmv3", "LayoutLMv3ForTokenClassification", TAG, "12 labels", {"num_labels": 12}),
    Row("layoutlmv3", "LayoutLMv3Model", FEATURES, "as published", PUBLISHED_PAGES),
    Row("layoutlmv3", "LayoutLMv3Model", FEATURES, "words alone", {"visual_embed": False}),
    Row("layoutlmv3", "LayoutLMv3Model", FEATURES, "biases of order", {"has_spatial_attention_bias": False}),
    Row(
        "layoutlmv3",
        "LayoutLMv3Model",
        FEATURES,
        "no biases, eps",
        {"has_relative_attention_bias": False, "layer_norm_eps": 1e-3},
    ),
    *document("lilt", "Lilt"),
    Row("lilt", "LiltModel", FEATURES, "as published", {"channel_shrink_ratio": 4, "type_vocab_size": 1}),
    Row(
        "lilt",
        "LiltModel",
        FEATURES,
        "one layer, relu, eps",
        {"num_hidden_layers": 1, "hidden_act": "relu", "layer_norm_eps": 1e-3, "pad_token_id": 0},
    ),
    Row("esm", "EsmModel", FEATURES),
    Row("esm", "EsmModel", FEATURES, "ESM-1b", ESM1B),
    Row("esm", "EsmForMaskedLM", FILL),
    Row("esm", "EsmForMaskedLM", FILL, "untied", UNTIED),
    Row("esm", "EsmForMaskedLM", FILL, "33 words", {"vocab_size": 33, "mask_token_id": 32}),
    Row("esm", "EsmForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("esm", "EsmForTokenClassification", TAG, "5 labels", LABELS),
    *encoder("modernbert", "ModernBert"),
    Row("modernbert", "ModernBertForSequenceClassification", CLASSIFY, "mean of tokens", MEAN),
    Row("modernbert", "ModernBertForMaskedLM", FILL, "all biases", BIASES),
]

LENGTH = {"original_max_position_embeddings": 16}
BANDS = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
ROPE = {
    "linear": {"rope_type": "linear", "factor": 2.5, "rope_theta": 5e3},
    "dynamic": {"rope_type": "dynamic", "factor": 2.5, "rope_theta": 5e3},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "rope_theta": 1e4} | LENGTH | BANDS,
    "yarn": {"rope_type": "yarn", "factor": 2.5, "rope_theta": 1e4} | LENGTH,
}
# As model cards advise for long texts: a factor times the original length, which config.json may hold alone.
CARD = {"rope_type": "yarn", "factor": 6.0, "rope_theta": 1e4, "original_max_position_embeddings": 10}
EXACT = CARD | {"truncate": False, "beta_fast": 0.5, "beta_slow": 0.01, "mscale": 0.7, "mscale_all_dim": 1.3}
FACTORS = {"short_factor": [1.0, 1.1, 1.5, 2.0], "long_factor": [1.0, 3.0, 5.0, 9.0]}
LONG = {"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4} | FACTORS}
LONG |= {"original_max_position_embeddings": 32, "max_position_embeddings": 96}
PHI_LONG = {"rope_parameters": LONG["rope_parameters"] | {"short_mscale": 1.3, "long_mscale": 1.7}}
PHI_LONG["rope_parameters"] |= {"original_max_position_embeddings": 32}
PHI_LONG |= {"max_position_embeddings": 96}
PHI_PLAIN = {"attention_bias": False, "lm_head_bias": False, "sliding_window": 5, "router_jitter_noise": 0.5}
HALF = {"rope_parameters": {"rope_type": "default", "rope_theta": 5e3, "partial_rotary_factor": 0.5}}
UNCAPPED = {"attn_logit_softcapping": None, "final_logit_softcapping": None}
TURNING = TIED | {
    **{"linear_allow_neg_eigval": False, "attention_bias": True, "linear_conv_kernel_dim": 4},
    "rope_parameters": {"rope_type": "default", "rope_theta": 5e3},
}
KIMI_ONE_GROUP = {
    **{"n_group": 1, "topk_group": 1, "n_shared_experts": 1, "norm_topk_prob": False},
    **{"q_lora_rank": 20, "attention_bias": True, "linear_conv_kernel_dim": 4, "linear_head_dim": 14},
    "layer_types": ["full_attention", "linear_attention", "linear_attention"],
    "mlp_layer_types": ["sparse", "dense", "sparse"],
}
RECURRENT_WIDE = {
    **{"lru_width": None, "conv1d_width": 4, "attention_bias": True, "tie_word_embeddings": False},
    **{"block_types": ["attention", "recurrent"], "num_key_value_heads": None, "head_dim": 10},
    **{"hidden_activation": "silu", "num_hidden_layers": 3, "partial_rotary_factor": 1.0},
}
RWKV_TIED = {
    **{"tie_word_embeddings": True, "rescale_every": 0, "intermediate_size": None, "hidden_size": 30},
    **{"num_hidden_layers": 2},
}
ONE_HEAD = {"num_attention_heads": 1, "num_key_value_heads": 1, "lru_width": 30, "conv1d_width": 2}
T5GEMMA_PLAIN = UNTIED | {side: UNCAPPED | {"attention_bias": True} for side in ("encoder", "decoder")}
ENCODER_ALONE = {"is_encoder_decoder": False}
SPARSE = {"num_local_experts": 4, "num_experts_per_tok": 3, "sliding_window": 5}
HEAD_NORMS = {"qk_layernorm": True, "num_attention_heads": 6, "num_key_value_heads": 2}
NO_BIAS = {"token_classification_bias": False}
BIASED = {"attention_bias": True, "mlp_bias": True, "head_dim": 10}

STRETCHED = {
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 2.5, "rope_theta": 5e3},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e2},
    },
    "final_logit_softcapping": 2.0,
}
AFMOE_PLAIN = {
    "mup_enabled": False,
    "num_dense_layers": 0,
    "layer_types": ["full_attention", "sliding_attention", "full_attention"],
}
NANOCHAT_BIASED = {"attention_bias": True, "hidden_act": "gelu", "final_logit_softcapping": None}
NANOCHAT_BIASED |= {"head_dim": 10, "rms_norm_eps": 1e-3}
MISTRAL4_HALVES = {
    "rope_interleave": False,
    "attention_bias": True,
    "q_lora_rank": None,
    "norm_topk_prob": False,
    "routed_scaling_factor": 1.7,
    "first_k_dense_replace": 0,
}
GEMMA3N_DENSE = {
    "num_hidden_layers": 6,
    "layer_types": None,
    "num_kv_shared_layers": 0,
    "intermediate_size": 100,
    "activation_sparsity_pattern": None,
    "vocab_size_per_layer_input": 311,
    "altup_num_inputs": 4,
    "altup_correct_scale": False,
    "attention_bias": True,
    "tie_word_embeddings": False,
}
GEMMA4_DENSE = {
    "num_hidden_layers": 3,
    "layer_types": ["full_attention", "sliding_attention", "full_attention"],
    "num_kv_shared_layers": 0,
    "hidden_size_per_layer_input": 0,
    "attention_k_eq_v": True,
    "num_global_key_value_heads": 3,
    "attention_bias": True,
    "tie_word_embeddings": False,
    "final_logit_softcapping": None,
    "use_bidirectional_attention": "vision",
}
GEMMA4_EXPERTS = {
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "num_kv_shared_layers": 0,
    "hidden_size_per_layer_input": 0,
    "enable_moe_block": True,
    "num_experts": 5,
    "top_k_experts": 2,
    "moe_intermediate_size": 14,
    "rope_parameters": {
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1e5},
        "sliding_attention": {"rope_type": "linear", "factor": 2.5, "rope_theta": 1e2},
    },
}
PLAIN = UNTIED | {"scale_embedding": False, "hidden_act": "relu"}
BESIDE = {"use_parallel_residual": True, "use_qkv_bias": True}
BESIDE |= {"num_attention_heads": 6, "num_key_value_heads": 2, "partial_rotary_factor": 0.5}
FULL = {"layer_types": ["full_attention"] * 3}
UNEVEN = {"full_attention": ROPE["yarn"], "sliding_attention": {"rope_type": "default", "rope_theta": 5e3}}
ALL_DIMENSIONS = {"rope_parameters": ROPE["yarn"] | {"mscale": 0.8, "mscale_all_dim": 0.6}}
V2_GROUPED = {"topk_method": "group_limited_greedy", "routed_scaling_factor": 1.7, "q_lora_rank": None}
V2_GROUPED |= ALL_DIMENSIONS
MOONLIGHT = {"n_group": 1, "topk_group": 1, "q_lora_rank": None} | ALL_DIMENSIONS
V3_HALVES = {"rope_interleave": False, "attention_bias": True, "norm_topk_prob": False}
GLM_4_5 = {"use_qk_norm": True, "attention_bias": True, "n_shared_experts": 2, "routed_scaling_factor": 1.7}
UNWINDOWED = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}, "num_hidden_layers": 3} | FULL
YOUTU_HALVES = {"rope_interleave": False, "q_lora_rank": None}
MINICPM_LONG = (
    UNTIED | LONG | {"q_lora_rank": None, "v_head_dim": 14, "attention_bias": True, "scale_depth": None}
)
DBRX_PLAIN = {
    "attn_config": {"kv_n_heads": 3, "clip_qkv": 0.9, "rope_theta": 777},
    "ffn_config": {
        "moe_normalize_expert_weights": None,
        "moe_num_experts": 4,
        "ffn_act_fn": {"name": "gelu"},
    },
    "rope_parameters": {"rope_type": "default", "rope_theta": 5e3},
}
LLAMA4_DENSE = {  # as Llama Guard 4's
    **{"moe_layers": [], "interleave_moe_layer_step": 0, "num_local_experts": 0, "num_experts_per_tok": 0}
}
LLAMA4_PLAIN = TIED | {
    **{"attention_bias": True, "use_qk_norm": False, "moe_layers": None, "num_experts_per_tok": 1},
    **{
        "attn_temperature_tuning": False,
        "layer_types": ["full_attention"] * 4,
        "no_rope_layers": [0, 1, 1, 1],
    },
    "rope_parameters": {"rope_type": "llama3", "rope_theta": 5e3, "factor": 8.0, "low_freq_factor": 1.0}
    | {"high_freq_factor": 4.0, "original_max_position_embeddings": 20},
}
INTERNLM_BIASED = {
    **{"attention_bias": True, "mlp_bias": True},
    "rope_parameters": {"rope_type": "dynamic", "factor": 6.0, "rope_theta": 5e3},
}
MELLUM_FULL = {
    **{"layer_types": None, "mlp_layer_types": None, "attention_bias": True, "norm_topk_prob": False},
    "rope_parameters": {
        "full_attention": CARD,
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e3},
    },
}
DOTS = {"n_group": 5, "topk_group": 2, "norm_topk_prob": True, "routed_scaling_factor": 1.7}
NORTH = {
    **{"expert_selection_fn": "sigmoid", "num_shared_experts": 0, "rms_norm_eps": 1e-3},
    **{"prefix_dense_sliding_window_pattern": 2, "prefix_dense_intermediate_size": None},
    **{"mlp_layer_types": ["dense", "dense", "sparse", "sparse"], "attention_bias": True},
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
}
DOTS |= {"attention_bias": True, "n_routed_experts": 10}
EXAONE_EXPERTS = {
    **{"n_group": 3, "topk_group": 2, "num_experts": 6, "norm_topk_prob": False, "num_shared_experts": 1},
    **{"routed_scaling_factor": 1.7, "mlp_layer_types": ["sparse", "dense", "sparse", "dense"]},
    **{"tie_word_embeddings": True, "layer_types": ["full_attention", *["sliding_attention"] * 3]},
}
GLM_FLASH = {"n_group": 1, "topk_group": 1, "rope_interleave": False, "norm_topk_prob": False}
ERNIE = UNTIED | {"moe_layer_interval": 2, "moe_num_shared_experts": 0, "use_bias": True}
SOLAR = {"attention_bias": True, "routed_scaling_factor": 1.7, "n_shared_experts": 2}
FLEXIBLE = {"norm_topk_prob": True, "attention_bias": True}
ONE_THETA = {
    **{"layer_rope_theta": None, "attention_bias": True, "num_hidden_layers": 3},
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
UNSHARED = {"shared_intermediate_size": 0}
NORMALISED = {"norm_topk_prob": True, "use_sliding_window": True, "sliding_window": 5}
SOME_DENSE = {"mlp_only_layers": [0], "norm_topk_prob": False, "attention_bias": True, "num_experts": 6}
WIDER_VALUES = {
    "linear_value_head_dim": 20,
    "linear_conv_kernel_dim": 3,
    "partial_rotary_factor": 1.0,
    "layer_types": ["full_attention", "linear_attention", "linear_attention"],
    "tie_word_embeddings": True,
}
GRANITE_EXPERTS = {
    "num_local_experts": 5,
    "num_experts_per_tok": 2,
    "position_embedding_type": "rope",
    "layer_types": ["attention", "mamba", "mamba"],
    "num_hidden_layers": 3,
    "mamba_n_groups": 1,
    "mamba_proj_bias": True,
    "attention_bias": True,
    "tie_word_embeddings": True,
}
GRANITE_DENSE = {"layer_types": ["attention"] * 4, "position_embedding_type": "rope"}
FOUR_GROUPS = {"mamba_n_groups": 4, "mamba_conv_bias": False, "mlp_bias": True}
MAMBA_TIED = {
    **{"tie_word_embeddings": True, "use_bias": True, "use_conv_bias": False, "conv_kernel": 4},
    "time_step_rank": "auto",
}
ADAPTED = {
    **{"use_shared_attention_adapter": True, "num_key_value_heads": 4, "tie_word_embeddings": False},
    "add_bias_linear": True,
}
ONE_BLOCK = {
    **{"num_mem_blocks": 1, "use_mem_rope": False, "num_hidden_layers": 4, "mamba_ngroups": 1},
    "layers_block_type": ["hybrid", "linear_attention", "linear_attention", "hybrid"],
}
JAMBA_DENSE = {
    **{"num_experts": 1, "tie_word_embeddings": True, "mamba_proj_bias": True, "mamba_conv_bias": False},
    **{"mamba_d_conv": 4, "mamba_dt_rank": "auto", "attn_layer_period": 2, "attn_layer_offset": 0},
}
MAMBA2_TIED = {"tie_word_embeddings": True, "use_bias": True, "use_conv_bias": False, "n_groups": 1}
PLAIN_LFM3 = {
    **{"use_attention_gate": False, "use_sandwich_norm": False, "tie_word_embeddings": False},
    **{"conv_bias": True, "conv_L_cache": 7, "rope_parameters": None},
}
LATENT_EXPERTS = {
    **{"moe_latent_size": 20, "n_routed_experts": 6, "n_group": 3, "topk_group": 2},
    **{"routed_scaling_factor": 2.5, "use_bias": True, "use_conv_bias": False, "conv_kernel": 4},
    "layers_block_type": [
        "linear_attention",
        "moe",
        "full_attention",
        "linear_attention",
        "linear_attention",
    ],
}
GATE_LAST = {"mamba_rms_norm": True, "mamba_n_groups": 1, "mamba_d_ssm": None, "mamba_conv_bias": False}
GATE_FIRST = {
    **{"mamba_rms_norm": True, "mamba_norm_before_gate": False, "tie_word_embeddings": True},
    **{"attention_bias": True, "mlp_bias": True, "mamba_proj_bias": True, "projectors_bias": True},
}
ADJUSTED = {
    "block_auto_adjust_ff_dim": True,
    "block_multiple_of": 16,
    "block_ffn_dim_multiplier": 1.3,
    "layer_types": ["full_attention", "conv", "conv"],
    "num_hidden_layers": 3,
    "tie_word_embeddings": False,
}
SCALED_SHARES = {
    "norm_topk_prob": False,
    "routed_scaling_factor": 1.7,
    "num_dense_layers": 0,
    "conv_bias": True,
    "tie_word_embeddings": False,
}
WINDOWED = {"use_sliding_window": True, "sliding_window": 5, "no_rope_layers": [1, 0, 0]}

ALPHA = {"rope_parameters": {"rope_type": "dynamic", "alpha": 50.0, "factor": 1.0, "rope_theta": 1e4}}
ALPHA |= {"attention_bias": True}
CLIPPED = {"clip_qkv": 0.7}
OSS = FULL | {"attention_bias": False, "rope_parameters": {"rope_type": "default", "rope_theta": 5e3}}

RW = {"alibi": True, "parallel_attn": False, "multi_query": False, "bias": True, "num_attention_heads": 12}
NARROW = {"do_layer_norm_before": False, "word_embed_proj_dim": 20}
NEW_FALCON = {"new_decoder_architecture": True, "num_attention_heads": 6, "num_kv_heads": 2, "bias": True}
MIXED = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1, "num_hidden_layers": 3}

DECODERS = [
    Row("bert-generation", "BertGenerationDecoder", GENERATE),
    Row("bert-generation", "BertGenerationDecoder", GENERATE, "untied", UNTIED, slow=True),
    Row("bert-generation", "BertGenerationEncoder", FEATURES, "", {"is_decoder": False}),
    Row("openai-gpt", "OpenAIGPTLMHeadModel", GENERATE),
    Row("openai-gpt", "OpenAIGPTLMHeadModel", GENERATE, "silu", {"afn": "silu"}),
    Row("openai-gpt", "OpenAIGPTForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("openai-gpt", "OpenAIGPTModel", FEATURES),
    Row("gpt2", "GPT2ForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    *decoder("gpt_neo", "GPTNeo"),
    Row("gpt2", "GPT2LMHeadModel", GENERATE),
    Row("gpt2", "GPT2LMHeadModel", GENERATE, "untied, 4 times as wide", UNTIED | {"n_inner": None}),
    Row(
        "gpt2",
        "GPT2LMHeadModel",
        GENERATE,
        "unscaled, relu",
        {"scale_attn_weights": False, "activation_function": "relu"},
    ),
    Row("gpt2", "GPT2Model", FEATURES),
    *labelled("gpt2", slow=False),
    Row("gpt2", "GPT2LMHeadModel", FEATURES, "from a language model"),
    *decoder("gptj", "GPTJ"),
    *decoder("gpt_neox", "GPTNeoX"),
    Row(
        "gpt_neox",
        "GPTNeoXForCausalLM",
        GENERATE,
        "sequential, half rotary",
        {"use_parallel_residual": False} | HALF,
    ),
    Row("gpt_neox", "GPTNeoXForCausalLM", GENERATE, "no attention biases", {"attention_bias": False}),
    Row("opt", "OPTForCausalLM", GENERATE),
    Row(
        "opt",
        "OPTForCausalLM",
        GENERATE,
        "post-norm, no biases",
        {"do_layer_norm_before": False, "enable_bias": False},
    ),
    Row("opt", "OPTForCausalLM", GENERATE, "untied", UNTIED),
    Row("opt", "OPTForCausalLM", GENERATE, "post-norm, narrow words", NARROW),
    Row("opt", "OPTForCausalLM", GENERATE, "narrow words, untied", UNTIED | {"word_embed_proj_dim": 20}),
    *decoder("bloom", "Bloom"),
    Row("bloom", "BloomForCausalLM", GENERATE, "8 heads", {"n_head": 8}),
    Row("mpt", "MptForCausalLM", GENERATE),
    Row(
        "mpt",
        "MptForCausalLM",
        GENERATE,
        "4 heads, scale",
        {"n_heads": 4, "attn_config": {"softmax_scale": 0.2}},
    ),
    *decoder("falcon", "Falcon"),
    Row("falcon", "FalconForCausalLM", GENERATE, "new architecture", NEW_FALCON),
    Row(
        "falcon",
        "FalconForCausalLM",
        GENERATE,
        "sequential, all heads",
        {"parallel_attn": False, "multi_query": False},
    ),
    Row("falcon", "FalconForCausalLM", GENERATE, "linear biases", RW),
    Row("falcon", "FalconForSequenceClassification", CLASSIFY, "linear biases", RW),
    *decoder("llama", "Llama"),
    Row("llama", "LlamaForTokenClassification", TAG, "5 labels, no bias", LABELS | NO_BIAS, slow=True),
    Row("llama", "LlamaForSequenceClassification", CLASSIFY, "no padding", {"pad_token_id": None}),
    Row("llama", "LlamaForCausalLM", GENERATE, "biases, tied, own head_dim", BIASED | TIED),
    *(
        Row("llama", "LlamaForCausalLM", GENERATE, f"{kind} rope", {"rope_parameters": ROPE[kind]})
        for kind in ROPE
    ),
    Row("mistral", "MistralForCausalLM", GENERATE, "window of 5"),
    Row("mistral", "MistralForCausalLM", GENERATE, "no window", {"sliding_window": None}),
    Row("mistral", "MistralForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("mistral", "MistralModel", FEATURES, "window of 5"),
    *labelled("mistral"),
    *heads(decoder("ministral3", "Ministral3")),
    Row("ministral3", "Ministral3ForCausalLM", GENERATE, "window of 5, tied", TIED | {"sliding_window": 5}),
    *decoder("qwen2", "Qwen2"),
    Row("qwen2", "Qwen2ForCausalLM", GENERATE, "window in later layers", MIXED),
    Row("qwen2", "Qwen2ForCausalLM", GENERATE, "tied", TIED),
    Row(
        "qwen2",
        "Qwen2ForCausalLM",
        GENERATE,
        "yarn",
        {"rope_parameters": CARD} | {"max_position_embeddings": 10},
    ),
    *decoder("qwen3", "Qwen3"),
    Row("qwen3", "Qwen3ForCausalLM", GENERATE, "biases", {"attention_bias": True}),
    Row("qwen3", "Qwen3ForCausalLM", GENERATE, "yarn, not truncated", {"rope_parameters": EXACT}),
    Row("lfm2", "Lfm2ForCausalLM", GENERATE),
    Row("lfm2", "Lfm2ForCausalLM", GENERATE, "biases, kernel of 4", {"conv_bias": True, "conv_L_cache": 4}),
    Row("lfm2", "Lfm2ForCausalLM", GENERATE, "adjusted networks, untied", ADJUSTED),
    Row("lfm3", "Lfm3ForCausalLM", GENERATE),
    Row("lfm3", "Lfm3ForCausalLM", GENERATE, "without gates, pre-norm, untied", PLAIN_LFM3),
    Row("granitemoehybrid", "GraniteMoeHybridForCausalLM", GENERATE),
    Row("granitemoehybrid", "GraniteMoeHybridForCausalLM", GENERATE, "experts, RoPE", GRANITE_EXPERTS),
    Row("granitemoehybrid", "GraniteMoeHybridForCausalLM", GENERATE, "attention alone", GRANITE_DENSE),
    Row("bamba", "BambaForCausalLM", GENERATE),
    Row("bamba", "BambaForCausalLM", GENERATE, "groups of one head", FOUR_GROUPS),
    Row("nemotron_h", "NemotronHForCausalLM", GENERATE),
    Row("nemotron_h", "NemotronHForCausalLM", GENERATE, "latent experts in groups, biases", LATENT_EXPERTS),
    Row("mamba2", "Mamba2ForCausalLM", GENERATE),
    Row("mamba2", "Mamba2ForCausalLM", GENERATE, "tied, biases, one group", MAMBA2_TIED),
    Row("mamba", "MambaForCausalLM", GENERATE),
    Row("mamba", "MambaForCausalLM", GENERATE, "tied, biases, kernel of 4", MAMBA_TIED),
    Row("falcon_mamba", "FalconMambaForCausalLM", GENERATE),
    Row("jamba", "JambaForCausalLM", GENERATE),
    Row("jamba", "JambaForCausalLM", GENERATE, "without experts, tied, biases, kernel of 4", JAMBA_DENSE),
    Row("zamba2", "Zamba2ForCausalLM", GENERATE),
    Row("zamba2", "Zamba2ForCausalLM", GENERATE, "adapters of attention, untied, biases", ADAPTED),
    Row("zamba2", "Zamba2ForCausalLM", GENERATE, "one block, no RoPE, a hybrid layer last", ONE_BLOCK),
    Row("falcon_h1", "FalconH1ForCausalLM", GENERATE),
    Row("falcon_h1", "FalconH1ForCausalLM", GENERATE, "norm before the gate, one group", GATE_LAST),
    Row("falcon_h1", "FalconH1ForCausalLM", GENERATE, "norm after the gate, biases, tied", GATE_FIRST),
    Row("qwen3_next", "Qwen3NextForCausalLM", GENERATE),
    Row("qwen3_next", "Qwen3NextForCausalLM", GENERATE, "some dense layers, biases", SOME_DENSE),
    Row("olmo_hybrid", "OlmoHybridForCausalLM", GENERATE),
    Row("olmo_hybrid", "OlmoHybridForCausalLM", GENERATE, "RoPE, beta up to 1, biases, tied", TURNING),
    Row("kimi_linear", "KimiLinearForCausalLM", GENERATE),
    Row(
        "kimi_linear",
        "KimiLinearForCausalLM",
        GENERATE,
        "one group, biases, compressed queries",
        KIMI_ONE_GROUP,
    ),
    Row("recurrent_gemma", "RecurrentGemmaForCausalLM", GENERATE),
    Row("recurrent_gemma", "RecurrentGemmaForCausalLM", GENERATE, "biases, untied, SiLU", RECURRENT_WIDE),
    Row("recurrent_gemma", "RecurrentGemmaForCausalLM", GENERATE, "one head", ONE_HEAD),
    Row("rwkv", "RwkvForCausalLM", GENERATE),
    Row("rwkv", "RwkvForCausalLM", GENERATE, "tied, not rescaled", RWKV_TIED),
    Row(
        "rwkv",
        "RwkvForCausalLM",
        GENERATE,
        "published rescaling",
        {"num_hidden_layers": 7, "rescale_every": 6},
    ),
    Row("qwen3_5_text", "Qwen3_5ForCausalLM", GENERATE),
    Row("qwen3_5_text", "Qwen3_5ForCausalLM", GENERATE, "tied, wider values", WIDER_VALUES),
    Row("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", GENERATE),
    Row("qwen3_5", "Qwen3_5ForConditionalGeneration", GENERATE, "the text model within"),
    Row("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", GENERATE, "the text model within"),
    Row("lfm2_moe", "Lfm2MoeForCausalLM", GENERATE),
    Row(
        "lfm2_moe",
        "Lfm2MoeForCausalLM",
        GENERATE,
        "unnormalised top-k weights, scaled, untied",
        SCALED_SHARES,
    ),
    *decoder("phi", "Phi"),
    Row("phi", "PhiForCausalLM", GENERATE, "norms of heads, 2 key heads", HEAD_NORMS),
    Row("phi", "PhiForCausalLM", GENERATE, "tied, 0.4 rotary", TIED | {"partial_rotary_factor": 0.4}),
    *decoder("phi3", "Phi3"),
    Row("phi3", "Phi3ForCausalLM", GENERATE, "window of 5", {"sliding_window": 5}),
    Row("phi3", "Phi3ForCausalLM", GENERATE, "half rotary", HALF),
    Row("phi3", "Phi3ForCausalLM", GENERATE, "longrope", LONG),
    *decoder("arcee", "Arcee"),
    Row("cwm", "CwmForCausalLM", GENERATE),
    Row("cwm", "CwmForCausalLM", GENERATE, "no windows, default rope", UNWINDOWED),
    Row("cwm", "CwmModel", FEATURES, slow=True),
    Row("jais2", "Jais2ForCausalLM", GENERATE),
    Row("jais2", "Jais2Model", FEATURES, slow=True),
    Row("vaultgemma", "VaultGemmaForCausalLM", GENERATE),
    Row("vaultgemma", "VaultGemmaModel", FEATURES, slow=True),
    Row("youtu", "YoutuForCausalLM", GENERATE),
    Row("youtu", "YoutuForCausalLM", GENERATE, "halves, whole queries, untied", UNTIED | YOUTU_HALVES),
    Row("youtu", "YoutuModel", FEATURES, slow=True),
    Row("dots1", "Dots1ForCausalLM", GENERATE),
    Row("dots1", "Dots1ForCausalLM", GENERATE, "groups, normalised, scaled, biases", DOTS),
    Row("dots1", "Dots1Model", FEATURES, slow=True),
    Row("exaone_moe", "ExaoneMoeForCausalLM", GENERATE),
    Row("exaone_moe", "ExaoneMoeForCausalLM", GENERATE, "groups, some dense layers, tied", EXAONE_EXPERTS),
    Row("exaone_moe", "ExaoneMoeModel", FEATURES, slow=True),
    Row("exaone", "LlamaForCausalLM", GENERATE),
    Row("exaone", "LlamaForCausalLM", GENERATE, "biases, tied", TIED | {"attention_bias": True}),
    Row("exaone", "LlamaModel", FEATURES, slow=True),
    Row("internlm3", "LlamaForCausalLM", GENERATE),
    Row("internlm3", "LlamaForCausalLM", GENERATE, "biases, dynamic, tied", TIED | INTERNLM_BIASED),
    Row("internlm3", "LlamaModel", FEATURES, slow=True),
    Row("iquestcoder", "LlamaForCausalLM", GENERATE),
    Row("iquestcoder", "LlamaForCausalLM", GENERATE, "tied", TIED),
    Row("iquestcoder", "LlamaModel", FEATURES, slow=True),
    Row("dbrx", "DbrxForCausalLM", GENERATE),
    Row("dbrx", "DbrxForCausalLM", GENERATE, "not normalised, another base", DBRX_PLAIN),
    Row("dbrx", "DbrxModel", FEATURES, slow=True),
    Row("llama4_text", "Llama4ForCausalLM", GENERATE),
    Row(
        "llama4_text", "Llama4ForCausalLM", GENERATE, "experts everywhere, without norms, tied", LLAMA4_PLAIN
    ),
    Row("llama4_text", "Llama4ForCausalLM", GENERATE, "no experts", LLAMA4_DENSE),
    Row("llama4_text", "Llama4TextModel", FEATURES, "chunks behind padding"),
    Row("llama4", "Llama4ForConditionalGeneration", GENERATE, "the text model within"),
    Row("mellum", "MellumForCausalLM", GENERATE),
    Row("mellum", "MellumForCausalLM", GENERATE, "full attention, yarn, biases, tied", TIED | MELLUM_FULL),
    Row("mellum", "MellumModel", FEATURES, slow=True),
    Row("minicpm3", "MiniCPM3ForCausalLM", GENERATE),
    Row("minicpm3", "MiniCPM3ForCausalLM", GENERATE, "longrope, whole queries, untied", MINICPM_LONG),
    Row("minicpm3", "MiniCPM3ForSequenceClassification", CLASSIFY, "5 labels", LABELS, slow=True),
    Row("minicpm3", "MiniCPM3Model", FEATURES, slow=True),
    Row("glm4_moe_lite", "Glm4MoeLiteForCausalLM", GENERATE),
    Row("glm4_moe_lite", "Glm4MoeLiteForCausalLM", GENERATE, "one group, halves", GLM_FLASH),
    Row("glm4_moe_lite", "Glm4MoeLiteModel", FEATURES, slow=True),
    Row("solar_open", "SolarOpenForCausalLM", GENERATE),
    Row("solar_open", "SolarOpenForCausalLM", GENERATE, "biases, scaled", SOLAR),
    Row("solar_open", "SolarOpenModel", FEATURES, slow=True),
    Row("minimax_m2", "MiniMaxM2ForCausalLM", GENERATE),
    Row("minimax_m2", "MiniMaxM2ForCausalLM", GENERATE, "whole heads rotate", {"rotary_dim": 12}),
    Row("minimax_m2", "MiniMaxM2Model", FEATURES, slow=True),
    Row("flex_olmo", "FlexOlmoForCausalLM", GENERATE),
    Row("flex_olmo", "FlexOlmoForCausalLM", GENERATE, "normalised, biases", FLEXIBLE),
    Row("flex_olmo", "FlexOlmoModel", FEATURES, slow=True),
    Row("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", GENERATE),
    Row("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", GENERATE, "alpha, biases, tied", ALPHA | TIED),
    Row("hunyuan_v1_moe", "HunYuanMoEV1ForSequenceClassification", CLASSIFY, "5 labels", LABELS, slow=True),
    Row("hunyuan_v1_moe", "HunYuanMoEV1Model", FEATURES, slow=True),
    Row("granitemoeshared", "GraniteMoeSharedForCausalLM", GENERATE),
    Row("granitemoeshared", "GraniteMoeSharedForCausalLM", GENERATE, "no shared network", UNSHARED),
    Row("granitemoeshared", "GraniteMoeSharedModel", FEATURES, slow=True),
    *decoder("biogpt", "BioGpt"),
    Row("biogpt", "BioGptForCausalLM", GENERATE, "unscaled, untied, relu", PLAIN, slow=True),
    Row("codegen", "CodeGenForCausalLM", GENERATE),
    Row("codegen", "CodeGenModel", FEATURES),
    Row("cohere", "CohereForCausalLM", GENERATE),
    Row("cohere", "CohereModel", FEATURES),
    Row("cohere2", "Cohere2ForCausalLM", GENERATE),
    Row("cohere2", "Cohere2Model", FEATURES),
    Row("cohere2_moe", "Cohere2MoeForCausalLM", GENERATE),
    Row("cohere2_moe", "Cohere2MoeForCausalLM", GENERATE, "sigmoid, RMS norms, none shared", NORTH),
    Row("cohere2_moe", "Cohere2MoeModel", FEATURES, slow=True),
    Row("deepseek_v2", "DeepseekV2ForCausalLM", GENERATE),
    Row("deepseek_v2", "DeepseekV2ForCausalLM", GENERATE, "groups, yarn, whole queries", V2_GROUPED),
    Row("deepseek_v2", "DeepseekV2ForSequenceClassification", CLASSIFY, "5 labels", LABELS, slow=True),
    Row("deepseek_v2", "DeepseekV2Model", FEATURES),
    *decoder("deepseek_v3", "DeepseekV3"),
    Row("deepseek_v3", "DeepseekV3ForCausalLM", GENERATE, "yarn, whole queries, as Moonlight", MOONLIGHT),
    Row("deepseek_v3", "DeepseekV3ForCausalLM", GENERATE, "halves, biases, not normalised", V3_HALVES),
    Row("apertus", "ApertusForCausalLM", GENERATE),
    Row("apertus", "ApertusForCausalLM", GENERATE, "biases, tied", TIED | {"attention_bias": True}),
    Row("apertus", "ApertusModel", FEATURES, slow=True),
    *labelled("apertus"),
    Row("afmoe", "AfmoeForCausalLM", GENERATE),
    Row("afmoe", "AfmoeForCausalLM", GENERATE, "experts everywhere, plain words, tied", TIED | AFMOE_PLAIN),
    Row("afmoe", "AfmoeModel", FEATURES, slow=True),
    Row("nanochat", "NanoChatForCausalLM", GENERATE),
    Row("nanochat", "NanoChatForCausalLM", GENERATE, "biases, gelu, uncapped, tied", TIED | NANOCHAT_BIASED),
    Row("nanochat", "NanoChatModel", FEATURES, slow=True),
    *heads(decoder("mistral4", "Mistral4")),
    Row("mistral4", "Mistral4ForCausalLM", GENERATE, "halves, biases, not normalised", MISTRAL4_HALVES),
    Row("ernie4_5", "Ernie4_5ForCausalLM", GENERATE),
    Row("ernie4_5", "Ernie4_5ForCausalLM", GENERATE, "biases, untied", UNTIED | {"use_bias": True}),
    Row("ernie4_5", "Ernie4_5Model", FEATURES),
    Row("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", GENERATE),
    Row("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", GENERATE, "some dense layers, biases, untied", ERNIE),
    Row("ernie4_5_moe", "Ernie4_5_MoeModel", FEATURES, slow=True),
    *decoder("exaone4", "Exaone4"),
    Row("exaone4", "Exaone4ForCausalLM", GENERATE, "no window", {"sliding_window": None} | FULL, slow=True),
    *decoder("glm", "Glm"),
    *decoder("glm4", "Glm4"),
    Row("glm4_moe", "Glm4MoeForCausalLM", GENERATE),
    Row("glm4_moe", "Glm4MoeForCausalLM", GENERATE, "head norms, biases", GLM_4_5),
    Row("glm4_moe", "Glm4MoeModel", FEATURES),
    *decoder("gpt_bigcode", "GPTBigCode"),
    Row("gpt_bigcode", "GPTBigCodeForCausalLM", GENERATE, "a key head each", {"multi_query": False}),
    Row("helium", "HeliumForCausalLM", GENERATE),
    Row("helium", "HeliumForCausalLM", GENERATE, "biases, tied", TIED | HELIUM_BIASES, slow=True),
    *(replace(row, slow=True) for row in decoder("helium", "Helium") if row.task != GENERATE),
    Row("hyperclovax", "HyperCLOVAXForCausalLM", GENERATE),
    Row("hyperclovax", "HyperCLOVAXForCausalLM", GENERATE, "one norm", {"use_post_norm": False}, slow=True),
    Row("hyperclovax", "HyperCLOVAXModel", FEATURES, slow=True),
    *decoder("gpt_oss", "GptOss"),
    Row(
        "gpt_oss", "GptOssForCausalLM", GENERATE, "no biases, tied, full, default rope", TIED | OSS, slow=True
    ),
    Row("granite", "GraniteForCausalLM", GENERATE),
    Row("granite", "GraniteModel", FEATURES),
    Row("granite_swa", "GraniteSWAForCausalLM", GENERATE),
    Row("granite_swa", "GraniteSWAForCausalLM", GENERATE, "one theta, biases, untied", ONE_THETA | UNTIED),
    Row("granite_swa", "GraniteSWAModel", FEATURES, slow=True),
    Row("granitemoe_swa", "GraniteMoeSWAForCausalLM", GENERATE),
    Row(
        "granitemoe_swa",
        "GraniteMoeSWAForCausalLM",
        GENERATE,
        "shared network, one theta, tied",
        ONE_THETA | TIED | {"shared_intermediate_size": 50},
    ),
    Row("granitemoe_swa", "GraniteMoeSWAModel", FEATURES, slow=True),
    Row("granitemoe", "GraniteMoeForCausalLM", GENERATE),
    Row("granitemoe", "GraniteMoeModel", FEATURES),
    *decoder("hunyuan_v1_dense", "HunYuanDenseV1"),
    Row("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", GENERATE, "alpha, biases, tied", ALPHA | TIED),
    *decoder("modernbert-decoder", "ModernBertDecoder"),
    *decoder("nemotron", "Nemotron"),
    *decoder("olmo", "Olmo"),
    Row("olmo", "OlmoForCausalLM", GENERATE, "clipped, biases", CLIPPED | {"attention_bias": True}),
    *decoder("olmo2", "Olmo2"),
    *decoder("olmo3", "Olmo3"),
    Row("olmo3", "Olmo3ForCausalLM", GENERATE, "yarn in full layers", {"rope_parameters": UNEVEN}),
    Row("olmoe", "OlmoeForCausalLM", GENERATE),
    Row("olmoe", "OlmoeForCausalLM", GENERATE, "clipped", CLIPPED),
    Row("olmoe", "OlmoeModel", FEATURES),
    *decoder("qwen2_moe", "Qwen2Moe"),
    *decoder("qwen3_moe", "Qwen3Moe"),
    Row("qwen3_moe", "Qwen3MoeForCausalLM", GENERATE, "normalised, window of 5", NORMALISED),
    *decoder("seed_oss", "SeedOss"),
    *decoder("smollm3", "SmolLM3"),
    Row("smollm3", "SmolLM3ForCausalLM", GENERATE, "window in layers that rotate nothing", WINDOWED),
    Row("xglm", "XGLMForCausalLM", GENERATE),
    Row("xglm", "XGLMModel", FEATURES),
    *decoder("stablelm", "StableLm"),
    Row("stablelm", "StableLmForCausalLM", GENERATE, "parallel, 2 key heads, biases", BESIDE),
    *decoder("starcoder2", "Starcoder2"),
    Row("starcoder2", "Starcoder2ForCausalLM", GENERATE, "untied", UNTIED),
    Row(
        "starcoder2",
        "Starcoder2ForCausalLM",
        GENERATE,
        "no window, no biases",
        {"sliding_window": None, "use_bias": False},
    ),
    *decoder("gemma", "Gemma"),
    *decoder("gemma2", "Gemma2"),
    Row("gemma2", "Gemma2ForCausalLM", GENERATE, "uncapped", UNCAPPED),
    Row("gemma3_text", "Gemma3ForCausalLM", GENERATE),
    Row("gemma3_text", "Gemma3ForCausalLM", GENERATE, "linear rope in full layers, capped", STRETCHED),
    Row("gemma3_text", "Gemma3TextForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row("gemma3_text", "Gemma3TextModel", FEATURES),
    Row("gemma3_text", "Gemma3TextModel", FEATURES, "both ways", {"use_bidirectional_attention": True}),
    Row("gemma4_text", "Gemma4ForCausalLM", GENERATE),
    Row("gemma4_text", "Gemma4ForCausalLM", GENERATE, "values from keys, biases, untied", GEMMA4_DENSE),
    Row("gemma4_text", "Gemma4ForCausalLM", GENERATE, "experts", GEMMA4_EXPERTS),
    Row("gemma4", "Gemma4ForConditionalGeneration", GENERATE, "the text model within"),
    Row("gemma3n_text", "Gemma3nForCausalLM", GENERATE),
    Row("gemma3n_text", "Gemma3nForCausalLM", GENERATE, "dense, 4 vectors, biases, untied", GEMMA3N_DENSE),
    Row("gemma3n", "Gemma3nForConditionalGeneration", GENERATE, "the text model within"),
    *decoder("mixtral", "Mixtral"),
    Row("mixtral", "MixtralForCausalLM", GENERATE, "3 of 4 experts, window of 5", SPARSE),
    *decoder("phimoe", "Phimoe"),
    Row("phimoe", "PhimoeForCausalLM", GENERATE, "longrope", PHI_LONG),
    Row("phimoe", "PhimoeForCausalLM", GENERATE, "no biases, window of 5", PHI_PLAIN),
]

FIRST = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
SCALED = {"scale_embedding": True}
RELU = {"activation_function": "relu"}
UNSCALED = {"scale_embedding": False, "pad_token_id": 7}
TWO_VOCABULARIES = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 307}

NARROWER = {"decoder": {"hidden_size": 36, "hidden_act": "relu", "tie_word_embeddings": False}}
ROBERTAS = {
    "encoder": {"model_type": "roberta", "type_vocab_size": 1},
    "decoder": {"model_type": "roberta", "type_vocab_size": 1},
}
GENERATIONS = {"encoder": {"model_type": "bert-generation"}, "decoder": {"model_type": "bert-generation"}}
TROCR = {
    "model_type": "trocr",
    "d_model": 40,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 90,
    "max_position_embeddings": 40,
}
READ = {"decoder": TROCR | {"cross_attention_hidden_size": 48}}
SMALL = {"scale_embedding": True, "activation_function": "relu", "layernorm_embedding": False}
UNBIASED = {"qkv_bias": False, "hidden_act": "relu", "frequency_stride": 7}
TAUGHT = {"encoder": {"model_type": "deit"}, "decoder": TROCR | SMALL | {"tie_word_embeddings": False}}
ENCODER_DECODERS = [
    Row("t5", "T5ForConditionalGeneration", TRANSLATE),
    Row("t5", "T5EncoderModel", FEATURES),
    Row("t5", "T5ForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    *labelled("t5", slow=False),
    Row("t5", "T5ForConditionalGeneration", FEATURES, "from the whole"),
    Row("t5", "T5ForConditionalGeneration", TRANSLATE, "32 buckets to 128", FIRST),
    Row("t5", "T5ForConditionalGeneration", TRANSLATE, "v1.1", UNTIED | {"feed_forward_proj": "gated-gelu"}),
    Row("t5", "T5ForConditionalGeneration", TRANSLATE, "gated silu", {"feed_forward_proj": "gated-silu"}),
    Row("mt5", "MT5ForConditionalGeneration", TRANSLATE),
    Row("mt5", "MT5EncoderModel", FEATURES),
    Row("mt5", "MT5ForSequenceClassification", CLASSIFY, "5 labels", LABELS, slow=True),
    *labelled("mt5"),
    Row("t5gemma", "T5GemmaForConditionalGeneration", TRANSLATE),
    Row("t5gemma", "T5GemmaForConditionalGeneration", TRANSLATE, "untied, biases, uncapped", T5GEMMA_PLAIN),
    Row("t5gemma", "T5GemmaEncoderModel", FEATURES, config=ENCODER_ALONE),
    Row("t5gemma", "T5GemmaForSequenceClassification", CLASSIFY, "5 labels", LABELS | ENCODER_ALONE),
    Row("t5gemma", "T5GemmaForTokenClassification", TAG, "5 labels", LABELS | ENCODER_ALONE),
    Row("bart", "BartForConditionalGeneration", TRANSLATE),
    Row("bart", "BartForConditionalGeneration", TRANSLATE, "untied", UNTIED, slow=True),
    Row(
        "bart",
        "BartForConditionalGeneration",
        TRANSLATE,
        "scaled, tanh gelu",
        SCALED | {"activation_function": "gelu_new"},
    ),
    Row("bart", "BartModel", TRANSLATE, "without head"),
    Row(
        "bart", "BartForSequenceClassification", CLASSIFY, "5 labels", LABELS | {"decoder_start_token_id": 9}
    ),
    Row("bart", "BartForQuestionAnswering", ANSWER),
    Row("mbart", "MBartForConditionalGeneration", TRANSLATE),
    Row("mbart", "MBartForConditionalGeneration", TRANSLATE, "untied, scaled", UNTIED | SCALED, slow=True),
    Row("marian", "MarianMTModel", TRANSLATE),
    Row("marian", "MarianMTModel", TRANSLATE, "two vocabularies", TWO_VOCABULARIES),
    Row("pegasus", "PegasusForConditionalGeneration", TRANSLATE),
    Row("pegasus", "PegasusForConditionalGeneration", TRANSLATE, "scaled, relu", SCALED | RELU, slow=True),
    Row("blenderbot", "BlenderbotForConditionalGeneration", TRANSLATE),
    Row(
        "blenderbot",
        "BlenderbotForConditionalGeneration",
        TRANSLATE,
        "scaled, relu",
        SCALED | RELU,
        slow=True,
    ),
    Row("blenderbot", "BlenderbotForConditionalGeneration", TRANSLATE, "untied", UNTIED, slow=True),
    Row("blenderbot", "BlenderbotModel", TRANSLATE, "without head", slow=True),
    Row("m2m_100", "M2M100ForConditionalGeneration", TRANSLATE),
    Row("m2m_100", "M2M100ForConditionalGeneration", TRANSLATE, "unscaled, padding 7", UNSCALED, slow=True),
]

OBLONG = {"image_size": [18, 31]}
FIRST_VECTOR = {"use_mean_pooling": False, "use_absolute_position_embeddings": True, **LABELS}
BASIC = {"backbone_config": tiny_checkpoint.DETR["backbone_config"] | {"layer_type": "basic"}}
PATTERNS = {"num_patterns": 2, "keep_query_pos": True, "normalize_before": True}
SAME_WIDTH = {
    "backbone_config": {"use_learnable_affine_block": False},
    "d_model": 12,
    "decoder_n_points": 2,
    "hidden_expansion": 0.34,
}
ONE_SCALE = {
    "backbone_config": {"window_block_indices": [1, 3], "out_indices": [5], "qkv_bias": False},
    "projector_scale_factors": [1.0],
    "activation_function": "gelu",
}
ONE_WINDOW = {
    "backbone_config": {
        "num_windows": 1,
        "use_swiglu_ffn": True,
        "apply_layernorm": False,
        "out_indices": [0, 5],
    }
}
BASIC_LEVELS = {
    "backbone_config": tiny_checkpoint.RT_DETR["backbone_config"] | {"layer_type": "basic"},
    "hidden_expansion": 1.0,
}
LAST_MAP = {
    "num_feature_levels": 1,
    "backbone_config": tiny_checkpoint.DETR["backbone_config"],
    "activation_function": "gelu",
}
PROPOSED_BOXES = {"with_box_refine": True, "two_stage": True, "num_feature_levels": 3}
REFINED_MAP = {
    **{"use_complex_transposed_convolution": True, "conditional_layer": 0, "reduce_dim": 22},
    **{"vision_config": {"patch_size": 8, "image_size": 32}, "text_config": {"eos_token_id": 2}},
}
FIVE_LEVELS = {
    "d_model": 128,
    "num_feature_levels": 5,
    "decoder_bbox_embed_share": False,
    "backbone_config": {"out_features": ["stage3", "stage4"], "qkv_bias": False},
    "text_config": {"type_vocab_size": 1},
    "activation_function": "gelu",
    "max_text_len": 48,
}
WIDE_QUERIES = {
    "backbone_config": {"image_size": [37, 58], "patch_size": 3, "qkv_bias": False, "layer_norm_eps": 1e-3},
    "decoder_config": {"d_model": 96, "decoder_attention_heads": 3, "activation_function": "gelu"},
}
BASIC_MASKS = tiny_checkpoint.DETR_MASKS | {
    "backbone_config": tiny_checkpoint.DETR_MASKS["backbone_config"] | {"layer_type": "basic"},
    "activation_function": "silu",
}
OVER_DINOV2 = {
    "backbone_config": tiny_checkpoint.DEPTH["backbone_config"] | {"apply_layernorm": False},
    **{"add_projection": True, "use_bias_in_fusion_residual": False, "fusion_hidden_size": 256},
    "neck_hidden_sizes": [6, 7, 8, 9],  # of which most depths are above 0
}
BATCH_NORMS = {"use_batch_norm_in_fusion_residual": True}
NORMED_DEPTH = BATCH_NORMS | {"fusion_hidden_size": 8}  # of which most depths are above 0
PYRAMID = LABELS | {"num_hidden_layers": 5, "out_indices": [1, 2, 4, 5]}
CLASSIC = {"use_simple_decoder": False, "num_labels": 5}
FEWER_SCALES = {"pool_scales": [2, 7], "use_auxiliary_head": False, "out_indices": [2, 3, 4, 5]}
BASIC_LAYERS = LABELS | {"layer_type": "basic", "hidden_sizes": [6, 9, 11]}
OVER_SWIN = {
    "backbone_config": tiny_checkpoint.MASKFORMER["backbone_config"]
    | {"out_features": tiny_checkpoint.FOUR_STAGES},
    **{"num_labels": 5, "pool_scales": [2, 7], "use_auxiliary_head": False},
}
OVER_RESNET = LABELS | {"backbone_config": tiny_checkpoint.RESNET_MAPS}
OVER_CONVNEXT_V2 = LABELS | {
    "backbone_config": tiny_checkpoint.UPERNET["backbone_config"] | {"model_type": "convnextv2"}
}
SMALL_IMAGES = LABELS | {"image_size": [32, 32], "masked_unit_attention": [True, False, True, True]}
UNSCALED_LAYERS = {
    "layer_scale_init_value": 0.0,
    "image_size": [48, 65],
    "patch_size": 3,
    "hidden_act": "gelu_new",
}
RESIDUAL = {"backbone_config": tiny_checkpoint.RESNET_MAPS}
ONE_WIDTH = {"hidden_dim": 128, "pre_norm": True, "activation_function": "gelu", "decoder_layers": 3}
METRIC = {"depth_estimation_type": "metric", "max_depth": 20}
ONE_TABLE = {"use_mid_position_embeddings": False, "qkv_bias": False, "image_size": [33, 40]}
SIGLIP_AND_MISTRAL = {
    "vision_config": {"model_type": "siglip_vision_model", "hidden_act": "gelu_pytorch_tanh"},
    "text_config": {"model_type": "mistral", "sliding_window": 5},
    "vision_feature_select_strategy": "full",
    "vision_feature_layer": -1,
    "projector_hidden_act": "relu",
    "multimodal_projector_bias": False,
}
TIED_QWEN2 = {
    "vision_config": {"image_size": 24},
    "text_config": {"model_type": "qwen2", "num_hidden_layers": 3, **TIED},
    "vision_feature_layer": 1,
    "image_token_id": 7,
}
ONE_VECTOR = {"scale_factor": 4, **TIED}
NORMED_QUERIES = {
    "vision_config": {"use_qk_norm": True, "attention_bias": False},
    "text_config": {"model_type": "qwen3", "head_dim": 8},
    "downsample_ratio": 0.25,
    "projector_hidden_act": "relu",
    **TIED,
}
QWEN3 = {"text_config": {"model_type": "qwen3", "head_dim": 8}}
EVERY_PATCH = {"mm_tokens_per_image": 16, "tie_word_embeddings": False}
SIGLIP_TILES = {
    "vision_config": {"model_type": "siglip_vision_model", "patch_size": 6},
    "text_config": {"model_type": "mistral", "max_position_embeddings": 300, "sliding_window": 60},
    "vision_feature_layer": -1,
    "vision_feature_select_strategy": "full",
    "image_grid_pinpoints": [[48, 48], [24, 72]],
}
ONE_TILE = {"vision_aspect_ratio": "anyres_max_1", "vision_feature_layer": -2, **TIED}
GEMMA2 = {"text_config": tiny_checkpoint.GEMMA2 | {"model_type": "gemma2", "max_position_embeddings": 80}}
ONE_STAGE = {
    "vision_config": {
        "depths": [2],
        "patch_size": [7],
        "patch_stride": [7],
        "patch_padding": [3],
        "patch_prenorm": [True],
        "embed_dim": [16],
        "num_heads": [4],
        "num_groups": [2],
        "activation_function": "relu",
        "qkv_bias": False,
        "window_size": 2,
        "mlp_ratio": 2.5,
    },
    "text_config": {"scale_embedding": True, "activation_function": "relu"},
}
SHALLOW_SOUNDS = {
    "audio_config": tiny_checkpoint.QWEN2_AUDIO["audio_config"]
    | {"encoder_layers": 1, "activation_function": "relu", "scale_embedding": True, "encoder_ffn_dim": 50},
    "text_config": tiny_checkpoint.QWEN2_AUDIO["text_config"] | {"num_key_value_heads": 1, "rope_theta": 5e5},
}
JOINED_SOUNDS = {
    "audio_config": tiny_checkpoint.VOXTRAL["audio_config"]
    | {"intermediate_size": 72, "activation_function": "relu", "num_hidden_layers": 1},
    "text_config": tiny_checkpoint.VOXTRAL["text_config"] | {"model_type": "mistral", "rope_theta": 5e5},
    "projector_hidden_act": "silu",
}
FOUR_SECTIONS = {
    "vision_config": {
        "spatial_merge_size": 3,
        "temporal_patch_size": 1,
        "mlp_ratio": 2,
        "hidden_act": "relu",
    },
    "text_config": {
        "num_key_value_heads": 1,
        "rope_parameters": tiny_checkpoint.AXES | {"mrope_section": [1, 0, 2, 0, 1]},
    },
    **TIED,
}
YARN_ON_AXES = {
    "text_config": {
        "use_sliding_window": True,
        "sliding_window": 5,
        "max_window_layers": 1,
        "rope_parameters": tiny_checkpoint.AXES
        | {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 30},
    }
}
PAGES_OF_WINDOWS = {
    "vlm_config": {
        "text_config": tiny_checkpoint.QWEN2_VL["text_config"] | YARN_ON_AXES["text_config"],
        "vision_config": tiny_checkpoint.QWEN2_VL["vision_config"] | FOUR_SECTIONS["vision_config"],
    },
    "embedding_dim": 128,
}
THREE_A_SIDE = {
    "vision_config": {"window_size": 24, "fullatt_block_indexes": [2], "hidden_act": "gelu"},
    **TIED,
}
WITHOUT_WINDOWS = {"vision_config": {"fullatt_block_indexes": [0, 1, 2], "in_channels": 1}}
ONE_DEEP = {
    "vision_config": {
        "deepstack_visual_indexes": [3],
        "num_position_embeddings": 4,
        "spatial_merge_size": 3,
        "hidden_act": "relu",
    },
    "text_config": {
        "attention_bias": True,
        "rope_parameters": tiny_checkpoint.AXES | {"mrope_section": [3, 1, 2]},
    },
    **TIED,
}
# Of as many frequencies as sections have; those of config.json's default are more than there are.
SECTIONS_OF_16 = {
    "tie_word_embeddings": True,
    "text_config": {
        "head_dim": 32,
        "linear_value_head_dim": 20,
        "rope_parameters": {"rope_theta": 1e6, "mrope_section": [6, 5, 5], "mrope_interleaved": True}
        | {"rope_type": "default", "partial_rotary_factor": 1.0},
    },
}
NOT_DEEP = {"vision_config": {"deepstack_visual_indexes": []}, "text_config": {"num_hidden_layers": 1}}
AXIAL = {"rope_type": "axial", "rope_theta": 100.0}
OVER_PIXTRAL = {
    "vision_config": tiny_checkpoint.PIXTRAL | {"num_channels": 1, "rope_parameters": AXIAL},
    "text_config": {"model_type": "mistral", "max_position_embeddings": 120, "sliding_window": None},
    "vision_feature_layer": -1,
    "vision_feature_select_strategy": "full",
}
OF_MINISTRAL3 = {
    "text_config": tiny_checkpoint.MINISTRAL3 | {"model_type": "ministral3", "max_position_embeddings": 120}
}
OF_MISTRAL4 = {
    "text_config": tiny_checkpoint.MISTRAL4 | {"model_type": "mistral4", "max_position_embeddings": 120}
}
SQUARES_OF_NINE = {
    "vision_config": {"hidden_act": "silu", "patch_size": 3, "num_attention_heads": 3},
    "text_config": {"rms_norm_eps": 1e-3, "sliding_window": 7},
    "spatial_merge_size": 3,
    "multimodal_projector_bias": True,
    "projector_hidden_act": "relu",
    "vision_feature_layer": -2,
    **TIED,
}
FIRST_ATTENDS = {
    "vision_config": {
        "num_hidden_layers": 1,
        "num_global_layers": 1,
        "max_num_tiles": 2,
        "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]],
        "image_size": 18,
        "norm_eps": 1e-3,
        "intermediate_layers_indices": [0],
        "vision_output_dim": 60,
        "hidden_act": "quick_gelu",
    },
    "text_config": {
        "num_hidden_layers": 2,
        "cross_attention_layers": [0],
        "num_key_value_heads": 6,
        "hidden_act": "gelu",
        "rms_norm_eps": 1e-3,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 40,
        },
    },
    "image_token_index": 309,
}
PLAIN_PROJECTOR = {
    "projector_use_layernorm": False,
    "projector_bias": False,
    "projector_hidden_act": "relu",
    "downsample_factor": 3,
    "tie_word_embeddings": False,
    "vision_config": {"num_hidden_layers": 1, "num_patches": 9},
    "text_config": {"tie_word_embeddings": False},
}
NARROWER_IMAGES = {
    "vision_config": {"hidden_size": 36, "hidden_act": "relu"},
    "text_config": {"encoder_hidden_size": 36, "hidden_act": "relu"},
}
PIX2STRUCT = "Pix2StructForConditionalGeneration"
SHALLOW_PATCHES = {
    "vision_config": {"dense_act_fn": "relu", "layer_norm_eps": 1e-3, "num_hidden_layers": 1},
    "text_config": {"dense_act_fn": "relu", "layer_norm_epsilon": 1e-3, "num_layers": 1},
}
SHALLOW_QUESTIONS = {
    "vision_config": {"hidden_act": "relu", "layer_norm_eps": 1e-3, "num_hidden_layers": 1},
    "text_config": {"hidden_act": "relu", "layer_norm_eps": 1e-3, "num_hidden_layers": 1},
}
DONUT = {
    "encoder": tiny_checkpoint.SWIN | {"model_type": "donut-swin", "num_attention_heads": [2, 3, 4]},
    "decoder": tiny_checkpoint.SPEECH["decoder"] | {"scale_embedding": True},
}
FIRST_MARK = {"text_config": {"eos_token_id": 2, "hidden_act": "gelu"}}

BIASED = {"conv_bias": True, "num_conv_pos_embeddings": 5, "feat_extract_activation": "relu"}
LAYER_NORM = {"feat_extract_norm": "layer"}
STABLE = LAYER_NORM | {"do_stable_layer_norm": True}
SQUEEZED = LAYER_NORM | BIASED | {"squeeze_factor": 3, "conv_dim": [16, 20, 48]}
SUM_OF_SQUEEZED = LAYER_NORM | LABELS | {"use_weighted_layer_sum": True}
SHORTENED = {"add_adapter": True}
SHORTENED_SPEAKER = LAYER_NORM | SHORTENED | TIME_DELAYS
NARROWED = SHORTENED | {"output_hidden_size": 36, "num_adapter_layers": 2, "adapter_stride": 3}
NARROWED_FRAMES = NARROWED | {"adapter_act": "gelu", "use_intermediate_ffn_before_adapter": True}
BATCH_NORM = {"conv_pos_batch_norm": True, "feat_proj_layer_norm": False}
EVEN = {"conv_bias": True, "conv_pos_kernel_size": 4, "feat_extract_activation": "relu"}
DISTANCES = {"position_embeddings_type": "relative"}
BARE_OMNIASR = {"audio_config": {"conv_bias": False, "hidden_act": "relu", "layer_norm_eps": 1e-3}}
BARE_PARAKEET = {
    "encoder_config": {
        **{"attention_bias": False, "convolution_bias": False, "scale_input": False},
        **{"hidden_act": "relu", "subsampling_factor": 4},
    }
}
ROTARY = {"position_embeddings_type": "rotary"}
WITHOUT_POSITIONS = {"position_embeddings_type": None, "hidden_act": "relu"}
UNPOSITIONED = {"position_embeddings_type": None}
PROJECTED = {"classifier_proj_size": 26}
SUMMED = LABELS | PROJECTED | {"use_weighted_layer_sum": True, "encoder_layers": 3}
CONVOLVED = {
    **{"num_conv_layers": 3, "conv_kernel_sizes": [3, 5, 1], "conv_channels": 14},
    **{"scale_embedding": False, "activation_function": "gelu", "tie_word_embeddings": False},
}
NARROW_SPEECH = {
    "encoder": {"output_hidden_size": 40, "num_adapter_layers": 2, "adapter_stride": 3},
    "decoder": {"model_type": "bart", "d_model": 40},
}
HUBERT_BERT = {
    "encoder": {
        "model_type": "hubert",
        "feat_extract_norm": "group",
        "add_adapter": False,
        "hidden_size": 60,
    },
    "decoder": tiny_checkpoint.BERTS["decoder"],
}
CONFORMER_GPT2 = {
    "encoder": tiny_checkpoint.WAV2VEC2_BERT | {"model_type": "wav2vec2-bert", "add_adapter": False},
    "decoder": tiny_checkpoint.CAPTIONS["decoder"],
}
SHORTENED_CONFORMER = {
    "encoder": CONFORMER_GPT2["encoder"] | {"add_adapter": True, "use_intermediate_ffn_before_adapter": True},
    "decoder": CONFORMER_GPT2["decoder"],
}
PADDED_HEADS = {
    **{"tie_word_embeddings": False, "attention_bias": True, "pad_head_dim_to_multiple_of": 12},
    **{"partial_rotary_factor": 0.5, "encoder_hidden_act": "relu", "decoder_hidden_act": "gelu"},
}

OTHERS = [
    Row("whisper", "WhisperForConditionalGeneration", HEAR),
    Row("whisper", "WhisperForConditionalGeneration", HEAR, "scaled, relu", SCALED | RELU, slow=True),
    Row("whisper", "WhisperForAudioClassification", SOUNDS, "5 labels", LABELS | PROJECTED),
    Row("whisper", "WhisperForAudioClassification", SOUNDS, "sum of all layers", SUMMED),
    Row("speech_to_text", "Speech2TextForConditionalGeneration", HEAR),
    Row("speech_to_text", "Speech2TextForConditionalGeneration", HEAR, "three convolutions, gelu", CONVOLVED),
    Row("speech-encoder-decoder", "SpeechEncoderDecoderModel", HEAR),
    Row("speech-encoder-decoder", "SpeechEncoderDecoderModel", HEAR, "narrower adapter, BART", NARROW_SPEECH),
    Row("speech-encoder-decoder", "SpeechEncoderDecoderModel", HEAR, "HuBERT, unmasked, BERT", HUBERT_BERT),
    Row("speech-encoder-decoder", "SpeechEncoderDecoderModel", HEAR, "wav2vec2-BERT, GPT-2", CONFORMER_GPT2),
    Row("speech-encoder-decoder", "SpeechEncoderDecoderModel", HEAR, "shorter, GPT-2", SHORTENED_CONFORMER),
    Row("moonshine", "MoonshineForConditionalGeneration", HEAR),
    Row("moonshine", "MoonshineForConditionalGeneration", HEAR, "untied, biases, padded heads", PADDED_HEADS),
    Row("encoder-decoder", "EncoderDecoderModel", TRANSLATE),
    Row("encoder-decoder", "EncoderDecoderModel", TRANSLATE, "narrower decoder, untied", NARROWER),
    Row("encoder-decoder", "EncoderDecoderModel", TRANSLATE, "RoBERTa", ROBERTAS, slow=True),
    Row("encoder-decoder", "EncoderDecoderModel", TRANSLATE, "BertGeneration", GENERATIONS, slow=True),
    Row("vision-encoder-decoder", "VisionEncoderDecoderModel", DESCRIBE),
    Row("vision-encoder-decoder", "VisionEncoderDecoderModel", DESCRIBE, "TrOCR", READ),
    Row(
        "vision-encoder-decoder",
        "VisionEncoderDecoderModel",
        DESCRIBE,
        "DeiT, untied TrOCR",
        TAUGHT,
    ),
    Row("audio-spectrogram-transformer", "ASTForAudioClassification", SOUNDS, "5 labels", LABELS),
    Row("audio-spectrogram-transformer", "ASTForAudioClassification", SOUNDS, "no biases, relu", UNBIASED),
    Row("wav2vec2", "Wav2Vec2ForCTC", HEAR),
    Row("wav2vec2", "Wav2Vec2ForCTC", HEAR, "biases, odd kernel, relu", BIASED),
    Row("wav2vec2", "Wav2Vec2ForCTC", HEAR, "layer norm, masked", LAYER_NORM),
    Row("wav2vec2", "Wav2Vec2ForCTC", HEAR, "stable layer norm, masked, odd kernel", STABLE | BIASED),
    *sound_heads("wav2vec2", "Wav2Vec2", slow=False),
    Row("wav2vec2", "Wav2Vec2ForSequenceClassification", SOUNDS, "masked", LAYER_NORM | LABELS),
    Row("wav2vec2", "Wav2Vec2ForXVector", SPEAKER, "masked", LAYER_NORM | TIME_DELAYS),
    Row("wavlm", "WavLMForCTC", HEAR),
    Row("wavlm", "WavLMForCTC", HEAR, "stable layer norm, masked", STABLE),
    *sound_heads("wavlm", "WavLM"),
    Row("hubert", "HubertForCTC", HEAR),
    Row("hubert", "HubertForCTC", HEAR, "stable layer norm, masked", STABLE),
    Row("hubert", "HubertForCTC", HEAR, "batch norm of positions, masked", LAYER_NORM | BATCH_NORM),
    *sound_heads("hubert", "Hubert", speakers=False),
    *sound_heads("data2vec-audio", "Data2VecAudio"),
    *sound_heads("unispeech", "UniSpeech", speakers=False),
    *sound_heads("unispeech-sat", "UniSpeechSat"),
    Row("data2vec-audio", "Data2VecAudioForCTC", HEAR),
    Row("data2vec-audio", "Data2VecAudioForCTC", HEAR, "biases, even kernel, relu", EVEN),
    Row("sew", "SEWForCTC", HEAR),
    Row("sew", "SEWForCTC", HEAR, "layer norm, masked", LAYER_NORM),
    Row("sew", "SEWForCTC", HEAR, "groups of 3, masked, biases, odd kernel, relu", SQUEEZED),
    *sound_heads("sew", "SEW", speakers=False, slow=False),
    Row("sew", "SEWForSequenceClassification", SOUNDS, "masked", LAYER_NORM | LABELS),
    Row("sew", "SEWForSequenceClassification", SOUNDS, "sum of all layers, masked", SUM_OF_SQUEEZED),
    Row("unispeech", "UniSpeechForCTC", HEAR, "stable layer norm, masked", STABLE),
    Row("unispeech-sat", "UniSpeechSatForCTC", HEAR),
    Row("unispeech-sat", "UniSpeechSatForCTC", HEAR, "stable layer norm, masked", STABLE),
    Row("wav2vec2-conformer", "Wav2Vec2ConformerForCTC", HEAR),
    Row("wav2vec2-conformer", "Wav2Vec2ConformerForCTC", HEAR, "layer norm, masked", LAYER_NORM),
    Row("wav2vec2-conformer", "Wav2Vec2ConformerForCTC", HEAR, "rotary, masked", ROTARY | LAYER_NORM),
    Row("wav2vec2-conformer", "Wav2Vec2ConformerForCTC", HEAR, "rotary", ROTARY),
    Row("wav2vec2-conformer", "Wav2Vec2ConformerForCTC", HEAR, "no positions, relu", WITHOUT_POSITIONS),
    *sound_heads("wav2vec2-conformer", "Wav2Vec2Conformer"),
    *sound_heads("wav2vec2-bert", "Wav2Vec2Bert"),
    Row("omniasr_ctc", "OmniASRForCTC", HEAR),
    Row("omniasr_ctc", "OmniASRForCTC", HEAR, "no biases, relu", BARE_OMNIASR),
    Row("parakeet_ctc", "ParakeetForCTC", HEAR),
    Row("parakeet_ctc", "ParakeetForCTC", HEAR, "no biases, unscaled, relu", BARE_PARAKEET),
    Row("wav2vec2-bert", "Wav2Vec2BertForCTC", HEAR),
    Row(
        "wav2vec2-bert",
        "Wav2Vec2BertForCTC",
        HEAR,
        "sinusoids of distances, relu",
        DISTANCES | {"hidden_act": "relu"},
    ),
    Row("wav2vec2-bert", "Wav2Vec2BertForCTC", HEAR, "no positions", UNPOSITIONED),
    Row("wav2vec2", "Wav2Vec2ForCTC", HEAR, "attention adapters, masked", STABLE | {"adapter_attn_dim": 7}),
    Row("wav2vec2", "Wav2Vec2ForCTC", HEAR, "length adapter", SHORTENED),
    Row("wav2vec2", "Wav2Vec2ForCTC", HEAR, "narrower length adapter, masked", LAYER_NORM | NARROWED),
    Row("wav2vec2", "Wav2Vec2ForXVector", SPEAKER, "length adapter, masked", SHORTENED_SPEAKER),
    Row("wav2vec2-conformer", "Wav2Vec2ConformerForCTC", HEAR, "length adapter", SHORTENED),
    Row("data2vec-audio", "Data2VecAudioForCTC", HEAR, "length adapter", SHORTENED),
    Row("wav2vec2-bert", "Wav2Vec2BertForCTC", HEAR, "length adapter", SHORTENED),
    Row("wav2vec2-bert", "Wav2Vec2BertForCTC", HEAR, "narrower length adapter", NARROWED_FRAMES),
    Row("wav2vec2-bert", "Wav2Vec2BertForXVector", SPEAKER, "length adapter", SHORTENED | TIME_DELAYS),
    Row("vit", "ViTModel", SEE),
    Row("vit", "ViTModel", SEE, "oblong, no biases", OBLONG | {"qkv_bias": False}),
    Row("vit", "ViTForImageClassification", LABEL, "5 labels", LABELS),
    Row("deit", "DeiTModel", SEE),
    Row("deit", "DeiTForImageClassification", LABEL, "5 labels", LABELS),
    Row("deit", "DeiTForImageClassificationWithTeacher", LABEL, "with teacher", LABELS),
    Row("vit_msn", "ViTMSNModel", SEE),
    Row("vit_msn", "ViTMSNForImageClassification", LABEL, "5 labels", LABELS),
    Row("ijepa", "IJepaModel", SEE, "oblong", OBLONG),
    Row("ijepa", "IJepaForImageClassification", LABEL, "5 labels", LABELS),
    Row("vit_mae", "ViTMAEModel", SEE),
    Row("vit_mae", "ViTMAEForPreTraining", SEE, "with its decoder"),
    Row("dinov2", "Dinov2Model", SEE),
    Row("dinov2", "Dinov2Model", SEE, "gated", {"use_swiglu_ffn": True}),
    Row("dinov2", "Dinov2ForImageClassification", LABEL, "5 labels", LABELS),
    Row("depth_anything", "DepthAnythingForDepthEstimation", DEPTH),
    Row("depth_anything", "DepthAnythingForDepthEstimation", DEPTH, "metric", METRIC),
    Row("dpt", "DPTForDepthEstimation", DEPTH),
    Row("dpt", "DPTForDepthEstimation", DEPTH, "class token added", {"readout_type": "add"}),
    Row("dpt", "DPTForDepthEstimation", DEPTH, "class token left out", {"readout_type": "ignore"}),
    Row("dpt", "DPTForDepthEstimation", DEPTH, "batch norms", NORMED_DEPTH),
    Row("dpt", "DPTForDepthEstimation", DEPTH, "over DINOv2", OVER_DINOV2),
    Row("dpt", "DPTForSemanticSegmentation", SEGMENT, "5 labels", LABELS),
    Row(
        "dpt",
        "DPTForSemanticSegmentation",
        SEGMENT,
        "5 labels, batch norms",
        LABELS | BATCH_NORMS | {"use_auxiliary_head": False},
    ),
    Row("resnet", "ResNetModel", SEE),
    Row("resnet", "ResNetForImageClassification", LABEL, "5 labels, basic layers", BASIC_LAYERS),
    Row("upernet", "UperNetForSemanticSegmentation", SEGMENT, "5 labels", LABELS),
    Row("upernet", "UperNetForSemanticSegmentation", SEGMENT, "over Swin, other scales", OVER_SWIN),
    Row("upernet", "UperNetForSemanticSegmentation", SEGMENT, "over a residual network", OVER_RESNET),
    Row("upernet", "UperNetForSemanticSegmentation", SEGMENT, "over ConvNeXt V2", OVER_CONVNEXT_V2),
    Row("hiera", "HieraModel", SEE),
    Row("hiera", "HieraForImageClassification", LABEL, "5 labels, small images", SMALL_IMAGES),
    Row("convnext", "ConvNextModel", SEE),
    Row("convnext", "ConvNextModel", SEE, "no scales, oblong", UNSCALED_LAYERS),
    Row("convnext", "ConvNextForImageClassification", LABEL, "5 labels", LABELS),
    Row("convnextv2", "ConvNextV2Model", SEE),
    Row("convnextv2", "ConvNextV2ForImageClassification", LABEL, "5 labels", LABELS),
    Row("glpn", "GLPNForDepthEstimation", DEPTH),
    Row("segformer", "SegformerForSemanticSegmentation", SEGMENT, "5 labels", LABELS),
    Row("segformer", "SegformerForImageClassification", LABEL, "5 labels", LABELS),
    Row("maskformer", "MaskFormerForInstanceSegmentation", SEGMENT, "5 labels", LABELS),
    Row("maskformer", "MaskFormerForInstanceSegmentation", SEGMENT, "wide queries, no biases", WIDE_QUERIES),
    Row("vitpose", "VitPoseForPoseEstimation", POSE),
    Row("vitpose", "VitPoseForPoseEstimation", POSE, "classic decoder", CLASSIC),
    Row("maskformer", "MaskFormerForInstanceSegmentation", SEGMENT, "residual network", RESIDUAL),
    Row("mask2former", "Mask2FormerForUniversalSegmentation", SEGMENT, "5 labels", LABELS),
    Row("mask2former", "Mask2FormerForUniversalSegmentation", SEGMENT, "one width, pre-norm", ONE_WIDTH),
    Row("sam", "SamModel", MASKS),
    Row("sam2", "Sam2Model", MASKS),
    Row("sam2", "Sam2Model", MASKS, "no stability, coarser maps everywhere", ANY_MASK),
    Row("sam2_video", "Sam2VideoModel", MASKS),
    Row("beit", "BeitModel", SEE),
    Row("beit", "BeitForImageClassification", LABEL, "5 labels", LABELS),
    Row("beit", "BeitForImageClassification", LABEL, "first vector, positions", FIRST_VECTOR),
    Row("beit", "BeitForSemanticSegmentation", SEGMENT, "5 labels", PYRAMID),
    Row("data2vec-vision", "Data2VecVisionModel", SEE),
    Row("data2vec-vision", "Data2VecVisionForImageClassification", LABEL, "5 labels", LABELS),
    Row(
        "data2vec-vision",
        "Data2VecVisionForSemanticSegmentation",
        SEGMENT,
        "5 labels, two scales",
        PYRAMID | FEWER_SCALES,
    ),
    Row("detr", "DetrForObjectDetection", DETECT),
    Row("detr", "DetrForObjectDetection", DETECT, "basic layers", BASIC),
    Row("detr", "DetrForSegmentation", SEGMENT, "4 stages", tiny_checkpoint.DETR_MASKS),
    Row("detr", "DetrForSegmentation", SEGMENT, "basic layers", BASIC_MASKS),
    Row("table-transformer", "TableTransformerForObjectDetection", DETECT),
    Row("conditional_detr", "ConditionalDetrForObjectDetection", DETECT, "5 labels", LABELS),
    Row("conditional_detr", "ConditionalDetrForObjectDetection", DETECT, "basic layers", BASIC),
    Row("deformable_detr", "DeformableDetrForObjectDetection", DETECT, "5 labels", LABELS),
    Row("deformable_detr", "DeformableDetrForObjectDetection", DETECT, "refined", {"with_box_refine": True}),
    Row("deformable_detr", "DeformableDetrForObjectDetection", DETECT, "proposed boxes", PROPOSED_BOXES),
    Row("deformable_detr", "DeformableDetrForObjectDetection", DETECT, "the last map", LAST_MAP),
    Row("rt_detr", "RTDetrForObjectDetection", DETECT, "5 labels", LABELS),
    Row("rt_detr", "RTDetrForObjectDetection", DETECT, "basic layers", BASIC_LEVELS),
    Row("rt_detr_v2", "RTDetrV2ForObjectDetection", DETECT),
    Row("d_fine", "DFineForObjectDetection", DETECT, "5 labels", LABELS),
    Row("dab-detr", "DabDetrForObjectDetection", DETECT, "5 labels", LABELS),
    Row("dab-detr", "DabDetrForObjectDetection", DETECT, "patterns", PATTERNS),
    Row("d_fine", "DFineForObjectDetection", DETECT, "one width", SAME_WIDTH),
    Row("lw_detr", "LwDetrForObjectDetection", DETECT, "5 labels", LABELS),
    Row("lw_detr", "LwDetrForObjectDetection", DETECT, "maps of one size", ONE_SCALE),
    Row("rf_detr", "RfDetrForObjectDetection", DETECT, "5 labels", LABELS),
    Row("rf_detr", "RfDetrForObjectDetection", DETECT, "SwiGLU, one window", ONE_WINDOW),
    Row("rf_detr", "RfDetrForInstanceSegmentation", SEGMENT, "masks"),
    Row("yolos", "YolosForObjectDetection", DETECT),
    Row("yolos", "YolosForObjectDetection", DETECT, "one table of positions, no biases", ONE_TABLE),
    Row("clap", "ClapModel", MATCH_SOUND),
    Row("owlvit", "OwlViTForObjectDetection", FIND),
    Row("owlv2", "Owlv2ForObjectDetection", FIND),
    Row("clipseg", "CLIPSegForImageSegmentation", SEGMENT),
    Row("clipseg", "CLIPSegForImageSegmentation", SEGMENT, "refined map, the largest id", REFINED_MAP),
    Row("grounding-dino", "GroundingDinoForObjectDetection", FIND),
    Row("grounding-dino", "GroundingDinoForObjectDetection", FIND, "five levels, boxes apart", FIVE_LEVELS),
    Row("colpali", "ColPaliForRetrieval", RANK),
    Row("colpali", "ColPaliForRetrieval", RANK, "PaliGemma 2", {"vlm_config": GEMMA2}),
    Row("colqwen2", "ColQwen2ForRetrieval", RANK),
    Row("colqwen2", "ColQwen2ForRetrieval", RANK, "YaRN, a sliding window", PAGES_OF_WINDOWS),
    Row("clip", "CLIPModel", MATCH),
    Row("clip", "CLIPForImageClassification", LABEL, "5 labels", LABELS),
    Row("llava", "LlavaForConditionalGeneration", CONVERSE),
    Row("llava", "LlavaForConditionalGeneration", CONVERSE, "SigLIP, Mistral", SIGLIP_AND_MISTRAL),
    Row("llava", "LlavaForConditionalGeneration", CONVERSE, "tied Qwen 2, one layer", TIED_QWEN2),
    Row("llava", "LlavaForConditionalGeneration", CONVERSE, "Qwen 3", QWEN3),
    Row("idefics3", "Idefics3ForConditionalGeneration", CONVERSE),
    Row("idefics3", "Idefics3ForConditionalGeneration", CONVERSE, "tied, a vector a tile", ONE_VECTOR),
    Row("smolvlm", "SmolVLMForConditionalGeneration", CONVERSE),
    Row("internvl", "InternVLForConditionalGeneration", CONVERSE),
    Row("internvl", "InternVLForConditionalGeneration", CONVERSE, "normed queries, Qwen 3", NORMED_QUERIES),
    Row("gemma3", "Gemma3ForConditionalGeneration", CONVERSE),
    Row("gemma3", "Gemma3ForConditionalGeneration", CONVERSE, "every patch, untied", EVERY_PATCH),
    Row("llava_next", "LlavaNextForConditionalGeneration", CONVERSE),
    Row("llava_next", "LlavaNextForConditionalGeneration", CONVERSE, "SigLIP, Mistral", SIGLIP_TILES),
    Row("llava_onevision", "LlavaOnevisionForConditionalGeneration", CONVERSE),
    Row(
        "llava_onevision",
        "LlavaOnevisionForConditionalGeneration",
        CONVERSE,
        "tied, one tile at most",
        ONE_TILE,
    ),
    Row("florence2", "Florence2ForConditionalGeneration", CONVERSE),
    Row("florence2", "Florence2ForConditionalGeneration", CONVERSE, "ReLU, one stage, scaled", ONE_STAGE),
    Row("qwen2_audio", "Qwen2AudioForConditionalGeneration", LISTEN),
    Row("qwen2_audio", "Qwen2AudioForConditionalGeneration", LISTEN, "ReLU, one layer", SHALLOW_SOUNDS),
    Row("audioflamingo3", "AudioFlamingo3ForConditionalGeneration", LISTEN),
    Row(
        "audioflamingo3",
        "AudioFlamingo3ForConditionalGeneration",
        LISTEN,
        "ReLU, without biases",
        {"projector_hidden_act": "relu", "projector_bias": False},
    ),
    Row("voxtral", "VoxtralForConditionalGeneration", LISTEN),
    Row("voxtral", "VoxtralForConditionalGeneration", LISTEN, "Mistral, pairs joined, SiLU", JOINED_SOUNDS),
    Row("paligemma", "PaliGemmaForConditionalGeneration", CONVERSE),
    Row("paligemma", "PaliGemmaForConditionalGeneration", CONVERSE, "PaliGemma 2", GEMMA2),
    Row("qwen2_vl", "Qwen2VLForConditionalGeneration", CONVERSE),
    Row("qwen2_vl", "Qwen2VLForConditionalGeneration", CONVERSE, "tied, sections of four", FOUR_SECTIONS),
    Row("qwen2_vl", "Qwen2VLForConditionalGeneration", CONVERSE, "YaRN, a sliding window", YARN_ON_AXES),
    Row("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", CONVERSE),
    Row("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", CONVERSE, "tied, wider windows", THREE_A_SIDE),
    Row("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", CONVERSE, "without windows", WITHOUT_WINDOWS),
    Row("qwen3_vl", "Qwen3VLForConditionalGeneration", CONVERSE),
    Row("qwen3_vl", "Qwen3VLForConditionalGeneration", CONVERSE, "tied, one DeepStack layer", ONE_DEEP),
    Row("qwen3_vl", "Qwen3VLForConditionalGeneration", CONVERSE, "no DeepStack", NOT_DEEP),
    Row("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", CONVERSE),
    Row("qwen3_5", "Qwen3_5ForConditionalGeneration", CONVERSE),
    Row("qwen3_5", "Qwen3_5ForConditionalGeneration", CONVERSE, "tied, published sections", SECTIONS_OF_16),
    Row("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", CONVERSE),
    Row("llava", "LlavaForConditionalGeneration", CONVERSE, "Pixtral", OVER_PIXTRAL),
    Row("mistral3", "Mistral3ForConditionalGeneration", CONVERSE),
    Row("mistral3", "Mistral3ForConditionalGeneration", CONVERSE, "tied, three a side", SQUARES_OF_NINE),
    Row("mistral3", "Mistral3ForConditionalGeneration", CONVERSE, "Ministral 3", OF_MINISTRAL3),
    Row("mistral3", "Mistral3ForConditionalGeneration", CONVERSE, "Mistral 4", OF_MISTRAL4),
    Row("lfm2_vl", "Lfm2VlForConditionalGeneration", CONVERSE),
    Row("lfm2_vl", "Lfm2VlForConditionalGeneration", CONVERSE, "untied, one layer", PLAIN_PROJECTOR),
    Row("mllama", "MllamaForConditionalGeneration", CONVERSE),
    Row("mllama", "MllamaForConditionalGeneration", CONVERSE, "the first layer attends", FIRST_ATTENDS),
    Row("blip", "BlipForConditionalGeneration", DESCRIBE),
    Row("blip", "BlipForConditionalGeneration", DESCRIBE, "narrower images, ReLU", NARROWER_IMAGES),
    Row("blip", "BlipForQuestionAnswering", CONVERSE),
    Row("blip", "BlipForQuestionAnswering", CONVERSE, "ReLU, one layer, eps", SHALLOW_QUESTIONS),
    Row("pix2struct", PIX2STRUCT, DESCRIBE),
    Row("pix2struct", PIX2STRUCT, DESCRIBE, "ReLU, one layer, eps", SHALLOW_PATCHES),
    Row("pix2struct", PIX2STRUCT, CONVERSE, "questions above images", {"is_vqa": True}),
    Row("donut-swin", "DonutSwinModel", SEE),
    Row("vision-encoder-decoder", "VisionEncoderDecoderModel", DESCRIBE, "Donut", DONUT),
    Row("clip", "CLIPModel", MATCH, "first releases' mark, gelu", FIRST_MARK),
]

ROWS = [*ENCODERS, *DECODERS, *ENCODER_DECODERS, *OTHERS, *BARTS, *BERTS, *TOWERS]


def families_table() -> str:
    """The table of verified families in docs/: per family, its tasks and the variations of its rows."""
    own, others = ({row.model_type for row in rows} for rows in (ROWS, WITHOUT_LIBRARY))
    lines = [
        f"{len(own)} model types of transformers, and {len(others)}, the last rows, that are in no library.",
        "",
    ]
    lines += ["| family | tasks | variants with a row of their own |", "|---|---|---|"]
    every = [*ROWS, *WITHOUT_LIBRARY]
    for model_type in dict.fromkeys(row.model_type for row in every):
        rows = [row for row in every if row.model_type == model_type]
        tasks = ", ".join(dict.fromkeys(row.task for row in rows))
        variants = "; ".join(dict.fromkeys(row.variant for row in rows if row.variant))
        lines.append(f"| `{model_type}` | {tasks} | {variants} |")
    return "\n".join(lines) + "\n"
