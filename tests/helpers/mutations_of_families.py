"""Mutations for some families: experts, soft caps, slopes, buckets, patches, dual encoders, windows."""

import numpy as np
from onnx import helper, numpy_helper

from helpers.graph_edits import (
    attribute,
    become,
    blocks,
    constant_value,
    drop,
    function,
    named,
    node,
    producer,
    set_attribute,
    set_constant,
    swap_inputs,
    through,
)


def router_before_choice(model):
    """Routing weights of the softmax over all experts, not renormalised."""
    body = function(model, "router")
    through(body, "scores", "Softmax", axis=-1)
    become(node(body, "Softmax", 1), "Identity", "best")


def worst_experts(model):
    """The experts with the lowest scores."""
    set_attribute(node(function(model, "router"), "TopK"), "largest", 0)


def swap_experts(model):
    """The first two experts exchanged."""
    for part in ("up", "gate", "down"):
        swap_inputs(blocks(model)[0], f".experts.0.{part}.weight", f".experts.1.{part}.weight")


def shares_of_all(model):
    """Each selected expert weighted against all that remain, however low their scores."""
    body = function(model, "router")
    for far in [node(body, "Where", place) for place in (0, 1)]:
        drop(far, 2)


def uncorrected_choice(model):
    """Experts selected without e_score_correction_bias."""
    ranked = node(function(model, "router"), "Add")
    drop(ranked)


def sigmoid_scores(model):
    """Experts weighted by sigmoid scores in place of softmax."""
    softmax = node(function(model, "router"), "Softmax")
    become(softmax, "Sigmoid", softmax.input[0])


def any_group(model):
    """Experts selected from all groups."""
    within = node(function(model, "router"), "Where")
    drop(within, 1)


def drop_norm_of_latents(model):
    """Latents cached without their norm."""
    norm = node(function(model, "cached_latent_attention"), "norm")
    drop(norm)


def latents_not_turned(model):
    """RoPE on queries only."""
    turn = node(function(model, "cached_latent_attention"), "RotaryEmbedding")
    drop(turn)


def drop_positions_of_latents(model):
    """Scores of the content part alone."""
    scores = node(function(model, "cached_latent_attention"), "Add")
    drop(scores)


def drop_sinks(model):
    """No attention sinks."""
    through(function(model, "sunk_softmax"), "column", "Sub", 1e9)


def unclipped_gate(model):
    """Gates that are not clipped."""
    least = node(function(model, "experts"), "Min")
    drop(least)


def nothing_added(model):
    """The gated value without the added 1."""
    body = function(model, "experts")
    more = next(one for one in body.node if node(body, "Min", -1).output[0] in one.input)
    drop(more)


def wrong_softcap(model):
    """Scores capped 10 % higher."""
    for body in model.functions:
        for mix in [one for one in body.node if one.op_type == "capped_mix"]:
            set_attribute(mix, "softcap", 1.1 * attribute(mix, "softcap"))


def uncapped_logits(model):
    """Logits without their cap."""
    last = node(function(model, "causal_lm_head"), "Tanh")
    drop(last)


def local_for_global(model):
    """A sliding window in a layer of full attention."""
    first, second = blocks(model)[:2]
    mask = list(function(model, "decoder_block").input).index("mask")
    assert first.input[mask] != second.input[mask]
    second.input[mask] = first.input[mask]


def drop_post_norm(model):
    """No norm after attention."""
    norm = node(function(model, "decoder_block"), "norm", 1)
    assert norm.input[1] == "attention_post_norm_weight"
    drop(norm)


def _slopes(model):
    numbers = [n for n in function(model, "alibi").node if n.op_type == "Constant"]
    return next(n for n in numbers if isinstance(constant_value(n)[0], float))


def halved_slopes(model):
    """ALiBi slopes halved."""
    slopes = _slopes(model)
    set_constant(slopes, [value / 2 for value in constant_value(slopes)])


def other_slopes(model):
    """ALiBi slopes sorted, which is not the heads' order where their number is no power of two."""
    slopes = _slopes(model)
    values = constant_value(slopes)
    assert sorted(values) != values
    set_constant(slopes, sorted(values))


def drop_alibi(model):
    """No ALiBi."""
    through(model.graph, "v_alibi.bias", "Mul", 0.0)


def one_sided_buckets(model):
    """Later keys in the buckets of earlier ones, as in a decoder."""
    body = function(model, "relative_bias")
    later = node(body, "Greater")
    through(body, node(body, "Cast").output[0], "Mul", 0)
    assert later.input[0] == "ahead"


def early_buckets(model):
    """Logarithmic buckets that begin one distance too early."""
    table = node(function(model, "relative_bias"), "Constant")
    values = constant_value(table)
    assert len(values) > 4
    set_constant(table, [*values[1:], values[-1]])


def early_vectors(model):
    """Logarithmic distances that begin one too early."""
    tables = [n for n in function(model, "near_vectors").node if n.op_type == "Constant"]
    table = max(tables, key=lambda n: np.size(constant_value(n)))
    values = constant_value(table)
    assert len(values) > 8
    set_constant(table, [*values[:4], *values[5:], values[-1]])


def one_segment(model):
    """Every key counted as of the query's segment."""
    chosen = node(function(model, "transformer_xl_attention"), "Where")
    drop(chosen, 2)


def one_bias(model):
    """Position scores with the content bias."""
    body = function(model, "transformer_xl_attention")
    contents, distances = (node(body, "Add", number) for number in (0, 1))
    distances.input[1] = contents.input[1]


def distances_reversed(model):
    """Distances of the opposite sign."""
    vectors = function(model, "sinusoid_vectors")
    places = node(vectors, "Sub", 1)
    places.input[:] = reversed(places.input)


def swap_places(model):
    """Content-to-position and position-to-content terms exchanged."""
    body = function(model, "disentangled_attention")
    first, second = (node(body, "at_places", number) for number in (0, 1))
    first.input[2], second.input[2] = second.input[2], first.input[2]


def drop_norm_of_vectors(model):
    """Relative position embeddings without their norm."""
    norm = node(function(model, "relative_vectors"), "norm")
    drop(norm)


def unscaled_positions(model):
    """Position terms without the scale of the others."""
    for number in (0, 1):
        product = node(function(model, "disentangled_attention"), "at_places", number)
        set_attribute(product, "scale", 1.0)


def halves_of_sinusoids(model):
    """Cosines before sines."""
    width = next(t for t in model.graph.initializer if t.name == "encoder.embedding.position.weight").dims[1]
    order = [*range(width // 2, width), *range(width // 2)]
    through(model.graph, "encoder.embedding.position.weight", "Gather", order, axis=1)


def mark_last(model):
    """CLS after the patches."""
    joined = node(function(model, "patch_embedding"), "Concat", 1)
    joined.input[:] = reversed(joined.input)


def patches_by_column(model):
    """Patches in column order."""
    through(function(model, "patch_embedding"), "grid", "Transpose", perm=[0, 1, 3, 2])


def blue_first(model):
    """Channels in the order BGR."""
    through(model.graph, "pixel_values", "Gather", [2, 1, 0], axis=1)


def drop_patch_places(model):
    """Patches without position embeddings."""
    through(function(model, "patch_embedding"), "position_weight", "Mul", 0.0)


def queries_one_earlier(model):
    """Queries that begin one vector too early, and end one too early."""
    body = function(model, "boxes_head")
    end = next(one for one in body.node if one.op_type == "Shape")
    start = producer(body, node(body, "Slice").input[1])
    set_constant(start, [constant_value(start)[0] - 1])
    become(end, "Constant", value_ints=[-1])


def corners_for_centres(model):
    """The left upper corner of a box in place of its centre."""
    body = function(model, "boxes_head")
    shares = node(body, "Sigmoid")
    [boxes] = shares.output
    shares.output[:] = ["centred"]
    matrix = np.eye(4, dtype=np.float32) - np.eye(4, k=-2, dtype=np.float32) / 2
    body.node.append(helper.make_node("Constant", [], ["matrix"], value=numpy_helper.from_array(matrix)))
    body.node.append(helper.make_node("MatMul", ["centred", "matrix"], [boxes]))


def drop_layer_positions(model):
    """Layers without positions of their own."""
    through(function(model, "layer_position"), "position", "Mul", 0.0)


def low_bands_last(model):
    """Spectrogram bands in reverse order."""
    bands = model.graph.input[0].type.tensor_type.shape.dim[2].dim_value
    through(model.graph, "input_values", "Gather", list(reversed(range(bands))), axis=2)


def drop_spectrogram_places(model):
    """Spectrogram patches without position embeddings."""
    through(function(model, "spectrogram_embedding"), "position_weight", "Mul", 0.0)


def drop_sound_places(model):
    """Vectors of a sound without positions."""
    through(function(model, "waveform_embedding"), "position", "Mul", 0.0)


def places_one_later(model):
    """Positions of a sound, one vector later."""
    convolution = node(function(model, "convolutional_position"), "Conv")
    [pads] = [attribute for attribute in convolution.attribute if attribute.name == "pads"]
    pads.ints[:] = [pads.ints[0] + 1, pads.ints[1] - 1]


def unnormalised_channels(model):
    """Channels of a sound that are not normalised over time."""
    norm = node(function(model, "waveform_embedding"), "InstanceNormalization")
    drop(norm)


def padding_not_zeroed(model):
    """Positions of a sound computed from its padding too."""
    zeroed = node(function(model, "waveform_embedding"), "Where")
    drop(zeroed, 1)


def one_vector_more(model):
    """A vector of padding that counts as one of the sound."""
    compared = node(function(model, "waveform_embedding"), "Less")
    become(compared, "LessOrEqual", *compared.input)


def unnormalised_vectors(model):
    """A convolution of a sound whose vectors are not normalised."""
    norm = node(function(model, "waveform_embedding"), "norm", 1)
    drop(norm)


def unnormalised_stem(model):
    """The stem of a sound without its norm over channels and time."""
    norm = node(function(model, "waveform_stem"), "InstanceNormalization")
    drop(norm)


def stem_of_each_channel(model):
    """The stem of a sound with a norm of each channel, over time alone."""
    body = function(model, "waveform_stem")
    norm = node(body, "InstanceNormalization")
    become(norm, "MeanVarianceNormalization", node(body, "Reshape").input[0], axes=[2])


def linear_stem(model):
    """The stem of a sound without its tanh."""
    tanh = node(function(model, "waveform_stem"), "Tanh")
    drop(tanh)


def halves_rotated(model):
    """Halves of a head rotated, where RoPE is interleaved."""
    for body in model.functions:
        for rotated in body.node:
            if rotated.op_type == "RotaryEmbedding":
                set_attribute(rotated, "interleaved", 0)


def ungated(model):
    """Relative positions without their gates."""
    gated = node(function(model, "relative_gate"), "Mul", -1)
    drop(gated, 1)


def gate_without_reset(model):
    """The second gate of relative positions always open."""
    reset = node(function(model, "relative_gate"), "Mul", 0)
    drop(reset, 1)


def one_direction(model):
    """Distances to later vectors as those to earlier ones."""
    directed = node(function(model, "relative_bias"), "Add")
    drop(directed)


def deviation_of_all(model):
    """A speaker's standard deviation divided by the number of vectors, not one less."""
    rest = node(function(model, "speaker_head"), "Sub", -1)
    drop(rest)


def one_vector_twice(model):
    """A time-delay layer that reads one vector twice."""
    joined = node(function(model, "speaker_head"), "Concat", 1)
    joined.input[1] = joined.input[0]


def variances_of_a_speaker(model):
    """A speaker's variances in place of standard deviations."""
    root = node(function(model, "speaker_head"), "Sqrt")
    drop(root)


def lost_vectors_counted(model):
    """As many vectors of a speaker as its layers read, not as they output."""
    rows = node(function(model, "speaker_head"), "Sub")
    drop(rows)


def drop_adapter(model):
    """A layer without its adapter."""
    adapted = node(function(model, "adapter"), "Add")
    drop(adapted)


def drop_batch_norm(model):
    """Positions of a sound computed from vectors that are not normalised."""
    norm = node(function(model, "batch_norm"), "BatchNormalization")
    drop(norm)


def drop_norm_of_places(model):
    """Convolutions that give positions of a sound, without their norms."""
    norm = node(function(model, "convolutional_position"), "LayerNormalization")
    drop(norm)


def other_token_first(model):
    """Distillation token and CLS exchanged."""
    joined = node(function(model, "spectrogram_embedding"), "Concat", 1)
    joined.input[:2] = reversed(joined.input[:2])


def other_bicubic(model):
    """Bicubic interpolation of positions with a = -0.5 instead of -0.75."""
    set_attribute(node(function(model, "interpolation"), "Resize"), "cubic_coeff_a", -0.5)


def corners_to_corners(model):
    """Interpolation of positions with aligned corners."""
    resize = node(function(model, "interpolation"), "Resize")
    set_attribute(resize, "coordinate_transformation_mode", "align_corners")


def first_token(model):
    """A text's vector from its first token instead of EOS."""
    through(function(model, "pick"), "place", "Mul", 0)


def first_patch(model):
    """An image's vector from its first patch instead of CLS."""
    body = function(model, "pick")
    through(body, node(body, "Gather").input[1], "Add", 1)


def not_of_unit_length(model):
    """A text's vector without L2 normalisation."""
    unit = named(model, "text.unit")
    drop(unit)


def other_quick_gelu(model):
    """1.7 instead of 1.702."""
    factor = node(function(model, "quick_gelu"), "Constant")
    set_constant(factor, 1.7)


def plain_logit_scale(model):
    """The logit scale without exp."""
    body = function(model, "similarity")
    become(node(body, "Exp"), "Identity", "scale")


def ignore_global_tokens(model):
    """No token is global."""
    for body in [f for f in model.functions if f.name.startswith("longformer_attention")]:
        marks = node(body, "Mul")
        assert list(marks.input) == ["attention_mask", "global_attention_mask"]
        become(marks, "Sub", "attention_mask", "attention_mask")


def narrower_window(model):
    """A window one token narrower on either side."""
    for body in [f for f in model.functions if f.name.startswith("longformer_near")]:
        node(body, "LessOrEqual").op_type = "Less"


def global_as_local(model):
    """Global queries projected by the local matrix."""
    swap_inputs(blocks(model)[0], ".attention.q.weight", ".attention.q_global.weight")
