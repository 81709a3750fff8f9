"""Operators that an older opset lacks, expressed in operators that it has."""

from collections.abc import Iterable

import onnx_ir as ir
from onnxscript import OnnxFunction, script
from onnxscript.values import Opset

from txgraphs import OPSET, domain

OLDEST = 17
IR_VERSIONS = {17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12}

old = Opset("", OLDEST)


@script(domain, default_opset=old)
def erf_gelu(x):
    y = (
        x
        * old.Constant(value_float=0.5)
        * (old.Erf(x * old.Constant(value_float=0.7071067811865476)) + old.Constant(value_float=1.0))
    )
    return y


@script(domain, default_opset=old)
def cubic_gelu(x):
    cubed = x + old.Constant(value_float=0.044715) * x * x * x
    bent = old.Tanh(cubed * old.Constant(value_float=0.7978845608028654))
    y = x * old.Constant(value_float=0.5) * (bent + old.Constant(value_float=1.0))
    return y


@script(domain, default_opset=old)
def sigmoid_swish(x):
    y = x * old.Sigmoid(x)
    return y


@script(domain, default_opset=old)
def spelled_rms(x, weight, epsilon: float):
    last = old.Constant(value_ints=[-1])
    size = old.CastLike(old.Shape(x, start=-1), x)
    mean = old.ReduceSum(x * x, last, keepdims=1) / size
    y = x / old.Sqrt(mean + old.Constant(value_float=epsilon)) * weight
    return y


@script(domain, default_opset=old)
def rotated_halves(x, cos, sin):
    cos_, sin_ = (
        old.Unsqueeze(cos, old.Constant(value_ints=[1])),
        old.Unsqueeze(sin, old.Constant(value_ints=[1])),
    )
    half, axis = old.Shape(cos, start=2), old.Constant(value_ints=[3])
    a = old.Slice(x, old.Constant(value_ints=[0]), half, axis)
    b = old.Slice(x, half, half + half, axis)
    rest = old.Slice(x, half + half, old.Shape(x, start=3), axis)
    y = old.Concat(a * cos_ - b * sin_, b * cos_ + a * sin_, rest, axis=3)
    return y


@script(domain, default_opset=old)
def rotated_neighbours(x, cos, sin):
    cos_, sin_ = (
        old.Unsqueeze(cos, old.Constant(value_ints=[1])),
        old.Unsqueeze(sin, old.Constant(value_ints=[1])),
    )
    half, axis, two = old.Shape(cos, start=2), old.Constant(value_ints=[3]), old.Constant(value_ints=[2])
    size = half + half
    a = old.Slice(x, old.Constant(value_ints=[0]), size, axis, two)
    b = old.Slice(x, old.Constant(value_ints=[1]), size, axis, two)
    rest = old.Slice(x, size, old.Shape(x, start=3), axis)
    last = old.Constant(value_ints=[4])
    pairs = old.Concat(
        old.Unsqueeze(a * cos_ - b * sin_, last), old.Unsqueeze(b * cos_ + a * sin_, last), axis=4
    )
    turned = old.Reshape(pairs, old.Concat(old.Shape(x, end=3), size, axis=0))
    y = old.Concat(turned, rest, axis=3)
    return y


@script(domain, default_opset=old)
def scattered(past, new, write_indices):
    steps = old.Range(
        old.Constant(value_int=0), old.Squeeze(old.Shape(new, start=2, end=3)), old.Constant(value_int=1)
    )
    slots = old.Unsqueeze(write_indices, old.Constant(value_ints=[1])) + steps  # (B, S)
    places = old.Expand(old.Unsqueeze(slots, old.Constant(value_ints=[1, 3])), old.Shape(new))
    present = old.ScatterElements(past, places, new, axis=2)
    return present


@script(domain, default_opset=old)
def grouped_products(q, k):
    """q (B,N,S,H), k (B,K,T,H) -> products (B,K,N/K*S,T) of queries with the keys that they share.

    A head's queries stand below those of the head before it, so that products have the four dimensions of
    which runtimes fuse attention.
    """
    shape = old.Concat(
        old.Shape(q, end=1),
        old.Shape(k, start=1, end=2),
        old.Constant(value_ints=[-1]),
        old.Shape(q, start=3),
        axis=0,
    )
    products = old.MatMul(old.Reshape(q, shape), old.Transpose(k, perm=[0, 1, 3, 2]))  # (B, K, N/K*S, T)
    return products


@script(domain, default_opset=old)
def grouped_values(scores, mask, v, q):
    """scores (B,K,N/K*S,T), mask (B,1,S,T), v (B,K,T,H), q (B,N,S,H) -> (B,N,S,H).

    What is hidden is added to the scores, for all heads at once: choosing among them would take a fifth of a
    long text's time. A query that sees nothing gets 0, as it does from the operator.
    """
    keys, one = old.Constant(value_ints=[-1]), old.Constant(value_float=1.0)
    bias = old.Where(mask, old.Constant(value_float=0.0), old.Constant(value_float=-3.0e38))  # (B, 1, S, T)
    sees = old.Min(old.ReduceSum(old.CastLike(mask, one), keys), one)  # (B, 1, S, 1)
    group = old.Shape(q, start=1, end=2) / old.Shape(v, start=1, end=2)  # N/K
    times = old.Concat(old.Constant(value_ints=[1, 1]), group, old.Constant(value_ints=[1]), axis=0)
    shares = old.Softmax(scores + old.Tile(bias, times), axis=-1)
    mixed = old.Reshape(old.MatMul(shares, v), old.Shape(q)) * sees
    return mixed


@script(domain, default_opset=old)
def spelled_attention(q, k, v, mask, scale: float):
    products = grouped_products(q * old.Constant(value_float=scale), k)
    mixed = grouped_values(products, mask, v, q)
    return mixed


@script(domain, default_opset=old)
def own_mix(q, k, v, mask, scale: float):
    """As `spelled_attention`, where every head has keys of its own: products that runtimes fuse."""
    one = old.Constant(value_float=1.0)
    bias = old.Where(mask, old.Constant(value_float=0.0), old.Constant(value_float=-3.0e38))  # (B, 1, S, T)
    sees = old.Min(old.ReduceSum(old.CastLike(mask, one), old.Constant(value_ints=[-1])), one)  # (B, 1, S, 1)
    keys = old.Transpose(k, perm=[0, 1, 3, 2])  # (B, N, H, T)
    scores = old.MatMul(q * old.Constant(value_float=scale), keys) + bias  # (B, N, S, T)
    mixed = old.MatMul(old.Softmax(scores, axis=-1), v) * sees  # (B, N, S, H)
    return mixed


@script(domain, default_opset=old)
def unmasked_attention(q, k, v, scale: float):
    """As `spelled_attention`, where every query sees every key."""
    shares = old.Softmax(grouped_products(q * old.Constant(value_float=scale), k), axis=-1)
    mixed = old.Reshape(old.MatMul(shares, v), old.Shape(q))
    return mixed


@script(domain, default_opset=old)
def plain_mix(q, k, v, scale: float):
    """As `unmasked_attention`, where every head has keys of its own, and values may be narrower."""
    keys = old.Transpose(k, perm=[0, 1, 3, 2])  # (B, N, H, T)
    scores = old.MatMul(q * old.Constant(value_float=scale), keys)  # (B, N, S, T)
    mixed = old.MatMul(old.Softmax(scores, axis=-1), v)  # (B, N, S, V)
    return mixed


@script(domain, default_opset=old)
def capped_mix(q, k, v, mask, scale: float, softcap: float):
    """As `spelled_attention`, with scores s that become softcap * tanh(s / softcap)."""
    cap = old.Constant(value_float=softcap)
    products = grouped_products(q * old.Constant(value_float=scale), k)
    mixed = grouped_values(old.Tanh(products / cap) * cap, mask, v, q)
    return mixed


@script(domain, default_opset=old)
def biased_mix(q, k, v, bias, scale: float):
    """As `spelled_attention`, with numbers (B,N,S,T) to add to the scores; every head has keys of its own."""
    keys = old.Transpose(k, perm=[0, 1, 3, 2])  # (B, N, H, T)
    scores = old.MatMul(q * old.Constant(value_float=scale), keys) + bias  # (B, N, S, T)
    mixed = old.MatMul(old.Softmax(scores, axis=-1), v)  # (B, N, S, H)
    return mixed


@script(domain, default_opset=old)
def spelled_cached_attention(q, k, v, filled, scale: float):
    zero, one = old.Constant(value_int=0), old.Constant(value_int=1)
    slots = old.Range(zero, old.Squeeze(old.Shape(k, start=2, end=3)), one)  # (C)
    length = old.Shape(q, start=2, end=3)
    steps = old.Range(zero, old.Squeeze(length), one)  # (S)
    last = old.Unsqueeze(filled - length, old.Constant(value_ints=[1])) + steps  # (B, S)
    seen = old.LessOrEqual(slots, old.Unsqueeze(last, old.Constant(value_ints=[2])))  # (B, S, C)
    mixed = spelled_attention(q, k, v, old.Unsqueeze(seen, old.Constant(value_ints=[1])), scale=scale)
    return mixed


@script(domain, default_opset=old)
def filled_mix(q, k, v, filled, single, rows, scale: float):
    """As `spelled_cached_attention`, whose products are those of shared keys, however many tokens are new."""
    heads = spelled_cached_attention(q, k, v, filled, scale=scale)  # (B, N, S, H)
    mixed = old.Reshape(old.Transpose(heads, perm=[0, 2, 1, 3]), old.Constant(value_ints=[0, 0, -1]))
    return mixed


@script(domain, default_opset=old)
def shared_mix(q, k, v, mask, single, rows, seen, heads, scale: float):
    """As `spelled_attention`, whose products are those of shared keys, however many tokens are new."""
    mixed = spelled_attention(q, k, v, mask, scale=scale)
    return mixed


# Operator -> the first opset that has it.
NEWER = {
    "Gelu": 20,
    "RMSNormalization": 23,
    "RotaryEmbedding": 23,
    "Attention": 24,  # opset 23 has no lengths, and aligns causal masks differently
    "TensorScatter": 24,
    "Swish": 24,
}


def spelling(node: ir.Node) -> tuple[OnnxFunction, list[ir.Value | None], list[str]]:
    """The function that replaces `node`, its inputs, and the attributes that it takes over."""
    attributes, inputs = node.attributes, list(node.inputs)
    if node.op_type == "Gelu":
        approximate = attributes["approximate"].as_string() if "approximate" in attributes else "none"
        return (cubic_gelu if approximate == "tanh" else erf_gelu), inputs, []
    if node.op_type == "RMSNormalization":
        return spelled_rms, inputs, ["epsilon"]
    if node.op_type == "RotaryEmbedding":
        neighbours = "interleaved" in attributes and attributes["interleaved"].as_int()
        return (rotated_neighbours if neighbours else rotated_halves), inputs, []
    if node.op_type == "TensorScatter":
        return scattered, inputs, []
    if node.op_type == "Swish":
        return sigmoid_swish, inputs, []
    if len(inputs) == 3:
        return unmasked_attention, inputs, ["scale"]
    if len(inputs) > 4:
        return spelled_cached_attention, [*inputs[:3], inputs[6]], ["scale"]
    return spelled_attention, inputs, ["scale"]


def lower(functions: Iterable[ir.Function], opset: int) -> list[ir.Function]:
    """`functions` and those that they now call, with operators of `opset` only."""
    if opset == OPSET:
        return list(functions)
    # Functions that are replaced completely.
    mixes = own_mix, plain_mix, biased_mix, capped_mix, filled_mix, shared_mix
    whole: dict[str, OnnxFunction] = {f.name: f for f in mixes}
    lowered = [
        ir.serde.deserialize_function(whole[f.name].to_function_proto()) if f.name in whole else f
        for f in functions
    ]
    spelled = {name: whole[name] for name in whole if any(f.name == name for f in lowered)}
    replaced = set(spelled)
    for function in lowered:
        for node in list(function):
            if node.domain == "" and NEWER.get(node.op_type, 0) > opset:
                substitute, inputs, kept = spelling(node)
                call = ir.node(
                    substitute.name,
                    inputs,
                    {name: node.attributes[name].value for name in kept},
                    domain=domain.domain,
                    num_outputs=1,
                )
                ir.convenience.replace_nodes_and_values(
                    function, node, [node], [call], node.outputs, call.outputs
                )
                spelled[substitute.name] = substitute
    for substitute in list(spelled.values()):
        spelled |= substitute.function_ir.get_called_functions()
    added = {function.name: function for function in spelled.values() if function.name not in replaced}
    lowered += [ir.serde.deserialize_function(function.to_function_proto()) for function in added.values()]
    for function in lowered:
        if opset < NAMED_LINEAR:
            _rename_linear(function)
        function.opset_imports[""] = opset
        function.opset_imports[domain.domain] = 1
    return lowered


NAMED_LINEAR = 20  # the first opset whose GridSample calls interpolation by its name in Resize


def _rename_linear(function: ir.Function) -> None:
    """Call the interpolation of GridSample as older opsets do."""
    for node in function:
        if node.domain == "" and node.op_type == "GridSample":
            node.attributes["mode"] = ir.AttrString("mode", "bilinear")


def part_relu(function: ir.Function) -> None:
    """Write Relu as Max: ONNX Runtime fuses Relu with the product before it, and then cannot fuse int4."""
    for node in list(function):
        if node.domain == "" and node.op_type == "Relu":
            zero = ir.node("Constant", [], {"value_float": 0.0}, outputs=[ir.Value(name=f"{node.name}_zero")])
            most = ir.node("Max", [node.inputs[0], zero.outputs[0]], name=node.name, num_outputs=1)
            most.outputs[0].name = node.outputs[0].name
            ir.convenience.replace_nodes_and_values(
                function, node, [node], [zero, most], node.outputs, most.outputs
            )
