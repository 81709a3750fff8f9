"""Damaged, foreign or unusual checkpoints: one clear line, or the right numbers."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_checkpoint
import torch
from helpers.project import DATA, ROOT
from helpers.rows import Row
from safetensors.torch import load_file, save_file

from txexport import families
from txexport.checkpoints import weight_map, weight_resolution
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, UnsupportedError
from txexport.exporter import export
from txexport.families._unknown import REFUSED, TRACED
from txexport.verification import verify

SOUNDS = tiny_checkpoint.CLAP["audio_config"]


@pytest.fixture
def copy_of(checkpoint_of, tmp_path):
    """A function from a model_type to a checkpoint of its own, with config changes and tensor edits."""

    def get(model_type: str, edit=None, /, **config) -> Path:
        folder = tmp_path / "checkpoint"
        shutil.copytree(checkpoint_of(model_type), folder)
        values = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps(values))
        if edit is not None:
            tensors = load_file(folder / "model.safetensors")
            save_file({k: v.contiguous() for k, v in edit(tensors).items()}, folder / "model.safetensors")
        return folder

    return get


def resolve(folder: Path, task=None):
    return families.resolve(Checkpoint(folder), task)


def error(kind, folder: Path, task=None) -> str:
    with pytest.raises(kind) as caught:
        resolve(folder, task)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_folder(tmp_path):
    assert "is not a folder" in error(CheckpointError, tmp_path / "nowhere")


def test_no_config(tmp_path):
    assert error(CheckpointError, tmp_path) == f"{tmp_path} has no config.json"


def test_config_is_not_json(copy_of):
    folder = copy_of("bert")
    (folder / "config.json").write_text("{")
    assert "cannot be read as JSON" in error(CheckpointError, folder)


def test_no_weights(copy_of):
    folder = copy_of("bert")
    (folder / "model.safetensors").unlink()
    assert "has no weights (expected model.safetensors or pytorch_model.bin)" in error(
        CheckpointError, folder
    )
    (folder / "tf_model.h5").touch()
    (folder / "training_args.bin").touch()
    assert "has no weights (found tf_model.h5, training_args.bin; expected" in error(CheckpointError, folder)


def test_truncated_weights(copy_of):
    folder = copy_of("bert")
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    assert f"is truncated: {len(whole) - 100} bytes" in error(CheckpointError, folder)
    file.write_bytes(whole[:40])
    assert "is not a safetensors file" in error(CheckpointError, folder)
    file.write_bytes(b"")
    assert "is not a safetensors file" in error(CheckpointError, folder)


def test_missing_shard(tmp_path):
    folder = tmp_path / "sharded"
    shutil.copytree(DATA / "transformers-4.40-bart", folder)
    (folder / "model-00002-of-00003.safetensors").unlink()
    assert "model-00002-of-00003.safetensors is missing" in error(CheckpointError, folder)


def test_single_file_is_read_in_place_of_shards(tmp_path, copy_of):
    folder = copy_of("bert")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "elsewhere.safetensors"}}')
    assert resolve(folder).model_type == "bert"
    assert verify_equal(folder, tmp_path)


def verify_equal(folder: Path, tmp_path: Path) -> bool:
    export(folder, tmp_path / "out")
    return verify(tmp_path / "out", reference="transformers").ok


def test_index_that_makes_no_sense(copy_of):
    folder = copy_of("bert")
    (folder / "model.safetensors").unlink()
    for places in ({"a": 1}, [], 3):
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
        assert "'weight_map' is not tensor names to file names" in error(CheckpointError, folder)


def test_bundle_is_no_checkpoint(bundle_of):
    assert "is a bundle already" in error(CheckpointError, bundle_of("bert"))


def test_unknown_model_type_tells_where_the_known_are_listed(copy_of):
    message = error(UnsupportedError, copy_of("bert", model_type="perceiver"))
    assert "model_type 'perceiver' is not supported; `txexport families` lists those that are" in message


def test_unknown_task_lists_the_known(copy_of):
    folder = copy_of("bert", architectures=["BertForTokensAndSentences"])
    assert "implies no supported task; choose one of feature-extraction, fill-mask" in error(
        UnsupportedError, folder
    )
    assert "task 'object-detection' is not supported for bert" in error(
        UnsupportedError, folder, "object-detection"
    )


def test_missing_and_unused_tensors_come_in_one_error(copy_of):
    def edit(tensors):
        del tensors["encoder.layer.0.attention.self.query.weight"]
        del tensors["embeddings.LayerNorm.bias"]
        return tensors | {"encoder.layer.7.new": torch.ones(2), "surprise": torch.ones(1)}

    message = error(CheckpointError, copy_of("bert", edit))
    missing, unused = message.split("; ")[-2:]
    assert missing.endswith("embeddings.LayerNorm.bias, encoder.layer.0.attention.self.query.weight")
    assert unused == "unused: encoder.layer.7.new, surprise"


def test_shape_that_disagrees_names_the_config_value(copy_of):
    message = error(CheckpointError, copy_of("gpt2", n_inner=77))
    assert "tensor 'transformer.h.0.mlp.c_fc.weight' is (48, 100), expected (48, 77)" in message
    assert "config.json says n_inner=77" in message


@pytest.mark.parametrize(
    ("labels", "because"), [({"0": "a"}, "id2label of 1"), (None, "no id2label, so 2 labels")]
)
def test_labels_that_disagree_are_named(labels, because, tmp_path):
    tiny_checkpoint.save(tmp_path, "bert", "BertForTokenClassification", num_labels=5)
    file = tmp_path / "config.json"
    values = json.loads(file.read_text(encoding="utf-8")) | {"id2label": labels, "label2id": None}
    file.write_text(json.dumps(values), encoding="utf-8")
    assert f"(config.json says {because})" in error(CheckpointError, tmp_path)


def test_a_wrong_width_of_a_classifier_is_not_its_labels():
    name, config = "classifier.dense.weight", {"hidden_size": 96}
    checkpoint = SimpleNamespace(tensors={name: SimpleNamespace(shape=(48, 48))}, config=config)
    assert "(config.json says hidden_size=96)" in weight_resolution._disagreement(name, (96, 96), checkpoint)


READ = tiny_checkpoint.DEPTH["backbone_config"]
RESIZED = tiny_checkpoint.VIT | {"model_type": "dinov2", "mlp_ratio": 2}
SINUSOIDAL = {"model_type": "trocr", "use_learned_position_embeddings": False}
SEEN = tiny_checkpoint.CAPTIONS["decoder"] | {"cross_attention_hidden_size": 36}
SAM2 = tiny_checkpoint.SAM2
VISION = SAM2["vision_config"]
BACKBONE = VISION["backbone_config"]


def sam2_backbone(**values):
    """The config of SAM 2 with other values of its backbone."""
    return {"vision_config": VISION | {"backbone_config": BACKBONE | values}}


UNSUPPORTED = [
    (
        "layoutlm",
        {"position_embedding_type": "relative_key"},
        "position_embedding_type='relative_key' is not",
    ),
    ("lilt", {"channel_shrink_ratio": 3}, "expected a width that 6 divides, and heads that channel_shrink"),
    ("lilt", {"hidden_size": 45}, "hidden_size=45, num_attention_heads=3 and channel_shrink_ratio=2"),
    ("lilt", {"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key' is not"),
    ("layoutlmv3", {"text_embed": False}, "text_embed=False is not supported"),
    ("layoutlmv3", {"patch_size": [4, 2]}, "patch_size [4, 2] is not supported; expected squares"),
    *(
        ("llama", {"model_type": name}, f"model_type '{name}' is not supported: {reason}")
        for name, reason in (
            ("bitnet", "its published weights are ternary"),
            ("deepseek_v32", "an indexer with a cache of its own"),
            ("doge", "scores of the values mask keys"),
            ("glm_moe_dsa", "an indexer with a cache of its own"),
            ("zamba", "its Mamba layers have heads, each of which"),
        )
    ),
    ("layoutlmv3", {"model_type": "layoutlmv2"}, "model_type 'layoutlmv2' is not supported: detectron2"),
    ("rwkv", {"attention_hidden_size": 60}, "attention_hidden_size=60 is not supported; expected 48"),
    ("recurrent_gemma", {"block_types": ["recurrent", "mamba"]}, "expected recurrent or attention for each"),
    ("recurrent_gemma", {"block_types": ["recurrent"]}, "no layer has attention"),
    ("recurrent_gemma", {"layer_types": ["sliding_attention"] * 4}, "layer_types=['sliding_attention'"),
    ("recurrent_gemma", {"embeddings_scale_by_sqrt_dim": False}, "embeddings_scale_by_sqrt_dim=False is"),
    (
        "recurrent_gemma",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}},
        "rope_type 'linear' is not supported; expected default",
    ),
    ("florence2", {"text_config": {"model_type": "mbart"}}, "model_type='mbart' is not supported"),
    ("florence2", {"tie_word_embeddings": False}, "tie_word_embeddings=False is not supported"),
    (
        "florence2",
        {"vision_config": tiny_checkpoint.FLORENCE2["vision_config"] | {"patch_padding": [2, 1, 0]}},
        "stage 2 has patch_size 3, patch_stride 2 and patch_padding 0; expected an odd patch_size",
    ),
    ("qwen2_audio", {"audio_config": {"model_type": "whisper"}}, "model_type='whisper' is not supported"),
    (
        "qwen2_audio",
        {"text_config": {"model_type": "mistral"}},
        "text_config is of a 'mistral', expected one of qwen2",
    ),
    ("audioflamingo3", {"audio_config": {"model_type": "whisper"}}, "model_type='whisper' is not supported"),
    ("audioflamingo3", {"text_config": {"model_type": "llama"}}, "is of a 'llama', expected one of qwen2"),
    ("voxtral", {"audio_config": {"model_type": "whisper"}}, "model_type='whisper' is not supported"),
    ("voxtral", {"text_config": {"model_type": "qwen2"}}, "is of a 'qwen2', expected one of llama, mistral"),
    (
        "voxtral",
        {
            "audio_config": {"hidden_size": 36, "num_attention_heads": 3}
            | {"intermediate_size": 100, "max_source_positions": 50}
        },
        "audio_config has intermediate_size 100, hidden_size 36 and max_source_positions 50",
    ),
    ("sam2", {"vision_config": VISION | {"fpn_kernel_size": 3}}, "fpn_kernel_size=3 is not supported"),
    ("sam2", {"vision_config": VISION | {"num_feature_levels": 2}}, "num_feature_levels=2 is not supported"),
    ("sam2", {"vision_config": VISION | {"fpn_top_down_levels": [3]}}, "top_down is () for 4 stages"),
    ("sam2", sam2_backbone(query_stride=[4, 4]), "query_stride=[4, 4] is not supported; expected [2, 2]"),
    ("sam2", sam2_backbone(num_query_pool_stages=2), "num_query_pool_stages=2 is not supported; expected 3"),
    ("sam2", sam2_backbone(patch_padding=[2, 2]), "patch_padding=[2, 2] is not supported; expected [3, 3]"),
    ("sam2", sam2_backbone(patch_kernel_size=[4, 4], patch_padding=[2, 2]), "expected odd numbers from 5"),
    ("sam2", sam2_backbone(global_attention_blocks=[3]), "expected 2 layers or more, the first with windows"),
    ("sam2", sam2_backbone(window_size_per_stage=[8, 4, 3, 2]), "windows of 3 by 3, a stride of 2"),
    (
        "sam2",
        {"mask_decoder_config": SAM2["mask_decoder_config"] | {"num_hidden_layers": 3}},
        "num_hidden_layers=3 is not supported; expected 2",
    ),
    (
        "sam2",
        {"prompt_encoder_config": SAM2["prompt_encoder_config"] | {"image_size": 100}},
        "image_size is 100, expected a multiple of 16",
    ),
    (
        "pix2struct",
        {"text_config": {"is_decoder": False}},
        "is_decoder=False is not supported; expected True",
    ),
    (
        "pix2struct",
        {"text_config": {"d_kv": 8}},
        "text_config has 12 heads of 8 numbers, expected 768 in all",
    ),
    (
        "pix2struct",
        {"vision_config": {"hidden_size": 36}},
        "vision_config.hidden_size is 36 and text_config.hidden_size 48; expected equal ones",
    ),
    ("moonshine", {"decoder_num_attention_heads": 4}, "decoder_num_attention_heads=4"),
    ("moonshine", {"encoder_num_key_value_heads": 1}, "encoder_num_key_value_heads=1"),
    ("moonshine", {"head_dim": 10}, "head_dim=10"),
    ("speech_to_text", {"pad_token_id": 0}, "pad_token_id=0 is not supported; expected 1"),
    ("speech_to_text", {"input_channels": 2}, "input_channels=2 is not supported; expected 1"),
    ("speech_to_text", {"conv_kernel_sizes": [5, 4]}, "conv_kernel_sizes is [5, 4], expected odd numbers"),
    ("speech_to_text", {"max_source_positions": 2**17}, "positions are computed for at most 65536"),
    (
        "speech-encoder-decoder",
        {"decoder": tiny_checkpoint.SPEECH["decoder"] | {"model_type": "speech_to_text_2"}},
        "a decoder 'speech_to_text_2' is not supported behind an encoder",
    ),
    (
        "speech-encoder-decoder",
        {"encoder": tiny_checkpoint.SPEECH["encoder"] | {"adapter_kernel_size": 5}},
        "adapter_kernel_size=5 is not supported; expected 3",
    ),
    (
        "speech-encoder-decoder",
        {"encoder": tiny_checkpoint.WHISPER | {"model_type": "whisper"}},
        "an encoder 'whisper' is not supported",
    ),
    (
        "wav2vec2-bert",
        {"add_adapter": True, "adapter_kernel_size": 5},
        "adapter_kernel_size=5 with a",
    ),
    ("wav2vec2-bert", {"position_embeddings_type": "rotary"}, "position_embeddings_type 'rotary'"),
    ("wav2vec2", {"add_adapter": True, "adapter_kernel_size": 5}, "adapter_kernel_size=5"),
    ("wavlm", {"add_adapter": True}, "add_adapter=True"),
    ("wav2vec2-conformer", {"position_embeddings_type": "shaw"}, "position_embeddings_type 'shaw'"),
    (
        "parakeet_ctc",
        {"encoder_config": tiny_checkpoint.PARAKEET["encoder_config"] | {"num_mel_bins": 15}},
        "num_mel_bins=15 is not supported; expected",
    ),
    (
        "parakeet_ctc",
        {"encoder_config": tiny_checkpoint.PARAKEET["encoder_config"] | {"subsampling_factor": 0}},
        "subsampling_factor is 0",
    ),
    ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key'"),
    ("bert", {"is_decoder": True}, "is_decoder=True"),
    ("bert", {"hidden_act": "mish"}, "hidden_act 'mish'"),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True"),
    ("gpt2", {"add_cross_attention": True}, "add_cross_attention=True"),
    ("bart", {"normalize_before": True}, "normalize_before=True"),
    ("bart", {"static_position_embeddings": True}, "static_position_embeddings=True"),
    ("t5", {"feed_forward_proj": "gated-mish"}, "feed_forward_proj 'gated-mish'"),
    *(
        ("t5gemma", {"architectures": [name]}, f"is_encoder_decoder=True is not supported for {task}")
        for name, task in (
            ("T5GemmaEncoderModel", "feature-extraction"),
            ("T5GemmaForSequenceClassification", "text-classification"),
            ("T5GemmaForTokenClassification", "token-classification"),
        )
    ),
    ("t5gemma", {"decoder": tiny_checkpoint.T5GEMMA["decoder"] | {"is_causal": False}}, "is_causal=False"),
    ("albert", {"num_hidden_groups": 2}, "num_hidden_groups=2"),
    ("opt", {"layer_norm_elementwise_affine": False}, "layer_norm_elementwise_affine=False"),
    ("gpt_neox", {"rope_parameters": {"rope_type": "longrope"}}, "rope_type 'longrope'"),
    ("qwen2", {"use_sliding_window": True, "layer_types": ["chunked_attention"] * 2}, "chunked_attention"),
    ("qwen2", {"use_sliding_window": True, "layer_types": ["full_attention"] * 3}, "each of 2 layers"),
    ("qwen3", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types="),
    ("falcon", {"alibi": True}, "multi_query=True"),
    ("phimoe", {"num_experts_per_tok": 3}, "num_experts_per_tok=3"),
    ("xlnet", {"attn_type": "uni"}, "attn_type='uni'"),
    ("xlnet", {"bi_data": True}, "bi_data=True"),
    ("mpt", {"attn_config": {"clip_qkv": 8.0}}, "clip_qkv=8.0"),
    ("mpt", {"no_bias": False}, "no_bias=False"),
    ("bloom", {"apply_residual_connection_post_layernorm": True}, "apply_residual_connection_post_layernorm"),
    ("starcoder2", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types="),
    ("starcoder2", {"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5"),
    ("gemma2", {"use_bidirectional_attention": True}, "use_bidirectional_attention=True"),
    ("gemma", {"use_bidirectional_attention": True}, "use_bidirectional_attention=True"),
    ("gemma3_text", {"use_bidirectional_attention": True}, "use_bidirectional_attention=True"),
    ("gemma3_text", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping=50.0"),
    ("gemma4_text", {"use_bidirectional_attention": "all"}, "is 'all', expected null or 'vision'"),
    ("gemma4_text", {"num_kv_shared_layers": 5}, "num_kv_shared_layers is 5 of 6 layers; expected that a"),
    ("gemma4_text", {"num_kv_shared_layers": 6}, "num_kv_shared_layers is 6 of 6 layers"),
    ("gemma4_text", {"vocab_size_per_layer_input": 310}, "vocab_size_per_layer_input is 310, expected"),
    (
        "gemma4_text",
        {"per_layer_config": {"1": {"sliding_window": 3}}},
        "per_layer_config has sliding_window",
    ),
    (
        "gemma4_text",
        {"per_layer_config": {"6": {"head_dim": 10}}},
        "per_layer_config has 6; expected numbers",
    ),
    ("gemma4_text", {"layer_types": ["chunked_attention"] * 6}, "layer_types"),
    ("ministral3", {"layer_types": ["full_attention"] * 2}, "layer_types"),
    ("mistral4", {"n_group": 2}, "n_group=2"),
    ("apertus", {"hidden_act": "silu"}, "hidden_act='silu'"),
    ("apertus", {"qk_norm": False}, "qk_norm=False"),
    ("apertus", {"post_norm": True}, "post_norm=True"),
    ("afmoe", {"attention_bias": True}, "attention_bias=True"),
    ("afmoe", {"score_func": "softmax"}, "score_func='softmax'"),
    ("afmoe", {"route_norm": False}, "route_norm=False"),
    ("afmoe", {"n_group": 2}, "n_group=2"),
    ("mistral4", {"head_dim": 20}, "head_dim=20"),
    ("gemma3n_text", {"layer_types": ["chunked_attention"] * 5}, "layer_types"),
    ("gemma3n_text", {"altup_active_idx": 1}, "altup_active_idx=1"),
    ("gemma3n_text", {"altup_num_inputs": 1}, "altup_num_inputs is 1, expected 2 or more"),
    ("gemma3n_text", {"num_kv_shared_layers": 4}, "num_kv_shared_layers is 4 of 5 layers; expected that a"),
    ("cohere", {"use_qk_norm": True}, "use_qk_norm=True"),
    ("gpt_bigcode", {"add_cross_attention": True}, "add_cross_attention=True"),
    ("hunyuan_v1_dense", {"use_cla": True}, "use_cla=True"),
    ("hunyuan_v1_dense", {"use_qk_norm": False}, "use_qk_norm=False"),
    ("smollm3", {"layer_types": ["sliding_attention"] * 3}, "layer_types="),
    ("stablelm", {"qk_layernorm": True}, "qk_layernorm=True"),
    ("xglm", {"add_cross_attention": True}, "add_cross_attention=True"),
    ("xglm", {"pad_token_id": 5}, "pad_token_id 5"),
    ("exaone4", {"sliding_window": None}, "layer_types="),
    ("internlm3", {"qkv_bias": True}, "mlp_bias=False"),
    ("iquestcoder", {"clip_qkv": 8.0}, "clip_qkv=8.0"),
    ("iquestcoder", {"use_sliding_window": True}, "use_sliding_window=True"),
    ("dbrx", {"ffn_config": {"moe_normalize_expert_weights": 2.0}}, "moe_normalize_expert_weights=2.0"),
    ("dbrx", {"ffn_config": {"ffn_act_fn": {"name": "gelu", "approximate": "tanh"}}}, "approximate='tanh'"),
    (
        "dbrx",
        {"attn_config": {"clip_qkv": None, "rope_theta": 1e4}},
        "attn_config has no clip_qkv, expected a",
    ),
    ("dbrx", {"tie_word_embeddings": True}, "tie_word_embeddings=True"),
    ("llama4_text", {"layer_types": ["sliding_attention"] * 4}, "layer_types"),
    (
        "llama4_text",
        {"no_rope_layers": [1, 0, 2, 1]},
        "'no_rope_layers' is [1, 0, 2, 1], expected 0 or 1 for 4",
    ),
    ("llama4_text", {"moe_layers": [4]}, "'moe_layers' is [4], expected numbers from 0 of 4 layers"),
    ("llama4_text", {"moe_layers": [[1]]}, "'moe_layers' is [[1]], expected numbers from 0 of 4 layers"),
    (
        "llama4_text",
        {"no_rope_layers": None, "no_rope_layer_interval": 0},
        "'no_rope_layer_interval' is 0, expected a number from 1",
    ),
    ("mellum", {"layer_types": ["chunked_attention"] * 4}, "layer_types"),
    ("mellum", {"mlp_layer_types": ["dense"]}, "mlp_layer_types"),
    ("minicpm3", {"mlp_bias": True}, "mlp_bias=True"),
    ("minicpm3", {"num_key_value_heads": 1}, "num_key_value_heads=1"),
    ("exaone_moe", {"mlp_layer_types": ["dense", "moe", "sparse", "sparse"]}, "mlp_layer_types"),
    ("exaone_moe", {"topk_method": "greedy"}, "topk_method='greedy'"),
    ("granite_swa", {"layer_rope_theta": [0, 1e4]}, "'layer_rope_theta' has 2 numbers, expected one"),
    ("granite_swa", {"layer_types": ["chunked_attention"] * 5}, "layer_types"),
    ("granitemoe_swa", {"layer_types": ["chunked_attention"] * 5}, "layer_types"),
    ("cohere2_moe", {"shared_expert_combination_strategy": "sum"}, "combination_strategy='sum'"),
    ("cohere2_moe", {"expert_selection_fn": "relu"}, "expert_selection_fn='relu'"),
    ("cohere2_moe", {"mlp_layer_types": ["dense"] * 3}, "mlp_layer_types"),
    ("olmoe", {"head_dim": 20}, "head_dim=20"),
    ("gpt_oss", {"swiglu_alpha": 1.5}, "swiglu_alpha=1.5"),
    ("qwen2_moe", {"layer_types": ["sliding_attention"] * 3}, "layer_types="),
    ("deepseek_v2", {"norm_topk_prob": True}, "norm_topk_prob=True"),
    ("deepseek_v2", {"mlp_bias": True}, "mlp_bias=True"),
    ("deepseek_v2", {"topk_method": "noaux_tc"}, "topk_method='noaux_tc'"),
    ("deepseek_v2", {"scoring_func": "sigmoid"}, "scoring_func='sigmoid'"),
    ("deepseek_v3", {"scoring_func": "softmax"}, "scoring_func='softmax'"),
    ("deepseek_v3", {"topk_method": "greedy"}, "topk_method='greedy'"),
    ("deepseek_v3", {"moe_layer_freq": 2}, "moe_layer_freq=2"),
    ("deepseek_v3", {"num_key_value_heads": 1}, "num_key_value_heads=1"),
    ("deepseek_v3", {"head_dim": 10}, "head_dim=10"),
    ("phi", {"head_dim": 20}, "head_dim=20"),
    ("phi3", {"rope_parameters": {"rope_type": "ntk"}}, "rope_type 'ntk'"),
    ("gpt_neo", {"attention_layers": ["global"] * 2}, "each of 3 layers"),
    (
        "modernbert",
        {"rope_parameters": {"full_attention": {"rope_type": "longrope"}}},
        "rope_type 'longrope'",
    ),
    *(
        (
            name,
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "truncate": False}}},
            "truncate=False",
        )
        for name in ("olmo3", "gemma3_text")
    ),
    ("esm", {"is_folding_model": True}, "is_folding_model=True"),
    ("sam", {"tie_word_embeddings": False}, "tie_word_embeddings=False is not supported"),
    ("deformable_detr", {"tie_word_embeddings": False}, "tie_word_embeddings=False is not supported"),
    ("clipseg", {"conditional_layer": 3}, "conditional_layer is 3, but the decoder has 3 layers"),
    ("clipseg", {"extract_layers": [1, 4]}, "extract_layers is [1, 4], expected numbers from 0 of the 4"),
    ("clipseg", {"extract_layers": [-2]}, "extract_layers is [-2], expected numbers"),
    ("grounding-dino", {"tie_word_embeddings": False}, "tie_word_embeddings=False is not supported"),
    ("detr", {"auxiliary_loss": True}, "auxiliary_loss=True is not supported"),
    ("table-transformer", {"auxiliary_loss": True}, "auxiliary_loss=True is not supported"),
    (
        "rt_detr",
        {"encoder_in_channels": [16]},
        "encoder_in_channels has 1 entries, but",
    ),
    ("lw_detr", {"projector_scale_factors": [4.0]}, "projector_scale_factors (4.0,) are not supported"),
    ("lw_detr", {"projector_scale_factors": []}, "expected one to eight of 0.5, 1.0, 2.0"),
    ("lw_detr", {"num_feature_levels": 3}, "num_feature_levels=3 is not supported; expected 2"),
    ("lw_detr", {"attention_bias": False}, "attention_bias=False is not supported"),
    (
        "lw_detr",
        {"backbone_config": {"use_absolute_position_embeddings": False}},
        "use_absolute_position_embeddings=False is not supported",
    ),
    ("lw_detr", {"backbone_config": {"pretrain_image_size": [20, 24]}}, "(20, 24) is not supported"),
    ("rf_detr", {"num_feature_levels": 2}, "num_feature_levels=2 is not supported; expected 1"),
    ("rf_detr", {"backbone_config": {"image_size": [20, 24]}}, "image_size (20, 24) and num_windows 4"),
    ("rf_detr", {"backbone_config": {"reshape_hidden_states": False}}, "reshape_hidden_states=False"),
    ("dab-detr", {"activation_function": "relu"}, "activation_function='relu' is not supported"),
    ("dab-detr", {"temperature_width": 40}, "temperature_width=40 is not supported; expected 30"),
    ("dab-detr", {"sine_position_embedding_scale": 3.0}, "sine_position_embedding_scale=3.0"),
    ("dab-detr", {"tie_word_embeddings": False}, "tie_word_embeddings=False is not supported"),
    ("dab-detr", {"decoder_layers": 1}, "decoder_layers is 1, expected 2 or more"),
    ("d_fine", {"eval_idx": 0}, "eval_idx=0 is not supported"),
    ("d_fine", {"activation_function": "relu"}, "activation_function='relu' is not supported"),
    ("d_fine", {"decoder_method": "discrete"}, "decoder_method='discrete' is not supported"),
    ("d_fine", {"decoder_in_channels": [12, 16]}, "decoder_in_channels is [12, 16]; expected 2 entries"),
    ("d_fine", {"encode_proj_layers": [0, 1]}, "encode_proj_layers [0, 1] are not supported"),
    (
        "d_fine",
        {"backbone_config": {"model_type": "hgnet_v2", "stem_strides": [2, 1, 1, 1, 1]}},
        "stem_strides=[2, 1, 1, 1, 1] is not supported",
    ),
    ("falcon", {"output_attentions": True}, "output_attentions=True is not supported"),
    ("mobilebert", {"use_bottleneck_attention": True}, "use_bottleneck_attention=True is not supported"),
    ("mobilebert", {"key_query_shared_bottleneck": False}, "key_query_shared_bottleneck=False"),
    ("mobilebert", {"normalization_type": "layer_norm"}, "normalization_type='layer_norm' is not supported"),
    ("mobilebert", {"trigram_input": False}, "trigram_input=False is not supported"),
    ("mpnet", {"relative_attention_num_buckets": 16}, "relative_attention_num_buckets=16"),
    ("marian", {"normalize_before": True}, "normalize_before=True"),
    ("qwen2", {"is_causal": False}, "is_causal=False"),
    ("bart", {"is_causal": False}, "is_causal=False"),
    ("t5", {"is_causal": False}, "is_causal=False"),
    ("mpt", {"attn_config": {"alibi_bias_max": 16}}, "alibi_bias_max=16"),
    ("modernbert", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling="),
    ("blenderbot", {"normalize_before": False}, "normalize_before=False"),
    ("blenderbot", {"extra_pos_embeddings": 2}, "extra_pos_embeddings=2"),
    ("depth_anything", {"head_in_index": 2}, "head_in_index=2 is not supported; expected -1"),
    ("depth_anything", {"reassemble_factors": [4, 2, 2, 1]}, "reassemble_factors [4, 2, 2, 1] is not"),
    ("depth_anything", {"reassemble_hidden_size": 40}, "reassemble_hidden_size=40 is not supported"),
    ("depth_anything", {"patch_size": 7}, "patch_size=6 is not supported; expected 7"),
    ("depth_anything", {"depth_estimation_type": "log"}, "depth_estimation_type 'log' is not supported"),
    (
        "depth_anything",
        {"backbone_config": READ | {"model_type": "vit"}},
        "model_type='vit' is not supported",
    ),
    ("depth_anything", {"backbone_config": READ | {"out_indices": [1, 2, 3, 4]}}, "layers [1, 2, 3, 4] of 5"),
    (
        "depth_anything",
        {"backbone_config": READ | {"reshape_hidden_states": True}},
        "reshape_hidden_states=True is not supported; expected False",
    ),
    ("dpt", {"backbone_config": {"model_type": "beit"}}, "model_type='beit' is not supported"),
    ("dpt", {"backbone_config": {"model_type": "dinov2"}}, "reshape_hidden_states=True is not supported"),
    (
        "dpt",
        {"backbone_config": {"model_type": "dinov2"}, "architectures": ["DPTForSemanticSegmentation"]},
        "backbone_config is not supported for image-segmentation",
    ),
    ("dpt", {"is_hybrid": True}, "is_hybrid=True is not supported"),
    ("dpt", {"image_size": 80}, "images of 80 by 80 pixels in patches of 16 are not supported"),
    ("dpt", {"image_size": [64, 96]}, "images of 64 by 96 pixels"),
    ("dpt", {"readout_type": "mean"}, "readout_type 'mean' is not supported; expected ignore, add, project"),
    ("dpt", {"add_projection": True}, "add_projection=True is not supported; expected False"),
    ("dpt", {"backbone_out_indices": [0, 1, 2, 3]}, "backbone_out_indices [0, 1, 2, 3] of 5 layers"),
    ("vitpose", {"backbone_config": {"num_experts": 6}}, "num_experts=6 is not supported"),
    (
        "beit",
        {"architectures": ["BeitForSemanticSegmentation"], "out_indices": [1, 2, 2, 3]},
        "out_indices [1, 2, 2, 3] of 2 layers are not supported; expected rising ones from 1, of at most 3",
    ),
    (
        "beit",
        {"architectures": ["BeitForSemanticSegmentation"], "num_hidden_layers": 4, "patch_size": 30}
        | {"out_indices": [1, 2, 3, 4]},
        "1 by 1 patches; a pyramid needs 2 by 2 or more",
    ),
    ("clap", {"audio_config": {"enable_fusion": True}}, "parts of a sound that are chosen at random"),
    ("clap", {"audio_config": SOUNDS | {"window_size": 5}}, "a stage with less than window_size 5"),
    ("clap", {"audio_config": SOUNDS | {"num_mel_bins": 5}}, "expected a multiple of both"),
    ("clap", {"audio_config": SOUNDS | {"patch_stride": [1, 2]}}, "patch_stride=[1, 2] is not supported"),
    ("dinov2", {"image_size": [30, 24]}, "image_size is not square"),
    ("swin", {"window_size": 5}, "have a grid of 4 by 4 in stage 2, less than window_size 5"),
    ("swin", {"use_absolute_embeddings": True}, "expected a square of whole patches"),
    ("swin", {"architectures": ["SwinForMaskedImageModeling"]}, "it restores masked pixels"),
    ("upernet", {"backbone_config": {"model_type": "dinov2"}}, "a backbone of model_type 'dinov2' is not"),
    ("upernet", {"backbone_config": {"out_features": ["stage4"]}}, "out_features of backbone_config is"),
    ("hiera", {"num_query_pool": 2}, "num_query_pool=2 is not supported; expected 3"),
    ("hiera", {"masked_unit_size": [16, 16]}, "masked_unit_size=[16, 16] is not supported; expected [8, 8]"),
    ("hiera", {"patch_padding": [2, 2]}, "patch_padding=[2, 2] is not supported; expected [3, 3]"),
    ("hiera", {"image_size": [64, 32]}, "expected squares of a multiple of 32"),
    ("hiera", {"image_size": [48, 48]}, "expected squares of a multiple of 32"),
    ("hiera", {"depths": [1, 2, 1, 2]}, "expected 2 layers or more in each"),
    ("hiera", {"embed_dim_multiplier": 1.0}, "stages of [12, 12, 12, 12] numbers are not supported"),
    ("hiera", {"architectures": ["HieraForPreTraining"]}, "it restores masked pixels"),
    ("resnet", {"downsample_in_bottleneck": True}, "downsample_in_bottleneck=True is not supported"),
    ("resnet", {"hidden_act": "gelu"}, "hidden_act='gelu' is not supported; expected 'relu'"),
    ("resnet", {"architectures": ["ResNetBackbone"]}, "it returns maps for another model"),
    ("convnext", {"hidden_act": "elu"}, "hidden_act 'elu' is not supported"),
    ("convnext", {"patch_size": [4, 2]}, "patch_size [4, 2] is not supported; expected squares"),
    ("convnextv2", {"architectures": ["ConvNextV2Backbone"]}, "it returns maps for another model"),
    ("maskformer", {"backbone_config": {"use_absolute_embeddings": True}}, "use_absolute_embeddings=True"),
    ("maskformer", {"backbone_config": {"depths": [1, 2], "num_heads": [2, 3]}}, "2 stages; expected 4"),
    ("maskformer", {"backbone_config": {"model_type": "resnet"}}, "out_features of backbone_config is"),
    ("maskformer", {"backbone_config": {"model_type": "convnext"}}, "model_type='convnext' is not supported"),
    ("maskformer", {"decoder_config": {"auxiliary_loss": True}}, "auxiliary_loss=True is not supported"),
    ("maskformer", {"use_auxiliary_loss": True}, "use_auxiliary_loss=True is not supported"),
    ("maskformer", {"architectures": ["MaskFormerModel"]}, "its queries are no result of a task"),
    ("mask2former", {"common_stride": 8}, "common_stride=8 is not supported"),
    ("mask2former", {"feature_strides": [4, 8, 16, 16]}, "feature_strides=[4, 8, 16, 16] is not supported"),
    ("mask2former", {"backbone_config": {"out_features": ["stage4"]}}, "out_features of backbone_config is"),
    ("mask2former", {"architectures": ["Mask2FormerModel"]}, "its queries are no result of a task"),
    ("swinv2", {"use_absolute_embeddings": True}, "use_absolute_embeddings=True"),
    ("dinov2_with_registers", {"apply_layernorm": False}, "apply_layernorm=False"),
    *(
        ("nomic_bert", {key: True}, f"{key}=True")
        for key in ("prenorm", "parallel_block", "use_rms_norm", "rotary_emb_interleaved", "qkv_proj_bias")
    ),
    *(("nomic_bert", {key: True}, f"{key}=True") for key in ("mlp_fc1_bias", "mlp_fc2_bias", "causal")),
    ("nomic_bert", {"activation_function": "geglu"}, "activation_function='geglu'"),
    ("nomic_bert", {"moe_every_n_layers": 2}, "moe_every_n_layers=2"),
    ("nomic_bert", {"num_experts": 8}, "num_experts=8"),
    ("nomic_bert", {"rotary_emb_fraction": 0.5}, "rotary_emb_fraction=0.5"),
    ("big_bird", {"attention_type": "sparse"}, "attention_type='sparse' is not supported"),
    ("big_bird", {"is_decoder": True}, "is_decoder=True"),
    ("jina_embeddings_v3", {"head_dim": 20}, "head_dim=20"),
    ("blenderbot-small", {"normalize_before": True}, "normalize_before=True"),
    ("blenderbot-small", {"extra_pos_embeddings": 2}, "extra_pos_embeddings=2"),
    ("dpr", {"is_decoder": True}, "is_decoder=True"),
    ("plbart", {"normalize_before": True}, "normalize_before=True"),
    ("switch_transformers", {"router_dtype": "bfloat16"}, "router_dtype='bfloat16'"),
    ("switch_transformers", {"dense_act_fn": "gated-gelu"}, "dense_act_fn 'gated-gelu'"),
    ("bigbird_pegasus", {"attention_type": "sparse"}, "attention_type='sparse'"),
    ("splinter", {"architectures": ["SplinterForPreTraining"]}, "it answers every [QUESTION] of a text"),
    (
        "splinter",
        {"position_embedding_type": "relative_key"},
        "position_embedding_type='relative_key' is not",
    ),
    ("mvp", {"use_prompt": True}, "use_prompt=True"),
    ("bert-generation", {"is_decoder": False}, "is_decoder=False"),
    ("rembert", {"is_decoder": True}, "is_decoder=True"),
    ("roformer", {"rotary_value": True}, "rotary_value=True"),
    ("flaubert", {"pre_norm": True}, "pre_norm=True is not supported"),
    ("xlm", {"causal": True}, "causal=True is not supported"),
    ("xlm", {"asm": True}, "asm=True is not supported"),
    ("xlm", {"is_encoder": False}, "is_encoder=False is not supported"),
    ("xlm", {"n_langs": 3}, "n_langs=3 with use_lang_emb=True is not supported; expected n_langs=1"),
    ("convbert", {"is_decoder": True}, "is_decoder=True is not supported"),
    ("fnet", {"use_tpu_fourier_optimizations": True}, "use_tpu_fourier_optimizations=True is not supported"),
    ("squeezebert", {"embedding_size": 20}, "embedding_size=20 is not supported"),
    ("siglip", {"vision_config": {"vision_use_head": False}}, "vision_use_head=False"),
    ("umt5", {"is_decoder": True}, "is_decoder=True"),
    ("deberta", {"relative_attention": False}, "relative_attention=False is not supported; expected True"),
    ("deberta", {"pos_att_type": "p2c|p2c"}, "pos_att_type='p2c|p2c' is not supported; expected each once"),
    ("deberta", {"embedding_size": 20}, "embedding_size=20"),
    ("deberta", {"talking_head": True}, "talking_head=True"),
    ("deberta-v2", {"relative_attention": False}, "relative_attention=False is not supported; expected True"),
    ("deberta-v2", {"relative_attention": None}, "relative_attention=False is not supported; expected True"),
    ("deberta-v2", {"pos_att_type": "p2c|c2p|p2p"}, "pos_att_type='p2c|c2p|p2p' is not supported"),
    ("deberta-v2", {"pos_att_type": None}, "pos_att_type=None is not supported; expected c2p, p2c or both"),
    ("deberta-v2", {"embedding_size": 20}, "embedding_size=20"),
    ("deberta-v2", {"attention_head_size": 8}, "attention_head_size=8"),
    ("deberta-v2", {"pooler_hidden_size": 20}, "pooler_hidden_size=20"),
    ("deberta-v2", {"conv_kernel_size": 3}, "conv_kernel_size=3"),
    ("ernie", {"is_decoder": True}, "is_decoder=True"),
    ("megatron-bert", {"add_cross_attention": True}, "add_cross_attention=True"),
    ("roberta-prelayernorm", {"position_embedding_type": "relative_key"}, "position_embedding_type="),
    ("xlm-roberta-xl", {"is_decoder": True}, "is_decoder=True"),
    *(
        ("eurobert", {"architectures": ["EuroBertForSequenceClassification"], key: "max"}, f"{key}='max'")
        for key in ("classifier_pooling", "clf_pooling")
    ),
    ("gte", {"layer_norm_type": "rms_norm"}, "layer_norm_type='rms_norm'"),
    ("gte", {"position_embedding_type": "absolute"}, "position_embedding_type='absolute'"),
    ("gte", {"logn_attention_scale": True}, "logn_attention_scale=True"),
    ("gte", {"rope_parameters": {"rope_type": "ntk", "factor": 8.0}}, "rope_type 'ntk'"),
    ("bert", {"auto_map": {"AutoModel": "modeling.Mine"}}, "auto_map"),
    ("bert", {"quantization_config": {"bits": 4}}, "quantization_config"),
    ("encoder-decoder", {"decoder": {"model_type": "t5"}}, "a decoder 't5' is not supported behind"),
    (
        "encoder-decoder",
        {"encoder": {"model_type": "vit"}},
        "an encoder 'vit' does not support feature-extraction",
    ),
    ("encoder-decoder", {"decoder": tiny_checkpoint.BERT | {"model_type": "bert"}}, "is_decoder=None and"),
    ("vision-encoder-decoder", {"encoder": RESIZED}, "an encoder 'dinov2' is not supported before"),
    ("vision-encoder-decoder", {"decoder": SINUSOIDAL}, "use_learned_position_embeddings=False"),
    ("vision-encoder-decoder", {"decoder": SEEN}, "a gpt2 with cross_attention_hidden_size 36"),
]


LEFT_OUT = {
    "canine": "embeds characters by hashing",
    "fsmt": "sacremoses",
    "granite_speech": "a Q-Former reads its windows, and published checkpoints switch on a LoRA adapter",
    "granite_speech_plus": "a Q-Former reads windows of several layers' outputs",
    "kosmos-2": "a mask, not a token",
    "kosmos-2.5": "a mask, not a token",
    "led": "a mask of global tokens",
    "longt5": "within blocks of tokens",
    "luke": "entities beside tokens",
    "nllb-moe": "uses only two experts of each layer",
    "pegasus_x": "learned global tokens",
    "prophetnet": "several tokens",
    "t5gemma2": "in one softmax",
}


@pytest.mark.parametrize("model_type", LEFT_OUT)
def test_a_model_that_is_left_out_says_why(model_type, copy_of):
    message = error(UnsupportedError, copy_of("bert", model_type=model_type))
    assert f"model_type '{model_type}' is not supported: " in message
    assert LEFT_OUT[model_type] in message
    assert ("export --traced" in message) == (model_type in TRACED)


def test_models_that_are_left_out_name_traced_where_it_was_right():
    types = json.loads((ROOT / "tools/traced_types.json").read_text())["types"]
    assert {name for name in REFUSED if types[name]["outcome"] == "right"} == {*TRACED}


@pytest.mark.parametrize(("model_type", "config", "named"), UNSUPPORTED, ids=[row[2] for row in UNSUPPORTED])
def test_config_value_that_changes_the_mathematics_is_named(model_type, config, named, copy_of):
    assert named in error(UnsupportedError, copy_of(model_type, **config))


OF_16 = {"hidden_size": 16, "num_attention_heads": 2, "mlp_ratio": 2, "num_hidden_layers": 5}


@pytest.mark.parametrize(
    ("model_type", "config", "named"),
    [
        ("d_fine", {"decoder_n_points": [3]}, "decoder_n_points (3,), expected one for each of 2 levels"),
        ("hiera", {"masked_unit_attention": [True]}, "expected as many of each, and as many layers"),
        ("lw_detr", {"backbone_config": {"num_windows": 3}}, "num_windows is 3, expected a square number"),
        ("lw_detr", {"backbone_config": OF_16 | {"out_indices": [9]}}, "out_indices [9] and out_features"),
        ("lw_detr", {"backbone_config": {"window_block_indices": 3}}, "expected whole numbers"),
        ("convnext", {"depths": [1, 2]}, "num_stages is 3, depths [1, 2] and hidden_sizes [10, 14, 18]"),
    ],
)
def test_lists_of_stages_that_contradict_each_other_are_named(model_type, config, named, copy_of):
    assert named in error(CheckpointError, copy_of(model_type, **config))


def test_a_layer_that_is_not_there_is_named(copy_of):
    folder = copy_of("dpt", backbone_out_indices=[0, 1, 2, 9])
    assert "expected layers of 5, from 0" in error(CheckpointError, folder)


@pytest.mark.parametrize(("flag", "value", "tensors"), [("query", False, 2), ("key", True, 0)])
def test_dinov3_says_which_projections_have_biases(flag, value, tensors, copy_of):
    """Missing biases are computed as 0, so that a lost one would go unnoticed."""
    message = error(CheckpointError, copy_of("dinov3_vit", **{f"{flag}_bias": value}))
    assert f"{flag}_bias={value} over 2 layers, but there are {tensors} tensors" in message


def test_nomic_bert_as_published(copy_of):
    """Its release named values as GPT-2 does, and its code, which the library has since."""
    folder = copy_of("nomic_bert")
    now = resolve(folder).spec
    values = json.loads((folder / "config.json").read_text())
    kept = {key: values[key] for key in ("architectures", "model_type", "type_vocab_size", "vocab_size")}
    sizes = {"n_embd": 48, "n_head": 3, "n_inner": 100, "n_layer": 2, "n_positions": 40}
    code = {"auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"}}
    rest = {"activation_function": "swiglu", "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0}
    rest |= {"rotary_scaling_factor": None, "layer_norm_epsilon": 1e-12, "prenorm": False}
    (folder / "config.json").write_text(json.dumps(kept | sizes | code | rest))
    assert resolve(folder).spec == now
    scaled = {"rotary_scaling_factor": 2, "max_trained_positions": 20}
    (folder / "config.json").write_text(json.dumps(kept | sizes | code | rest | scaled))
    assert resolve(folder).spec.encoder.limit == 20


def test_roformer_that_rotates_otherwise_is_named(copy_of):
    def edit(tensors):
        tensors["encoder.embed_positions.weight"][7, 3] += 0.01
        return tensors

    assert "has no sinusoids" in error(UnsupportedError, copy_of("roformer", edit))


BAD_CONFIG = [
    ({"hidden_size": "wide"}, "'hidden_size' is 'wide', expected int"),
    ({"num_attention_heads": 5}, "width 48 cannot be split over 5 heads"),
    ({"num_hidden_layers": None}, "'num_hidden_layers' is missing"),
    ({"architectures": 3}, "'architectures' is 3, expected list"),
    ({"architectures": [["BertModel"]]}, "expected strings"),
]


@pytest.mark.parametrize(("config", "said"), BAD_CONFIG, ids=[row[1] for row in BAD_CONFIG])
def test_config_value_that_makes_no_sense(config, said, copy_of):
    assert said in error(CheckpointError, copy_of("bert", **config))


OTHER_HEADS = [
    ("BertForPreTraining", "text-classification", "classifier.weight", "next-sentence-prediction"),
    ("BertForNextSentencePrediction", "text-classification", "classifier.weight", "next-sentence-prediction"),
    (
        "BertForSequenceClassification",
        "next-sentence-prediction",
        "cls.seq_relationship.weight",
        "text-classification",
    ),
]


def test_choices_scored_by_the_last_place_are_named(checkpoint_of):
    """ConvBERT's config.json need not tell the place, and the library's is the last one, padding or not."""
    row = Row("convbert", "ConvBertForMultipleChoice", "multiple-choice", "last place")
    message = error(UnsupportedError, checkpoint_of(row), "multiple-choice")
    assert "summary_type='last' is not supported; expected 'first'" in message


@pytest.mark.parametrize(("architecture", "task", "needed", "other"), OTHER_HEADS)
def test_head_of_another_task_is_not_taken(architecture, task, needed, other, checkpoint_of):
    """Else sentence order would be reported as a label."""
    message = error(CheckpointError, checkpoint_of(Row("bert", architecture, task, architecture)), task)
    assert f"has no '{needed}', which {task} needs, but '" in message
    assert message.endswith(f"export it with --task {other}")


def test_next_sentence_is_not_told_by_a_classifier_beside_it(copy_of):
    def edit(tensors):
        return (
            tensors
            | {
                f"{name}.{leaf}": torch.zeros(shape)
                for name in ("classifier", "cls.seq_relationship")
                for leaf, shape in (("weight", (2, 48)), ("bias", 2))
            }
            | {"pooler.dense.weight": torch.zeros(48, 48), "pooler.dense.bias": torch.zeros(48)}
        )

    folder = copy_of("bert", edit, id2label={"0": "a", "1": "b"})
    assert "expected one classification head" in error(CheckpointError, folder, "next-sentence-prediction")
    weights = resolve(folder, "text-classification").weights
    assert weights["head.weight"].tensors == ("classifier.weight",)


def test_tied_copies_must_agree(copy_of):
    def same(tensors):
        return tensors | {"lm_head.weight": tensors["transformer.wte.weight"].clone()}

    folder = copy_of("gpt2", same)
    resolve(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"][3, 4] += 1e-6
    save_file(tensors, folder / "model.safetensors")
    message = error(CheckpointError, folder)
    assert (
        "config.json ties 'lm_head.weight' to 'transformer.wte.weight', but their numbers differ" in message
    )


def test_tied_copies_may_differ_in_type(copy_of, monkeypatch):
    monkeypatch.setattr("txexport.checkpoints.stored.CHUNK", 1000)

    def half(tensors):
        words = tensors["transformer.wte.weight"].half()
        return tensors | {"transformer.wte.weight": words.float(), "lm_head.weight": words}

    resolve(copy_of("gpt2", half))


PLAIN_ROPE = {"rope_type": "default", "rope_theta": 1e4}
OLD_ROPE = [
    ("llama", {"rope_theta": 5e5}, PLAIN_ROPE | {"rope_theta": 5e5}),
    (
        "llama",
        {"rope_theta": 5e3, "rope_scaling": {"type": "linear", "factor": 2.5}},
        {"rope_type": "linear", "factor": 2.5, "rope_theta": 5e3},
    ),
    ("llama", {"rope_scaling": None}, PLAIN_ROPE),
    (
        "qwen2",
        {"rope_scaling": {"type": "yarn", "factor": 6.0, "original_max_position_embeddings": 10}},
        {"rope_type": "yarn", "factor": 6.0, "rope_theta": 1e4, "original_max_position_embeddings": 10},
    ),
    ("phi", {"partial_rotary_factor": 0.4}, PLAIN_ROPE | {"partial_rotary_factor": 0.4}),
    ("phi", {}, PLAIN_ROPE | {"partial_rotary_factor": 0.5}),
]


@pytest.mark.parametrize(("model_type", "old", "new"), OLD_ROPE)
def test_rope_fields_of_transformers_4(model_type, old, new, copy_of, tmp_path):
    folder = copy_of(model_type, rope_parameters=new)
    spec = resolve(folder).spec
    values = json.loads((folder / "config.json").read_text())
    del values["rope_parameters"]
    (folder / "config.json").write_text(json.dumps(values | old))
    assert resolve(folder).spec == spec
    assert verify_equal(folder, tmp_path)


def test_t5_with_a_projection_of_its_own(copy_of, tmp_path):
    """As version 4 of transformers wrote v1.1: not tied, and not scaled."""

    def edit(tensors):
        words = tensors["shared.weight"]
        return tensors | {
            "lm_head.weight": 0.06 * torch.randn(words.shape, generator=torch.Generator().manual_seed(3))
        }

    folder = copy_of("t5", edit, tie_word_embeddings=False)
    values = json.loads((folder / "config.json").read_text())
    del values["scale_decoder_outputs"]
    (folder / "config.json").write_text(json.dumps(values))
    head = resolve(folder).spec.head
    assert (head.tied, head.scale) == (False, 1.0)
    assert verify_equal(folder, tmp_path)


def test_tensor_whose_name_is_nothing_but_a_prefix_is_unused(copy_of):
    def edit(tensors):
        return tensors | {"bert.": torch.ones(3)}

    assert error(CheckpointError, copy_of("bert", edit)).endswith("unused: bert.")


def test_parameter_without_a_rule_is_missing(checkpoint_of):
    """The error for a family author who leaves out a parameter."""
    shapes = {"encoder.norm.weight": (2,), "head.bias": (3,)}
    table = weight_map.Table({"encoder.norm.*": "embeddings.LayerNorm.*"}, drop=("*",))
    with pytest.raises(CheckpointError, match=r"missing: head\.bias, for which there is no rule$"):
        weight_resolution.resolve(table, shapes, Checkpoint(checkpoint_of("bert")))


def test_two_names_for_one_tensor(copy_of):
    def edit(tensors):
        return tensors | {"bert.pooler.dense.bias": tensors["pooler.dense.bias"].clone()}

    assert "have the same meaning" in error(CheckpointError, copy_of("bert", edit))


def renamed(old: str, new: str):
    return lambda tensors: {key.replace(old, new): value for key, value in tensors.items()}


def prefixed(prefix: str):
    return lambda tensors: {prefix + key: value for key, value in tensors.items()}


VARIANTS = {
    "bert with prefix": ("bert", prefixed("bert.")),
    "bert with gamma and beta": (
        "bert",
        lambda t: renamed("LayerNorm.bias", "LayerNorm.beta")(
            renamed("LayerNorm.weight", "LayerNorm.gamma")(t)
        ),
    ),
    "bert with position_ids": ("bert", lambda t: t | {"embeddings.position_ids": torch.arange(40)[None]}),
    "gpt2 without prefix": ("gpt2", renamed("transformer.", "")),
    "gpt2 with mask buffers": (
        "gpt2",
        lambda t: (
            t
            | {
                "transformer.h.0.attn.bias": torch.ones(1, 1, 4, 4),
                "transformer.h.1.attn.masked_bias": torch.tensor(-1e4),
            }
        ),
    ),
    "bart with version and other heads": (
        "bart",
        lambda t: (
            t
            | {
                "model.encoder.version": torch.ones(1),
                "model.decoder.version": torch.ones(1),
                "classification_head.dense.weight": torch.ones(2, 2),
            }
        ),
    ),
    "bart without prefix": ("bart", renamed("model.", "")),
    "bart with every copy": (
        "bart",
        lambda t: (
            t
            | {
                name: t["model.shared.weight"].clone()
                for name in (
                    "model.encoder.embed_tokens.weight",
                    "model.decoder.embed_tokens.weight",
                    "lm_head.weight",
                )
            }
        ),
    ),
    "deepseek_v3 with a layer that predicts further": (
        "deepseek_v3",
        lambda t: (
            t
            | {
                "model.layers.3.eh_proj.weight": torch.ones(48, 96),
                "model.layers.3.self_attn.o_proj.weight": torch.ones(48, 42),
            }
        ),
    ),
    "bart without shared": ("bart", renamed("model.shared.weight", "model.encoder.embed_tokens.weight")),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_of_names_give_the_same_weights(variant, copy_of, checkpoint_of):
    model_type, edit = VARIANTS[variant]
    plain, changed = Checkpoint(checkpoint_of(model_type)), Checkpoint(copy_of(model_type, edit))
    ours, theirs = families.resolve(plain), families.resolve(changed)
    assert ours.spec == theirs.spec
    for name, weight in ours.weights.items():
        ours_whole = np.concatenate(list(weight.rows(plain)))
        assert np.array_equal(ours_whole, np.concatenate(list(theirs.weights[name].rows(changed))))


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "bart"])
def test_checkpoint_written_by_transformers_4(model_type, tmp_path):
    """BART's is in three shards."""
    export(DATA / f"transformers-4.40-{model_type}", tmp_path / "out", absolute_source=True)
    assert verify(tmp_path / "out", reference="transformers").ok


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_float_types_become_float32(dtype, tmp_path):
    numbers = torch.randn(7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    (tmp_path / "config.json").write_text("{}")
    save_file({"x": numbers, "scalar": numbers[0, 0].clone()}, tmp_path / "model.safetensors")
    checkpoint = Checkpoint(tmp_path)
    assert np.array_equal(checkpoint.read("x"), numbers.float().numpy())
    assert checkpoint.read("scalar").shape == ()
    assert checkpoint.read("scalar") == numbers[0, 0].float().item()


def test_large_tensor_is_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("txexport.checkpoints.stored.CHUNK", 100)
    numbers = torch.randn(40, 7)
    (tmp_path / "config.json").write_text("{}")
    save_file({"x": numbers}, tmp_path / "model.safetensors")
    blocks = list(Checkpoint(tmp_path).rows("x"))
    assert len(blocks) == 14
    assert np.array_equal(np.concatenate(blocks), numbers.numpy())


def test_integer_weights_are_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    save_file({"x": torch.ones(3, dtype=torch.int8)}, tmp_path / "model.safetensors")
    with pytest.raises(UnsupportedError, match="tensor 'x' is stored as I8"):
        Checkpoint(tmp_path).read("x")


def test_stored_sinusoids_are_the_models(copy_of):
    """Old checkpoints keep their table; it is read, and computed only where there is none."""
    own = torch.arange(40 * 48.0).reshape(40, 48)
    folder = copy_of("marian", lambda tensors: tensors | {"model.encoder.embed_positions.weight": own})
    weights = families.resolve(Checkpoint(folder)).weights
    encoder, decoder = (weights[f"{side}.embedding.position.weight"] for side in ("encoder", "decoder"))
    assert np.array_equal(np.concatenate(list(encoder.rows(Checkpoint(folder)))), own.numpy())
    computed = np.concatenate(list(decoder.rows(Checkpoint(folder))))
    assert computed[0].tolist() == [0.0] * 24 + [1.0] * 24


@pytest.mark.parametrize("model_type", ["falcon", "mpt", "phi3"])
def test_code_from_before_the_library_had_the_family_is_not_needed(model_type, copy_of):
    """The published files of these families still name it; the original does not run it."""
    folder = copy_of(model_type, auto_map={"AutoModelForCausalLM": "modeling.Theirs"})
    assert resolve(folder).task == "text-generation"


def test_sentence_encoder_is_taken_for_its_hidden_states(copy_of):
    """Some are published under the architecture of their pretraining, without its head."""
    folder = copy_of("mpnet", architectures=["MPNetForMaskedLM"])
    (folder / "modules.json").write_text("[]")
    assert resolve(folder).task == "feature-extraction"


def test_head_of_words_is_the_one_that_config_asks_for(copy_of):
    """DeBERTa's own files have the newer head and no key for it: the library's would be random."""
    newer = Row("deberta-v2", "DebertaV2ForMaskedLM", "fill-mask", "not legacy", {"legacy": False})
    folder = copy_of(newer)
    assert resolve(folder).task == "fill-mask"
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(values | {"legacy": None}))
    told = error(CheckpointError, folder)
    assert "legacy=True means a masked LM's head called cls.predictions" in told
    assert "the weights have lm_predictions; write" in told


def test_layers_of_gpt_neo_may_be_listed(copy_of):
    """Published files have both; the original uses the list."""
    folder = copy_of("gpt_neo", attention_layers=["local", "global", "local"])
    windows = [block.attention.window for block in resolve(folder).spec.decoder.layers]
    assert windows == [5, None, 5]


def test_a_towers_dict_counts_before_its_config(copy_of):
    folder = copy_of("clip")
    config = json.loads((folder / "config.json").read_text())
    config["text_config_dict"] = config["text_config"] | {"hidden_act": "relu"}
    (folder / "config.json").write_text(json.dumps(config))
    assert resolve(folder).spec.text.blocks[0].feed_forward.activation == "relu"


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors", "config.json"])
def test_a_file_of_a_checkpoint_leads_to_its_folder(name, tmp_path):
    (tmp_path / name).write_bytes(b"{}")
    with pytest.raises(CheckpointError, match=rf"{name} is one file of a checkpoint; give its folder"):
        Checkpoint(tmp_path / name)


def test_of_stacked_experts_each_is_read_alone(checkpoint_of, monkeypatch):
    """Those of gpt-oss are many gigabytes in a tensor."""
    folder, read = checkpoint_of("gpt_oss"), []
    checkpoint, whole = Checkpoint(folder), load_file(folder / "model.safetensors")
    weights, fromfile = families.resolve(checkpoint).weights, np.fromfile
    monkeypatch.setattr(
        np, "fromfile", lambda file, kind, count: read.append(count) or fromfile(file, kind, count)
    )
    for part, name in enumerate(("gate", "up")):
        for leaf, end in (("weight", ""), ("bias", "_bias")):
            weight = weights[f"decoder.layers.1.feed_forward.experts.3.{name}.{leaf}"]
            [numbers] = weight.rows(checkpoint)
            expected = whole[f"model.layers.1.mlp.experts.gate_up_proj{end}"].numpy()[3, ..., part::2].T
            assert np.array_equal(numbers, expected)
            assert sum(read) == 2 * expected.size
            read.clear()


def test_experts_that_are_too_many_are_named(copy_of):
    folder = copy_of("gpt_oss", num_local_experts=4)
    with pytest.raises(CheckpointError, match=r"down_proj' is \(5, 28, 48\), expected \(4, 28, 48\)"):
        resolve(folder)
