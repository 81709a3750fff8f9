"""Mutations of Llama 4 and DBRX: chunks of tokens, experts of weighted tokens, clipped projections."""

from helpers.graph_edits import become, constant, drop, function, node, set_constant


def chunks_before_too(model):
    """Queries that see all chunks before their own."""
    equal = node(function(model, "cache_mask"), "Equal")
    become(equal, "GreaterOrEqual", *equal.input)


def larger_chunks(model):
    """Chunks of one token more."""
    body = function(model, "cache_mask")
    set_constant(constant(body, 5), 6)


def past_chunks_before_too(model):
    """As `chunks_before_too`, over a growing cache."""
    equal = node(function(model, "causal_mask"), "Equal")
    become(equal, "GreaterOrEqual", *equal.input)


def chunks_from_the_first_slot(model):
    """Chunks that begin with the padding of a row."""
    begun = node(model.graph, "from_first_token")
    become(begun, "Identity", begun.input[1])


def unweighted_tokens(model):
    """Experts of tokens without their weights."""
    body = function(model, "experts")
    weighted = next(one for one in body.node if one.name == "weighted")
    become(weighted, "Identity", weighted.input[0])


def unturned_queries_of_one_size(model):
    """Queries of layers without positions that do not grow."""
    bodies = [one for one in model.functions if one.name.startswith("cached_attention")]
    for grown in [part for body in bodies for part in body.node if part.name == "grown"]:
        drop(grown)


def unclipped_queries(model):
    """Queries that are not clipped."""
    drop(node(function(model, "cached_attention"), "Max"))
