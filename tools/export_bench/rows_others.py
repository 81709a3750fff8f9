"""Wrong exports of models that read images or sound."""

import numpy as np

from export_bench import faults, parts, weights
from export_bench.edits import of
from export_bench.entry import (
    CACHE,
    PADDING,
    PARTS,
    POSITIONS,
    ROUNDING,
    SETTINGS,
    SHAPES,
    WEIGHTS,
    Entry,
)
from export_bench.runs import Case

ENCODER, LATER = "encoder_model.onnx", "decoder_with_past_model.onnx"
PICTURE, PICTURES, TEXT_AND_PICTURE = Case((1,)), Case((1,) * 3), Case((7, 4))
SOUND, SOUNDS, SPEECH = Case((400,)), Case((700, 400)), Case((1, 1))
SPEECH_STEPS = Case((1, 1), pieces=(2, 1, 1, 1))
LONG_SPEECH = Case((1,), decoded=32, pieces=(28, 1, 1, 1))
ROWS = (
    Entry(
        "vit-patches-one-later",
        "vit",
        "Position embeddings are one patch off.",
        POSITIONS,
        PICTURE,
        weights=weights.each("position_embeddings", weights.rolled(1, 1)),
    ),
    Entry(
        "vit-columns-for-rows",
        "vit",
        "Each patch is read column by column.",
        WEIGHTS,
        PICTURE,
        weights=weights.each(r"projection\.weight", lambda array: array.swapaxes(2, 3)),
    ),
    Entry(
        "vit-channels-reversed",
        "vit",
        "Red and blue are exchanged.",
        WEIGHTS,
        PICTURE,
        weights=weights.each(r"projection\.weight", lambda array: array[:, ::-1]),
    ),
    Entry(
        "vit-batch-of-1",
        "vit",
        "The traced batch of 1 stayed in the split into heads; other batches fail.",
        SHAPES,
        PICTURES,
        graph=of(parts.fixed_heads(1, 3)),
    ),
    Entry(
        "vit-pooled-last-patch",
        "vit",
        "The classifier reads the last patch, not the class token.",
        PARTS,
        PICTURE,
        graph=of(parts.last_vector_classified),
    ),
    Entry(
        "vit-epsilon",
        "vit",
        "Layer norms add 1e-3, not the 1e-12 of layer_norm_eps.",
        SETTINGS,
        PICTURE,
        config={"layer_norm_eps": 1e-3},
    ),
    Entry(
        "vit-float16",
        "vit",
        "Weights are rounded to float16, and stored as float32.",
        ROUNDING,
        PICTURE,
        weights=weights.each("", weights.float16),
    ),
    Entry(
        "clip-scale-without-exp",
        "clip",
        "logit_scale is multiplied as it is, not its exponential.",
        PARTS,
        TEXT_AND_PICTURE,
        graph=of(parts.without("Exp")),
    ),
    Entry(
        "clip-scores-not-transposed",
        "clip",
        "logits_per_image is logits_per_text, not its transpose.",
        PARTS,
        Case((4, 7, 5)),
        graph=of(parts.without("Transpose_2")),
    ),
    Entry(
        "clip-gelu",
        "clip",
        "GELU in both encoders, where the original has quick_gelu.",
        SETTINGS,
        TEXT_AND_PICTURE,
        config={"text_config": {"hidden_act": "gelu"}, "vision_config": {"hidden_act": "gelu"}},
    ),
    Entry(
        "clip-last-token",
        "clip",
        "A text's vector is that of the last place, not of the end of the text.",
        PARTS,
        TEXT_AND_PICTURE,
        graph=of(parts.last_token_of_text),
    ),
    Entry(
        "wav2vec2-mask-ignored",
        "wav2vec2-masked",
        "Frames attend to the padding of shorter sounds.",
        PADDING,
        SOUNDS,
        graph=of(faults.ones("attention_mask")),
    ),
    Entry(
        "wav2vec2-positions-dropped",
        "wav2vec2",
        "The convolution over positions has no bias.",
        WEIGHTS,
        SOUND,
        weights=weights.each(r"pos_conv_embed\.conv\.bias", weights.zero),
    ),
    Entry(
        "wav2vec2-blank-last",
        "wav2vec2",
        "The logits' rows are one place off: the blank stands under the first letter.",
        WEIGHTS,
        SOUND,
        weights=weights.each("lm_head", weights.rolled(1)),
    ),
    Entry(
        "whisper-past-forgotten",
        "whisper",
        "The decoder with past gives its token position 0.",
        POSITIONS,
        SPEECH_STEPS,
        graph=of(faults.first_position, LATER),
    ),
    Entry(
        "whisper-positions-stop-at-24",
        "whisper",
        "The decoder with past gives every token from 24 on position 24.",
        POSITIONS,
        LONG_SPEECH,
        graph=of(faults.positions_up_to(24), LATER),
    ),
    Entry(
        "whisper-cross-values-for-keys",
        "whisper",
        "The decoder with past reads the first layer's encoder keys and values for each other.",
        CACHE,
        SPEECH_STEPS,
        graph=of(
            parts.inputs_exchanged("past_key_values.0.encoder.key", "past_key_values.0.encoder.value"), LATER
        ),
    ),
    Entry(
        "whisper-encoder-positions-dropped",
        "whisper",
        "The encoder's position embedding is missing.",
        POSITIONS,
        SPEECH,
        weights=weights.each(r"encoder\.embed_positions", weights.zero),
    ),
    Entry(
        "whisper-one-frame-later",
        "whisper",
        "The first convolution reads one frame later.",
        PARTS,
        SPEECH,
        graph=of(parts.one_frame_later, ENCODER),
    ),
    Entry(
        "whisper-untied",
        "whisper",
        "The decoder's output matrix has one token's row a tenth too large.",
        WEIGHTS,
        SPEECH,
        weights=weights.each(r"embed_tokens", weights.row(299, lambda one: one * np.float32(1.1))),
    ),
)
