"""Mutations of queries that read maps: the norms of maps, the pyramid, the layers, the masks."""

from helpers.graph_edits import (
    become,
    constant,
    drop,
    function,
    node,
    set_attribute,
    set_constant,
    starting,
    through,
)


def not_shifted(model):
    """Windows of every layer of the first stage where those of even layers are."""
    set_constant(constant(function(model, "window_shift"), [1]), [0])


def unnormed_maps(model):
    """The finest map without its norm."""
    mapped = next(one for one in model.graph.node if any(".map_norms.0." in name for name in one.input))
    drop(mapped)


def merged_after_the_norm(model):
    """Vectors that are merged after the norm of the map."""
    mapped = next(one for one in model.graph.node if any(".map_norms.0." in name for name in one.input))
    merging = next(one for one in model.graph.node if one.op_type.startswith("patch_merging"))
    merging.input[0] = mapped.output[0]


def later_places(model):
    """The nearest place of a coarser map rounded up."""
    set_attribute(node(function(model, "nearest"), "Resize"), "nearest_mode", "ceil")


def smooth_places(model):
    """A coarser map interpolated between its places."""
    resize = node(function(model, "nearest"), "Resize")
    set_attribute(resize, "mode", "linear")
    set_attribute(resize, "coordinate_transformation_mode", "half_pixel")


def without_finer_maps(model):
    """The coarsest map alone, enlarged."""
    body = function(model, "pixel_pyramid")
    for added in [one for one in body.node if one.op_type == "Add"]:
        drop(added)


def linear_pyramid(model):
    """A pyramid without its last ReLU."""
    act = node(function(model, "pixel_pyramid"), "Relu", -1)
    drop(act)


def larger_epsilon(model):
    """A variance of groups that is larger by a tenth."""
    for body in [one for one in model.functions if one.name.startswith("group_norm")]:
        set_attribute(node(body, "InstanceNormalization"), "epsilon", 0.1)


def linear_masks(model):
    """The vectors of masks without the last ReLU before them."""
    act = node(function(model, "masks_head"), "Relu", -1)
    drop(act)


def queries_from_the_start(model):
    """Queries that begin as the learned vectors, not as zeros."""
    body = function(model, "masks_head")
    first = next(one for one in body.node if one.op_type == "first_queries")
    layer = next(one for one in body.node if one.op_type.startswith("query_layer"))
    assert layer.input[0] == first.output[1]
    layer.input[0] = first.output[0]


def opposite_masks(model):
    """Masks whose logits have the other sign."""
    through(function(model, "mask_scores"), "products", "Neg")


def each_head_alone(model):
    """Weights of places that add up to 1 for each head, not over all of them."""
    body = function(model, "places_of_all_heads")
    become(node(body, "Softmax"), "Softmax", node(body, "Where").output[0], axis=3)


def padding_is_weighed(model):
    """Weights of places that are padding."""
    hidden = node(function(model, "places_of_all_heads"), "Where")
    drop(hidden, 1)


def unscaled_weights(model):
    """Products with the places that are not divided by the root of the head size."""
    body = function(model, "attention_maps")
    scaled = node(body, "Mul")
    drop(scaled)


def without_shared_values(model):
    """The values that all queries share added to none of them."""
    body = function(model, "of_every_query")
    added = node(body, "Add")
    drop(added)


def linear_mask(model):
    """The last map without its activation."""
    body = function(model, "object_masks_head")
    act = [one for one in body.node if one.op_type in ("relu", "silu")]
    become(act[-1], "Identity", act[-1].input[0])


def unnormed_join(model):
    """The first convolution without its norm."""
    body = function(model, "object_masks_head")
    norm = next(one for one in body.node if one.op_type.startswith("group_norm"))
    drop(norm)


def whole_maps(model):
    """Queries that see all places, not those within their masks."""
    seen = node(function(model, "within_masks"), "GreaterOrEqual")
    become(seen, "LessOrEqual", seen.input[0], seen.input[0])


def outside_of_masks(model):
    """Queries that see the places outside of their masks."""
    seen = node(function(model, "within_masks"), "GreaterOrEqual")
    become(seen, "Less", *seen.input)


def nearest_of_masks(model):
    """Masks that are not interpolated, but read at the nearest place."""
    set_attribute(node(function(model, "bilinear"), "Resize"), "mode", "nearest")


def rows_for_columns_of_points(model):
    """Points whose rows are columns."""
    body = function(model, "centres")
    pairs = node(body, "Concat", -1)
    pairs.input[:] = pairs.input[::-1]


def corners_of_places(model):
    """Points in the corners of places, not in their centres."""
    through(function(model, "centres"), "half", "Mul", 0.0)


def unscaled_offsets(model):
    """Offsets from points that are not shares of a map."""
    body = starting(model, "deformable_attention")
    scaled = node(body, "Div")
    drop(scaled)


def maps_without_level(model):
    """Maps that queries read without the learned vector of their resolution."""
    body = function(model, "masked_queries_head")
    added = node(body, "Add")
    drop(added)


def coarsest_alone(model):
    """Every layer reads the coarsest map."""
    layers = [one for one in function(model, "masked_queries_head").node if "query_layer" in one.op_type]
    layers[1].input[2:5] = layers[0].input[2:5]


def first_masks_again(model):
    """The first masks in place of those of a later layer's queries."""
    calls = [one for one in function(model, "masked_queries_head").node if one.op_type == "within_masks"]
    calls[3].input[0] = calls[0].input[0]
