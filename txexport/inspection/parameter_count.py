"""The number of parameters of a model by component, counted from its spec."""

import math
from collections.abc import Container
from dataclasses import dataclass

from txexport.parts import input_of, parameters
from txexport.parts.stacks import query_layers
from txexport.spec import ModelSpec

COMPONENTS = (
    "embedding",
    "attention",
    "cross_attention",
    "feed_forward",
    "experts",
    "convolution",
    "norms",
    "pooler",
    "head",
)
OWNERS = {  # outside of stacks; the rest are heads
    **dict.fromkeys(("cross", "cross_projection", "seen"), "cross_attention"),
    **dict.fromkeys(("pooler", "vector"), "pooler"),
}


@dataclass(frozen=True)
class Parameters:
    """Learned numbers, each once however often it is used.

    `components` add up to `total`. Norms and learned scales are "norms" wherever a stack has them, a relative
    bias is "attention", a router is "experts", an adapter "feed_forward"; a head tied to the embedding counts
    there, its own norm in "head"; what joins vectors between stages is "embedding". `active` are those that
    one token uses, with the chosen experts only. `effective` counts shared ones again in every layer that has
    them. `fixed` are numbers of tables that nothing learns, in none of the others. `rule_of_thumb` is 12 d² n
    for n layers of width d (Kaplan et al. 2020, 2.1) summed over the stacks, 4 for attention and 8 for a
    feed-forward network of 4 d; `share` is `without_embeddings` in units of it.
    """

    components: dict[str, int]
    total: int
    without_embeddings: int
    active: int
    effective: int
    fixed: int
    rule_of_thumb: int
    share: float


def count(spec: ModelSpec, stored: Container[str] | None = None) -> Parameters:
    """The parameters of `spec`; `stored` names those that are no copies of others, None is all."""
    components = dict.fromkeys(COMPONENTS, 0)
    idle = 0
    shapes = parameters(spec)
    for name, size in learned(spec, stored).items():
        components[component(spec, name)] += size
        idle += size * (not active(spec, name))
    effective = sum(learned(spec).values())
    sizes = [math.prod(shape) for name, shape in shapes.items() if stored is None or name in stored]
    fixed = sum(sizes) - sum(components.values())
    total = sum(components.values())
    inner = total - components["embedding"]
    layers = (block for stack in spec.stacks.values() for block in stack.layers)
    rule = sum(12 * block.attention.hidden_size**2 for block in layers)
    for stack in spec.stacks.values():
        rule += sum(12 * stack.hidden_size**2 * part.num_layers for part, *_ in query_layers(stack).values())
    return Parameters(
        components, total, inner, total - idle, effective, fixed, rule, inner / rule if rule else 0.0
    )


def learned(spec: ModelSpec, stored: Container[str] | None = None) -> dict[str, int]:
    """The size of each parameter that is learned and no copy of another, as in `count`."""
    fixed = _fixed(spec)
    return {
        name: math.prod(shape)
        for name, shape in parameters(spec).items()
        if (stored is None or name in stored) and name not in fixed
    }


def component(spec: ModelSpec, name: str) -> str:
    """The component, of COMPONENTS, that a parameter belongs to."""
    owner, part, *rest = name.split(".")
    if owner not in spec.stacks:
        return OWNERS.get(owner, "head")
    if part == "mergings":
        if rest[1] in COMPONENTS:
            return rest[1]
        return "norms" if rest[1].endswith("norm") else "embedding"
    if part == "relative":
        return "attention"
    if part in ("upsampling", "merge"):
        return "feed_forward"
    if part in ("layer_positions", "expand"):
        return "embedding"
    if part in ("layer_inputs", "layout"):
        return "norms" if rest[0] == "norm" else "embedding"
    if part == "length_adapter":
        return _of_adapter(rest)
    if part in ("embedding", "squeeze"):
        return "norms" if rest[0] == "norm" else "embedding"
    if part in ("pyramid", "levels", "maps"):
        return "norms" if "norm" in rest else "convolution"
    if part in ("proposals", "boxes"):
        return "norms" if rest[0].endswith("norm") else "head"
    if part in ("queries", "query_position", "query_scale", "level_embed", "after"):
        return "embedding"
    if part in ("final_norm", "norms", "map_norms", "layers_norm", "query_norm", "middle_norm"):
        return "norms"
    _, sublayer, inner, *_ = rest
    if sublayer == "feed_forward" and inner in ("router", "experts", "shared", "shared_router"):
        return "experts"
    if sublayer == "beside":
        return "norms" if inner.endswith("_norm") else "attention"
    if sublayer in ("last_feed_forward", "project"):
        return "feed_forward"
    if sublayer in ("layer_input", "augmented_residual"):
        return "norms" if inner == "norm" else "feed_forward"
    if sublayer == "streams":
        return "norms" if inner == "scale" or "norm" in rest else "feed_forward"
    if sublayer in ("adapter", "layout"):
        return inner if inner in COMPONENTS else "norms"
    return sublayer if sublayer in COMPONENTS and not inner.endswith("_norm") else "norms"


def _of_adapter(rest: list[str]) -> str:
    """The component of a length adapter's parameter: `project.weight`, `layers.0.attention.q.weight`."""
    inner = rest[2] if rest[0] == "layers" else rest[0]
    if inner.endswith("norm"):
        return "norms"
    if inner in ("residual", "convolution", "convolutions"):
        return "convolution"
    return inner if inner == "attention" else "feed_forward"


def active(spec: ModelSpec, name: str) -> bool:
    """Tell whether one token uses a parameter; of the experts, the first ones represent the chosen ones."""
    stack, _, rest = name.partition(".layers.")
    layer, _, inner = rest.partition(".feed_forward.experts.")
    if not inner:
        return True
    mixture = spec.stacks[stack].layers[int(layer)].experts
    return mixture is None or int(inner.split(".")[0]) < mixture.top_k


def _fixed(spec: ModelSpec) -> set[str]:
    """The parameters that are computed and not learned."""
    return {
        f"{name}.embedding.{table}"
        for name, stack in spec.stacks.items()
        for table in input_of(stack).fixed(stack.embedding)
    }
