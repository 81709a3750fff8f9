"""Wrong graphs: mistakes that an export of any family can make."""

from onnx import helper

from helpers.graph_edits import (
    attribute,
    become,
    blocks,
    constant,
    constant_value,
    drop,
    function,
    named,
    node,
    replace_input,
    set_attribute,
    set_constant,
    swap_inputs,
    through,
)


def ignore_mask(model):
    """Ignore the padding mask; where there are two masks, the encoder's."""
    names = "padding_mask", "causal_mask", "mutual_mask"
    mask = next(f for name in names for f in model.functions if f.name == name)
    cast = node(mask, "Cast")
    become(cast, "Equal", cast.input[0], cast.input[0])


def ignore_causality(model):
    """Ignore causality: a query attends to later keys."""
    set_attribute(node(function(model, "cached_attention"), "Attention"), "is_causal", 0)


def shift_positions(model):
    """Positions one too high, where the table has room."""
    body = function(model, "positions")
    through(body, node(body, "Range").output[0], "Add", 1)


def larger_epsilon(model):
    """Ten times the norms' epsilon."""
    [norm] = function(model, "norm").node
    set_attribute(norm, "epsilon", 10 * attribute(norm, "epsilon"))


def other_gelu(model):
    """GELU exact for tanh, or the reverse."""
    gelu = next(node(f, "Gelu") for f in model.functions if f.name.startswith("gelu"))
    set_attribute(gelu, "approximate", "none" if attribute(gelu, "approximate") else "tanh")


def other_activation(model):
    """GELU instead of SiLU."""
    become(node(function(model, "silu"), "Swish"), "Gelu", "x")


def unscaled(model):
    """Scores without 1/sqrt(head_dim)."""
    for body in model.functions:
        for found in body.node:
            if found.op_type == "Attention":
                set_attribute(found, "scale", 1.0)


def mixing(body):
    """Attention over a static cache: a function where heads share keys, else the operator."""
    return next(part for part in body.node if part.op_type in ("Attention", "filled_mix", "shared_mix"))


def scaled_twice(model):
    """Scores divided by head_dim instead of its square root."""
    mix = mixing(function(model, "cached_attention"))
    set_attribute(mix, "scale", attribute(mix, "scale") ** 2)


def swap_heads(model):
    """Heads and head dimensions transposed."""
    set_attribute(node(function(model, "merge"), "Transpose"), "perm", [0, 2, 3, 1])


def swap_queries_and_keys(model):
    """The first layer's query and key weights exchanged."""
    swap_inputs(blocks(model)[0], ".attention.q.weight", ".attention.k.weight")


def swap_layers(model):
    """The first two layers' weights exchanged."""
    for block, (old, new) in zip(blocks(model), (("0", "1"), ("1", "0")), strict=False):
        for i, name in enumerate(block.input):
            if name.endswith((".weight", ".bias")):
                block.input[i] = name.replace(f"layers.{old}.", f"layers.{new}.")


def drop_layer(model):
    """One layer less."""
    first, second = blocks(model)[:2]
    replace_input(second, first.output[0], first.input[0])


def swap_norms(model):
    """The two norms of a layer exchanged."""
    swap_inputs(blocks(model)[0], ".attention_norm.weight", ".feed_forward_norm.weight")


def drop_final_norm(model):
    """No final norm."""
    norm = next(n for n in model.graph.node if n.name.endswith("final_norm"))
    drop(norm)


def drop_bias(model):
    """A linear layer without its bias."""
    bias = next(name for name in blocks(model)[0].input if name.endswith(".attention.v.bias"))
    through(model.graph, bias, "Mul", 0.0)


def drop_head_bias(model):
    """Logits without their bias."""
    through(model.graph, "head.bias", "Mul", 0.0)


def transpose_square(model):
    """A square matrix transposed."""
    weight = next(name for name in blocks(model)[1].input if name.endswith(".attention.o.weight"))
    through(model.graph, weight, "Transpose", perm=[1, 0])


def drop_residual(model):
    """Attention without its residual."""
    body = next(f for f in model.functions if f.name.endswith("_block"))
    residual = node(body, "Add")
    drop(residual, 1)


def drop_positions(model):
    """Embeddings without positions."""
    body = function(model, "embedding")
    table = next(n for n in body.node if n.op_type == "Gather" and n.input[0] == "position_weight")
    through(body, table.output[0], "Mul", 0.0)


def drop_segments(model):
    """Embeddings without token types."""
    body = function(model, "embedding")
    table = next(n for n in body.node if n.op_type == "Gather" and n.input[0] == "segment_weight")
    through(body, table.output[0], "Mul", 0.0)


def plain_pooler(model):
    """A pooler without tanh."""
    last = node(function(model, "pooler"), "Tanh")
    drop(last)


def second_token_pooled(model):
    """The pooler reads the second token, where there is one."""
    body = function(model, "pooler")
    first = node(body, "Gather")
    through(body, first.input[1], "Sub", 1)  # the last one


def untied_head(model):
    """The vocabulary projection reads a stale copy of the word embedding."""
    head = named(model, "head")
    old = helper.make_node("Abs", [head.input[2]], ["older"])
    model.graph.node.insert(0, old)
    replace_input(head, head.input[2], "older")


def last_logits_only(model):
    """The vocabulary projection ignores logits_indices."""
    through(function(model, "picked"), "picks", "Mul", 0)


def swap_gate_and_up(model):
    """Gate and up projections exchanged."""
    for call in model.graph.node:
        if any(name.endswith(".gate.weight") for name in call.input):
            swap_inputs(call, ".gate.weight", ".up.weight")


def later_edge(model):
    """A query attends to one later key."""
    through(function(model, "filled_then"), "cache_lengths", "Add", 1)


def later_mask(model):
    """As `later_edge`, where there is a mask."""
    through(function(model, "cache_mask"), "own", "Add", 1)


def wider_window(model):
    """A window one key wider."""
    node(function(model, "cache_mask"), "Less").op_type = "LessOrEqual"


def window_read_from_one_later(model):
    """Of a window's slots, where few are read, all but the first."""
    through(function(model, "near_slots"), "least", "Add", 1)


def late_write(model):
    """New keys and values written one slot too late."""
    through(function(model, "cached_attention"), "cache_lengths", "Add", 1)


def new_before_past(model):
    """A growing cache with new keys first."""
    for place in (0, 1):
        concat = node(function(model, "cached_attention"), "Concat", place)
        concat.input[:] = reversed(concat.input)


def other_layer_s_cache(model):
    """The second layer reads the first one's keys."""
    block = blocks(model)[1]
    name = next(name for name in block.input if name.startswith("past_key_values.1"))
    replace_input(block, name, name.replace(".1.", ".0.", 1))


def stale_cross_cache(model):
    """Every layer reads the first one's encoder keys."""
    for block in blocks(model):
        for name in [name for name in block.input if name.endswith(".encoder.key")]:
            replace_input(block, name, "past_key_values.0.encoder.key")


def swap_cross_keys_and_values(model):
    """Keys and values of the encoder exchanged."""
    swap_inputs(blocks(model)[1], ".encoder.key", ".encoder.value")


def other_layer_s_cross_weights(model):
    """Every layer's cross-attention keys computed with the first layer's weights."""
    call = named(model, "cross.1")
    call.input[:] = [name.replace("cross.1.k", "cross.0.k") for name in call.input]


def unscaled_embedding(model):
    """Word embeddings not multiplied by the square root of the width."""
    scale = node(function(model, "embedding"), "Mul")
    drop(scale)


def unscaled_logits(model):
    """A tied head that does not divide by the square root of its width."""
    scale = node(function(model, "causal_lm_head"), "Mul")
    drop(scale)


def truncated_rotary(model):
    """No rotation of the last dimension pair of a head."""
    frequencies = node(function(model, "rotation"), "Constant")
    set_constant(frequencies, [*constant_value(frequencies)[:-1], 0.0])


def interleaved_rotary(model):
    """Interleaved RoPE instead of rotated halves."""
    for found in function(model, "cached_attention").node:
        if found.op_type == "RotaryEmbedding":
            set_attribute(found, "interleaved", 1)


def keys_not_turned(model):
    """RoPE on queries only."""
    turn = node(function(model, "cached_attention"), "RotaryEmbedding", 1)
    drop(turn)


def other_rotary_base(model):
    """RoPE with the square root of the base."""
    frequencies = node(function(model, "rotation"), "Constant")
    set_constant(frequencies, [value**0.5 for value in constant_value(frequencies)])


def unmasked_step(model):
    """A step of one token attends to every slot of the cache."""
    mix = next(f for f in model.functions if f.name in ("filled_mix", "shared_mix"))
    [step] = [a.g for a in node(mix, "If").attribute if a.name == "then_branch"]
    del node(step, "Attention").input[3:]


def other_groups(model):
    """Query heads assigned to key heads in turn, not in groups."""
    body = function(model, "cached_attention")
    [past] = [value for value in model.graph.input if value.name == "past_key_values.0.key"]
    size = past.type.tensor_type.shape.dim[3].dim_value
    through(body, node(body, "split").output[0], "Gather", [0, 2, 4, 1, 3, 5], axis=1)
    back = [head * size + place for head in (0, 3, 1, 4, 2, 5) for place in range(size)]
    through(body, mixing(body).output[0], "Gather", back, axis=2)


def drop_head_norm(model):
    """Keys without their norm."""
    norm = node(function(model, "cached_attention"), "norm", 1)
    drop(norm)


def padding_counted(model):
    """Padding counted as a position."""
    body = function(model, "token_positions")
    assert constant(body, 1)
    through(body, "real", "Max", 1)
