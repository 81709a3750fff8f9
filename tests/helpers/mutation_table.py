"""The table of mutations, each of which verify must detect."""

from collections.abc import Callable

import onnx

from helpers import mutations as common
from helpers import mutations_of_checkpoints as checkpoint
from helpers import mutations_of_conformers as conformer
from helpers import mutations_of_depth as depth
from helpers import mutations_of_descriptions as descriptions
from helpers import mutations_of_distances as distances
from helpers import mutations_of_families as family
from helpers import mutations_of_lengths as lengths
from helpers import mutations_of_masks as masks
from helpers import mutations_of_poses as poses
from helpers import mutations_of_pyramids as pyramids
from helpers import mutations_of_queries as queries
from helpers import mutations_of_segments as segments
from helpers import mutations_of_shapes as shapes
from helpers import mutations_of_sounds as sounds
from helpers import mutations_of_speech as speech
from helpers import mutations_of_windows as windows
from helpers.encoder_rows import NORMED
from helpers.row import DEPTH, FEATURES, HEAR, LABELS, POSE, SEGMENT, SOUNDS, SPEAKER, TIME_DELAYS, Row

Mutate = Callable[[onnx.ModelProto], None]

# Rows that differ from the usual checkpoint of a family.
LAYER_NORM = {"feat_extract_norm": "layer"}
SHORTENED = {"add_adapter": True}
SHORTENED_SPEAKER = LAYER_NORM | SHORTENED | TIME_DELAYS
NARROWED = {
    **{"add_adapter": True, "output_hidden_size": 36, "num_adapter_layers": 2, "adapter_stride": 3},
    **{"adapter_act": "gelu", "use_intermediate_ffn_before_adapter": True},
}
STABLE = LAYER_NORM | {"do_stable_layer_norm": True}
BATCH_NORM = {"conv_pos_batch_norm": True, "feat_proj_layer_norm": False}
SUMMED = {"num_labels": 5, "classifier_proj_size": 26, "use_weighted_layer_sum": True}
METRIC = {"depth_estimation_type": "metric", "max_depth": 20}
BATCH_NORMS = LABELS | {"use_batch_norm_in_fusion_residual": True}
LEVELS = LABELS | {"num_hidden_layers": 5, "out_indices": [1, 2, 4, 5]}
CLASSIC = {"use_simple_decoder": False, "num_labels": 5}
OTHERS: dict[str, Row] = {
    "dpt, labels": Row("dpt", "DPTForSemanticSegmentation", SEGMENT, "batch norms", BATCH_NORMS),
    "vitpose, classic": Row("vitpose", "VitPoseForPoseEstimation", POSE, "classic decoder", CLASSIC),
    "beit, labels": Row("beit", "BeitForSemanticSegmentation", SEGMENT, "5 labels", LEVELS),
    "depth_anything, metric": Row(
        "depth_anything", "DepthAnythingForDepthEstimation", DEPTH, "metric", METRIC
    ),
    "jina_bert": Row("jina_bert", "JinaBertModel", FEATURES),
    "jina_bert, normed": Row("jina_bert", "JinaBertModel", FEATURES, "normed queries", NORMED),
    "nomic_bert_moe": Row("nomic_bert_moe", "NomicBertModel", FEATURES),
    "wav2vec2, masked": Row("wav2vec2", "Wav2Vec2ForCTC", HEAR, "layer norm, masked", LAYER_NORM),
    "speaker": Row("wav2vec2", "Wav2Vec2ForXVector", SPEAKER, "masked", LAYER_NORM | TIME_DELAYS),
    "hubert, batch norm": Row(
        "hubert", "HubertForCTC", HEAR, "batch norm of positions, masked", LAYER_NORM | BATCH_NORM
    ),
    "wav2vec2, length adapter": Row("wav2vec2", "Wav2Vec2ForCTC", HEAR, "length adapter", SHORTENED),
    "speaker, length adapter": Row(
        "wav2vec2", "Wav2Vec2ForXVector", SPEAKER, "length adapter, masked", SHORTENED_SPEAKER
    ),
    "wav2vec2-bert, length adapter": Row(
        "wav2vec2-bert", "Wav2Vec2BertForCTC", HEAR, "narrower length adapter", NARROWED
    ),
    "sew, masked": Row("sew", "SEWForCTC", HEAR, "layer norm, masked", LAYER_NORM),
    "unispeech, masked": Row("unispeech", "UniSpeechForCTC", HEAR, "stable layer norm, masked", STABLE),
    "wav2vec2, adapters": Row(
        "wav2vec2", "Wav2Vec2ForCTC", HEAR, "attention adapters, masked", STABLE | {"adapter_attn_dim": 7}
    ),
    "wav2vec2-conformer, masked": Row(
        "wav2vec2-conformer",
        "Wav2Vec2ConformerForCTC",
        HEAR,
        "layer norm, masked",
        {"feat_extract_norm": "layer"},
    ),
    "wav2vec2-conformer, rotary": Row(
        "wav2vec2-conformer",
        "Wav2Vec2ConformerForCTC",
        HEAR,
        "rotary",
        {"position_embeddings_type": "rotary"},
    ),
    "whisper, labels": Row("whisper", "WhisperForAudioClassification", SOUNDS, "sum of all layers", SUMMED),
}

# Family or one of OTHERS, kind of cache and graph, and the mutations.
TABLE: dict[tuple[str, str | None, str], tuple[Mutate, ...]] = {
    ("bert", None, "model"): (
        common.ignore_mask,
        common.shift_positions,
        common.other_gelu,
        common.unscaled,
        common.swap_heads,
        common.swap_queries_and_keys,
        common.swap_layers,
        common.drop_bias,
        common.transpose_square,
        common.drop_residual,
        common.swap_norms,
        common.drop_positions,
        common.drop_segments,
        common.plain_pooler,
        common.second_token_pooled,
    ),
    ("roberta", None, "model"): (
        common.padding_counted,
        common.drop_bias,
    ),
    ("albert", None, "model"): (
        common.drop_layer,
        common.other_gelu,
        common.ignore_mask,
    ),
    ("deberta-v2", None, "model"): (
        common.ignore_mask,
        common.swap_queries_and_keys,
        common.drop_bias,
        family.early_vectors,
        family.swap_places,
        family.drop_norm_of_vectors,
        family.unscaled_positions,
    ),
    ("jina_bert", None, "model"): (
        common.ignore_mask,
        common.other_gelu,
        common.swap_gate_and_up,
        common.drop_bias,
        family.halved_slopes,
        family.other_slopes,
        family.drop_alibi,
    ),
    ("jina_bert, normed", None, "model"): (
        checkpoint.keys_as_projected,
        checkpoint.drop_second_norm,
        checkpoint.drop_second_residual,
    ),
    ("nomic_bert_moe", None, "model"): (
        common.ignore_mask,
        common.other_gelu,
        common.other_rotary_base,
        common.truncated_rotary,
        checkpoint.neighbours_turned,
        checkpoint.shares_of_chosen,
        checkpoint.swap_plain_experts,
        checkpoint.drop_bias_of_experts,
        family.worst_experts,
    ),
    ("xlnet", None, "model"): (
        common.ignore_mask,
        family.one_segment,
        family.one_bias,
        family.distances_reversed,
    ),
    ("phimoe", "static", "model"): (family.shares_of_all,),
    ("gpt2", "static", "model"): (
        common.ignore_causality,
        common.shift_positions,
        common.larger_epsilon,
        common.other_gelu,
        common.unscaled,
        common.last_logits_only,
        common.swap_queries_and_keys,
        common.swap_layers,
        common.later_edge,
        common.later_mask,  # of the last layer
        common.late_write,
        common.other_layer_s_cache,
        common.drop_final_norm,
        common.untied_head,
        common.drop_residual,
    ),
    ("gpt2", "dynamic", "model"): (
        common.ignore_mask,
        common.swap_heads,
        common.new_before_past,
        common.other_layer_s_cache,
    ),
    ("llama", "static", "model"): (
        common.truncated_rotary,
        common.interleaved_rotary,
        common.keys_not_turned,
        common.other_rotary_base,
        common.other_groups,
        common.unmasked_step,
        common.swap_gate_and_up,
        common.other_activation,
        common.larger_epsilon,
        common.scaled_twice,
        common.late_write,
        common.swap_norms,
    ),
    ("mistral", "static", "model"): (
        common.wider_window,
        common.later_mask,
        common.scaled_twice,
        common.unmasked_step,
        common.drop_final_norm,
    ),
    ("qwen3", "static", "model"): (
        common.drop_head_norm,
        common.drop_layer,
    ),
    ("mixtral", "static", "model"): (
        family.router_before_choice,
        family.worst_experts,
        family.swap_experts,
        common.swap_gate_and_up,
    ),
    ("deepseek_v3", "static", "model"): (
        family.uncorrected_choice,
        family.any_group,
        family.drop_norm_of_latents,
        family.latents_not_turned,
        family.drop_positions_of_latents,
    ),
    ("gpt_oss", "static", "model"): (
        family.drop_sinks,
        family.unclipped_gate,
        family.nothing_added,
        family.local_for_global,
        common.wider_window,
    ),
    ("gemma2", "static", "model"): (
        family.wrong_softcap,
        family.uncapped_logits,
        common.unscaled_embedding,
        family.local_for_global,
        common.wider_window,
        family.drop_post_norm,
    ),
    ("bloom", "static", "model"): (
        family.halved_slopes,
        family.other_slopes,
        common.later_mask,
        family.drop_alibi,
    ),
    ("t5", "static", "encoder_model"): (
        family.one_sided_buckets,
        common.ignore_mask,
    ),
    ("t5", "static", "decoder_model"): (
        family.early_buckets,
        common.unscaled_logits,
        common.later_mask,
        common.stale_cross_cache,
    ),
    ("bart", "static", "encoder_model"): (
        common.ignore_mask,
        common.shift_positions,
        common.other_layer_s_cross_weights,
    ),
    ("bart", "static", "decoder_model"): (
        common.ignore_mask,
        common.ignore_causality,
        common.shift_positions,
        common.stale_cross_cache,
        common.larger_epsilon,
        common.drop_head_bias,
        common.swap_cross_keys_and_values,
        common.late_write,
    ),
    ("bart", "dynamic", "decoder_model"): (
        common.ignore_mask,
        common.shift_positions,
    ),
    ("marian", "dynamic", "encoder_model"): (
        common.unscaled_embedding,
        family.halves_of_sinusoids,
    ),
    ("marian", "dynamic", "decoder_model"): (
        common.other_activation,
        common.new_before_past,
    ),
    ("vit", None, "model"): (
        family.mark_last,
        family.patches_by_column,
        family.blue_first,
        family.drop_patch_places,
        common.plain_pooler,
        common.drop_bias,
    ),
    ("ijepa", None, "model"): (family.patches_by_column, family.drop_patch_places, common.drop_bias),
    ("vit_mae", None, "model"): (family.drop_patch_places, family.mark_last, common.drop_bias),
    ("audio-spectrogram-transformer", None, "model"): (
        family.low_bands_last,
        family.drop_spectrogram_places,
        family.other_token_first,
        common.drop_bias,
    ),
    ("wav2vec2", None, "model"): (
        family.drop_sound_places,
        family.places_one_later,
        family.unnormalised_channels,
        common.drop_bias,
    ),
    ("wav2vec2-conformer, masked", None, "model"): (
        common.ignore_mask,
        common.drop_bias,
        conformer.later_vectors,
        conformer.rows_one_later,
        conformer.sines_before_cosines,
        conformer.drop_mean,
        family.padding_not_zeroed,
    ),
    ("wav2vec2-conformer, rotary", None, "model"): (
        common.drop_bias,
        conformer.unrotated_inputs,
        conformer.rotated_values,
        conformer.rotated_twice,
    ),
    ("parakeet_ctc", None, "model"): (
        common.ignore_mask,
        common.drop_bias,
        conformer.convolve_padding,
        conformer.later_vectors,
        conformer.whole_feed_forward,
        conformer.rows_one_later,
        conformer.sines_before_cosines,
        conformer.subsample_padding,
        conformer.unscaled_frames,
        conformer.drop_mean,
    ),
    ("wav2vec2-bert", None, "model"): (
        common.ignore_mask,
        common.drop_bias,
        conformer.convolve_padding,
        conformer.later_vectors,
        conformer.swapped_gates,
        conformer.whole_feed_forward,
        conformer.drop_last_norm,
        conformer.keys_one_later,
        conformer.distances_reversed,
        conformer.clipped_earlier,
        conformer.frames_not_zeroed,
    ),
    ("wav2vec2, masked", None, "model"): (
        common.ignore_mask,
        family.padding_not_zeroed,
        family.one_vector_more,
        family.unnormalised_vectors,
        family.drop_sound_places,
        family.places_one_later,
    ),
    ("moonshine", "static", "encoder_model"): (
        family.unnormalised_stem,
        family.stem_of_each_channel,
        family.linear_stem,
        family.halves_rotated,
        common.truncated_rotary,
    ),
    ("moonshine", "static", "decoder_model"): (
        family.halves_rotated,
        common.keys_not_turned,
        common.truncated_rotary,
        common.swap_gate_and_up,
        common.stale_cross_cache,
        common.larger_epsilon,
    ),
    ("speech_to_text", "static", "encoder_model"): (
        common.ignore_mask,
        speech.swapped_halves,
        speech.frames_one_later,
        speech.drop_positions,
        speech.unscaled_sound,
        speech.padding_heard,
    ),
    ("speech_to_text", "static", "decoder_model"): (common.ignore_mask,),
    ("speech-encoder-decoder", "static", "encoder_model"): (
        lengths.swapped_halves,
        lengths.convolved_one_later,
        lengths.one_shortened_vector_more,
    ),
    ("wavlm", None, "model"): (
        family.ungated,
        family.gate_without_reset,
        family.one_direction,
    ),
    ("speaker", None, "model"): (
        family.deviation_of_all,
        family.one_vector_twice,
        family.variances_of_a_speaker,
        family.lost_vectors_counted,
    ),
    ("wav2vec2, adapters", None, "model"): (
        family.drop_adapter,
        common.ignore_mask,
    ),
    ("hubert, batch norm", None, "model"): (
        common.ignore_mask,
        family.padding_not_zeroed,
        family.drop_batch_norm,
        family.places_one_later,
    ),
    ("data2vec-audio", None, "model"): (
        common.ignore_mask,
        family.padding_not_zeroed,
        family.one_vector_more,
        family.drop_norm_of_places,
        family.places_one_later,
    ),
    ("wav2vec2, length adapter", None, "model"): (
        lengths.swapped_halves,
        lengths.convolved_one_later,
    ),
    ("speaker, length adapter", None, "model"): (
        lengths.one_shortened_vector_more,
        family.lost_vectors_counted,
    ),
    ("wav2vec2-bert, length adapter", None, "model"): (
        lengths.swapped_halves,
        lengths.convolved_one_later,
        lengths.one_shortened_vector_more,
        lengths.other_residual,
        lengths.adapter_without_mask,
        lengths.whole_feed_forward_before,
        common.drop_bias,
    ),
    ("sew", None, "model"): (
        lengths.largest_of_each_group,
        lengths.squeezed_places_one_later,
        lengths.drop_squeezed_places,
        lengths.zeros_before_vectors,
        lengths.linear_upsampling,
    ),
    ("sew, masked", None, "model"): (
        common.ignore_mask,
        family.padding_not_zeroed,
        lengths.whole_groups_alone,
    ),
    ("unispeech-sat", None, "model"): (
        family.unnormalised_channels,
        family.drop_sound_places,
    ),
    ("unispeech, masked", None, "model"): (
        common.ignore_mask,
        family.padding_not_zeroed,
    ),
    ("whisper, labels", None, "model"): (
        checkpoint.last_layer_alone,
        checkpoint.shares_as_stored,
        checkpoint.next_layer_s_share,
        checkpoint.sum_over_time,
        checkpoint.drop_projection_bias,
        common.drop_bias,
    ),
    ("dinov2", None, "model"): (
        family.other_bicubic,
        family.corners_to_corners,
        family.drop_patch_places,
    ),
    ("yolos", None, "model"): (
        family.queries_one_earlier,
        family.corners_for_centres,
        family.drop_layer_positions,
        family.other_bicubic,
        common.drop_bias,
    ),
    ("depth_anything", None, "model"): (
        depth.half_pixels,
        depth.nearest_pixels,
        depth.fused_one_layer_later,
        depth.unnormed_layer,
        depth.patches_one_earlier,
        depth.convolved_one_pixel_later,
        depth.drop_residual,
        depth.linear_unit,
        depth.drop_finer_maps,
        depth.linear_head,
        depth.negative_depths,
        common.drop_bias,
    ),
    ("dpt", None, "model"): (
        depth.half_pixels,
        depth.fused_one_layer_later,
        depth.class_one_later,
        depth.linear_readout,
        depth.class_before_patch,
        depth.drop_finer_maps,
        common.drop_bias,
    ),
    ("dpt, labels", None, "model"): (
        pyramids.linear_scores,
        pyramids.scores_between_all_centres,
        pyramids.unit_without_norm,
        depth.drop_finer_maps,
        segments.larger_epsilon,
        common.drop_bias,
    ),
    ("glpn", None, "model"): (
        depth.shares_exchanged,
        depth.coarse_before_fine,
        depth.linear_fusion,
        segments.corner_pixels,
        segments.nearest_places,
        segments.larger_epsilon,
        common.drop_bias,
    ),
    ("vitpose", None, "model"): (
        poses.without_border,
        poses.without_shared_position,
        poses.negative_patches,
        poses.convolved_one_place_later,
        segments.corner_pixels,
        common.drop_bias,
    ),
    ("vitpose, classic", None, "model"): (
        poses.negative_patches,
        poses.shifted_doubling,
        segments.larger_epsilon,
        common.drop_bias,
    ),
    ("depth_anything, metric", None, "model"): (depth.clipped_metric, depth.shallower),
    ("sam", None, "vision_encoder"): (
        masks.without_distances,
        masks.rows_as_columns,
        masks.scaled_distances,
        masks.unnormed_neck,
        masks.swapped_coordinates,
    ),
    ("sam", None, "prompt_encoder_mask_decoder"): (
        masks.corners_of_pixels,
        masks.padding_is_a_point,
        masks.outside_is_inside,
        masks.doubled_prompts,
        masks.image_without_positions,
        masks.linear_upscaling,
        masks.scores_of_the_first_mask,
        masks.drop_no_mask,
    ),
    ("beit", None, "model"): (
        distances.rows_for_columns,
        distances.opposite_distances,
        distances.image_as_a_patch,
        distances.keys_of_another_head,
        common.drop_bias,
    ),
    ("beit, labels", None, "model"): (
        pyramids.maximum_for_mean,
        pyramids.sums_for_means,
        pyramids.patches_one_earlier,
        pyramids.levels_one_layer_later,
        pyramids.finest_without_activation,
        pyramids.drop_top,
        pyramids.levels_in_reverse,
        pyramids.outputs_before_addition,
        pyramids.linear_level,
        segments.corner_pixels,
        segments.nearest_places,
        segments.larger_epsilon,
        common.drop_bias,
    ),
    ("detr", None, "model"): (
        queries.ignore_padding,
        queries.padding_is_counted,
        queries.rows_for_columns,
        queries.counted_from_zero,
        queries.larger_mask_pixels,
        queries.values_with_positions,
        queries.drop_residual,
        queries.linear_residual,
        queries.average_pooling,
        queries.stem_one_pixel_later,
    ),
    ("table-transformer", None, "model"): (queries.values_with_positions, queries.padding_is_counted),
    ("segformer", None, "model"): (
        segments.keys_one_vector_earlier,
        segments.unscaled_scores,
        segments.convolved_one_vector_later,
        segments.merged_one_vector_later,
        segments.patches_without_border,
        segments.corner_pixels,
        segments.nearest_places,
        segments.drop_coarsest,
        segments.linear_segments,
        segments.larger_epsilon,
        common.drop_bias,
    ),
    ("swin", None, "model"): (
        windows.not_shifted,
        windows.shifted_back_too_far,
        windows.shift_without_mask,
        windows.shift_a_single_window,
        windows.bias_transposed,
        windows.merge_columns_first,
        windows.windows_turned,
    ),
    ("swinv2", None, "model"): (
        windows.not_shifted,
        windows.keys_of_any_length,
        windows.halved_bias,
        windows.larger_distances,
    ),
    ("owlvit", None, "text_model"): (family.first_token, family.not_of_unit_length),
    ("owlvit", None, "vision_model"): (
        descriptions.without_class,
        descriptions.columns_for_rows,
        descriptions.boxes_of_one_place,
    ),
    ("owlvit", None, "similarity_model"): (
        descriptions.without_shift,
        descriptions.scale_less_one,
        descriptions.products_for_cosines,
    ),
    ("clap", None, "text_model"): (family.first_patch, family.not_of_unit_length, sounds.linear_pooler),
    ("clap", None, "audio_model"): (
        sounds.bands_not_normalised,
        sounds.frames_one_earlier,
        sounds.other_cubic,
        sounds.parts_within_bands,
        sounds.linear_projection,
        windows.not_shifted,
        windows.bias_transposed,
    ),
    ("clap", None, "similarity_model"): (family.plain_logit_scale, sounds.one_scale),
    ("clip", None, "text_model"): (
        family.first_token,
        family.not_of_unit_length,
        family.other_quick_gelu,
    ),
    ("longformer", None, "model"): (
        family.ignore_global_tokens,
        family.narrower_window,
        family.global_as_local,
    ),
    ("clip", None, "vision_model"): (family.first_patch,),
    ("siglip2", None, "vision_model"): (
        shapes.rows_for_columns,
        shapes.aliased_positions,
        shapes.corner_positions,
        shapes.shares_that_do_not_add_up,
        shapes.without_positions,
        shapes.padding_is_pooled,
        common.drop_bias,
    ),
    ("clip", None, "similarity_model"): (family.plain_logit_scale,),
}
MUTATIONS = [(*place, mutate) for place, mutates in TABLE.items() for mutate in mutates]
