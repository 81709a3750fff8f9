"""compressed-tensors: every number bit for bit, whether activations are rounded, what is refused."""

import copy

import numpy as np
import pytest
import torch
from tiny_quantised import (
    edit,
    float8,
    int_quantized,
    pack_quantized,
    quantised,
    settle,
    tiny_llama,
)

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, UnsupportedError

Q = "model.layers.0.self_attn.q_proj"
TOKENS = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}


def settings(form="pack-quantized", activations=None, **weights) -> dict:
    """A quantization_config with one group of modules."""
    weights = {
        "num_bits": 4,
        "type": "int",
        "symmetric": True,
        "strategy": "group",
        "group_size": 32,
    } | weights
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "quantization_status": "compressed",
        "config_groups": {"group_0": group | {"output_activations": None}},
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
    }


CHANNEL = {"strategy": "channel", "group_size": None}
VARIANTS = {
    "4 bits": (pack_quantized(), settings()),
    "4 bits, asymmetric": (pack_quantized(symmetric=False), settings(symmetric=False)),
    "4 bits, a scale for each output": (pack_quantized(group=0), settings(**CHANNEL)),
    "4 bits, an order of inputs": (pack_quantized(act_order=True), settings(actorder="group")),
    "asymmetric, an order of inputs": (
        pack_quantized(symmetric=False, act_order=True),
        settings(symmetric=False, actorder="group"),
    ),
    "8 bits": (pack_quantized(bits=8), settings(num_bits=8)),
    "8 bits, asymmetric": (pack_quantized(8, symmetric=False), settings(num_bits=8, symmetric=False)),
    "2 bits": (pack_quantized(bits=2), settings(num_bits=2)),
    "int8": (int_quantized, settings("int-quantized", TOKENS, num_bits=8, **CHANNEL)),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_numbers_are_the_formats_own(made, variant):
    packer, config = VARIANTS[variant]
    folder, expected = made(packer, config)
    checkpoint = Checkpoint(folder)
    for name, numbers in expected.items():
        assert np.array_equal(checkpoint.read(name), numbers)
        blocks = checkpoint.blocks(name)
        assert np.array_equal(blocks.numbers(), numbers)
        assert checkpoint.rounds(name) == (variant == "int8")
    weights = config["config_groups"]["group_0"]["weights"]
    assert blocks.bits == weights["num_bits"]
    assert blocks.block == weights["group_size"] or weights["strategy"] == "channel"
    assert (blocks.zeros is None) == weights["symmetric"]
    assert (blocks.order is None) == ("order" not in variant)


FLOATS = TOKENS | {"type": "float"}
FLOAT = {
    "of each output": (float8(scale="weight_scale", shape=(1,)), CHANNEL),
    "of all": (float8(scale="weight_scale"), {"strategy": "tensor", "group_size": None}),
    "of rectangles": (
        float8(32, 16, "weight_scale"),
        {"strategy": "block", "group_size": None, "block_structure": [32, 16]},
    ),
}


@pytest.mark.parametrize("scales", FLOAT)
def test_float8(made, scales):
    """The config may ask for activations in float8 as well, which txexport does not do."""
    packer, weights = FLOAT[scales]
    config = settings("float-quantized", FLOATS, num_bits=8, type="float", **weights)
    folder, expected = made(packer, config)
    checkpoint = Checkpoint(folder)
    for name, numbers in expected.items():
        assert np.array_equal(checkpoint.read(name), numbers)
        assert checkpoint.blocks(name) is None
        assert not checkpoint.rounds(name)


def test_padding_is_stripped(made, tmp_path):
    """37 integers of 4 bits fill five words but for three places, and so do 37 zero points."""
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1, intermediate_size=37)
    config = settings(symmetric=False, **CHANNEL)
    folder = tmp_path / "quantised"
    expected = quantised(
        source, folder, pack_quantized(group=0, symmetric=False), config, modules="up_proj|down_proj"
    )
    checkpoint = Checkpoint(folder)
    for name, numbers in expected.items():
        assert 37 in numbers.shape
        assert np.array_equal(checkpoint.read(name), numbers)


def test_an_order_of_minus_ones_is_none(made):
    """Writers use it as a placeholder where there is no order."""
    folder, expected = made(pack_quantized(), settings(actorder="group"))
    edit(folder, lambda t: t.update({f"{Q}.weight_g_idx": torch.full((64,), -1, dtype=torch.int32)}))
    assert np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), expected[f"{Q}.weight"])


def test_groups_of_modules_may_have_other_bits(made):
    """`targets` holds regular expressions, which are not evaluated: shapes give the same result."""
    config = settings()
    other = copy.deepcopy(config["config_groups"]["group_0"])
    other["weights"] |= {"num_bits": 8} | CHANNEL
    config["config_groups"]["group_1"] = other | {"targets": ["re:(a+)+$"]}
    folder, _ = made(pack_quantized(), config)
    packed, numbers = pack_quantized(bits=8, group=0)(np.random.default_rng(5), 64, 64)
    edit(folder, lambda tensors: tensors.update({f"{Q}.{leaf}": part for leaf, part in packed.items()}))
    assert np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), numbers)
    config["config_groups"]["group_1"] = other | {"input_activations": TOKENS}
    settle(folder, **config)
    with pytest.raises(UnsupportedError, match="quantise the activations of some modules only"):
        Checkpoint(folder)


def changed(*path, value) -> dict:
    """A quantization_config of which one value is another."""
    config = settings(activations=dict(TOKENS))
    inner = config
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner[path[-1]] = value
    return config


GROUP = ("config_groups", "group_0")
REFUSED = {
    "format": changed("format", value="nvfp4-pack-quantized"),
    "quantization_status": changed("quantization_status", value="calibration"),
    "kv_cache_scheme": changed("kv_cache_scheme", value=TOKENS),
    "sparsity_config.format": changed("sparsity_config", "format", value="sparse-24-bitmask"),
    "transform_config": changed("transform_config", "config_groups", value={"u": {"type": "hadamard"}}),
    "config_groups.group_0.format": changed(*GROUP, "format", value="mxfp4-pack-quantized"),
    "config_groups.group_0.output_activations": changed(*GROUP, "output_activations", value=TOKENS),
    "config_groups.group_0.weights.strategy": changed(*GROUP, "weights", "strategy", value="tensor_group"),
    "config_groups.group_0.input_activations.dynamic": changed(
        *GROUP, "input_activations", "dynamic", value=False
    ),
    "config_groups.group_0.input_activations.strategy": changed(
        *GROUP, "input_activations", "strategy", value="tensor"
    ),
    "config_groups.group_0.input_activations.symmetric": changed(
        *GROUP, "input_activations", "symmetric", value=False
    ),
}


@pytest.mark.parametrize("key", REFUSED)
def test_other_ways_are_refused_by_name(made, key):
    folder, _ = made(pack_quantized(), REFUSED[key])
    with pytest.raises(UnsupportedError, match=f"quantization_config.{key} .*not supported"):
        Checkpoint(folder)


def cut(leaf, *which):
    def change(tensors):
        tensors[f"{Q}.{leaf}"] = tensors[f"{Q}.{leaf}"][which].contiguous()

    return change


def put(leaf, value):
    return lambda tensors: tensors.update({f"{Q}.{leaf}": value})


DAMAGE = {
    "no scales": (lambda tensors: tensors.pop(f"{Q}.weight_scale"), rf"'{Q}.weight_scale' is missing"),
    "no zeros": (lambda t: t.pop(f"{Q}.weight_zero_point"), rf"'{Q}.weight_zero_point' is missing"),
    "no shape": (lambda tensors: tensors.pop(f"{Q}.weight_shape"), rf"'{Q}.weight_shape' is missing"),
    "another shape": (put("weight_shape", torch.tensor([64, 80])), r"is \(64, 8\), which is not \(64, 80\)"),
    "a shape below 0": (put("weight_shape", torch.tensor([64, -64])), r"which is not \(64, -64\)"),
    "a vast shape": (put("weight_shape", torch.tensor([64, 2**62])), r"is \(64, 8\), which is not"),
    "short scales": (cut("weight_scale", slice(63)), rf"'{Q}.weight_scale' is \(63, 2\), expected \(64, 2\)"),
    "narrow zeros": (
        cut("weight_zero_point", slice(7)),
        r"weight_zero_point' is \(7, 2\), expected \(8, 2\)",
    ),
    "an order too short": (
        put("weight_g_idx", torch.zeros(60, dtype=torch.int32)),
        rf"'{Q}.weight_g_idx' is \(60,\), expected \(64,\)",
    ),
    "an order of one group": (
        put("weight_g_idx", torch.zeros(64, dtype=torch.int32)),
        rf"'{Q}.weight_g_idx' has groups of 0 to 64 inputs",
    ),
    "an infinite scale": (
        put("weight_scale", torch.full((64, 2), torch.inf)),
        rf"'{Q}.weight_scale' holds a scale that is not finite",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named(made, damage):
    folder, _ = made(pack_quantized(symmetric=False), settings(symmetric=False))
    change, message = DAMAGE[damage]
    edit(folder, change)
    with pytest.raises(CheckpointError, match=message):
        Checkpoint(folder).read(f"{Q}.weight")


def swap_nibbles(tensors):
    words = tensors[f"{Q}.weight_packed"].view(torch.uint8)
    words.copy_(words << 4 | words >> 4)


def move_a_zero(tensors):
    tensors[f"{Q}.weight_zero_point"][0, 1] ^= 1


def forget_the_order(tensors):
    del tensors[f"{Q}.weight_g_idx"]


@pytest.mark.parametrize("mutant", [swap_nibbles, move_a_zero, forget_the_order])
def test_every_part_counts(made, mutant):
    packer, config = VARIANTS["asymmetric, an order of inputs"]
    folder, expected = made(packer, config)
    edit(folder, mutant)
    assert not np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), expected[f"{Q}.weight"])


WRITTEN = [(4, "group", True), (4, "group", False), (8, "channel", True), (4, "channel", False)]


@pytest.mark.parametrize(("bits", "strategy", "symmetric"), WRITTEN)
def test_its_own_library_writes_the_same(made, bits, strategy, symmetric):
    """Tensors packed by the library are read as it unpacks them, but for bfloat16 rounding."""
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.compressors import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    size = 32 if strategy == "group" else None
    arguments = QuantizationArgs(num_bits=bits, symmetric=symmetric, strategy=strategy, group_size=size)
    scheme = QuantizationScheme(targets=["Linear"], weights=arguments)
    torch.manual_seed(0)
    weight = torch.randn(64, 64)
    columns = 2 if size else 1
    scale = torch.rand(64, columns) / 4 + 0.1
    zero = torch.randint(-8, 8, (64, columns), dtype=torch.int8) * (not symmetric)
    state = {"weight": weight, "weight_scale": scale, "weight_zero_point": zero}
    packed = PackedQuantizationCompressor.compress(state, scheme)
    config = settings(num_bits=bits, symmetric=symmetric, strategy=strategy, group_size=size)
    folder, _ = made(pack_quantized(bits, size or 0, symmetric), config)
    edit(folder, lambda tensors: tensors.update({f"{Q}.{leaf}": part for leaf, part in packed.items()}))
    unpacked = PackedQuantizationCompressor.decompress(packed, scheme)["weight"]
    assert np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), unpacked.numpy())
