"""torchao checkpoints of int8: every number bit for bit, whether activations are rounded, what is refused."""

import copy

import numpy as np
import pytest
import torch
from tiny_quantised import edit, torchao

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, UnsupportedError

Q = "model.layers.0.self_attn.q_proj"
ROWS = {"_type": "PerRow", "_version": 1, "_data": {"dim": -1}}


def settings(kind="Int8WeightOnlyConfig", version=2, **data) -> dict:
    """A quantization_config as the library writes it."""
    default = {"_type": kind, "_version": version, "_data": {"granularity": ROWS, "group_size": None} | data}
    return {"quant_method": "torchao", "quant_type": {"default": default}, "modules_to_not_convert": None}


DYNAMIC = "Int8DynamicActivationInt8WeightConfig"
SYMMETRIC = {"_data": "SYMMETRIC", "_type": "MappingType"}


@pytest.mark.parametrize("kind", ["Int8WeightOnlyConfig", DYNAMIC])
def test_numbers_are_the_formats_own(made, kind):
    folder, expected = made(torchao, settings(kind, act_mapping_type=SYMMETRIC))
    checkpoint = Checkpoint(folder)
    for name, numbers in expected.items():
        assert np.array_equal(checkpoint.read(name), numbers)
        assert np.array_equal(checkpoint.blocks(name).numbers(), numbers)
        assert checkpoint.blocks(name).zeros is None
        assert checkpoint.rounds(name) == (kind == DYNAMIC)


def test_zeros_may_be_others(made):
    folder, expected = made(torchao, settings())
    edit(folder, lambda tensors: tensors[f"{Q}._weight_zero_point"].fill_(3))
    parts = {}
    edit(folder, parts.update)
    integers = parts[f"{Q}._weight_qdata"].numpy().astype(np.float32) - 3
    numbers = integers * parts[f"{Q}._weight_scale"].numpy()
    assert np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), numbers)
    assert not np.array_equal(numbers, expected[f"{Q}.weight"])


REFUSED = {
    "default._type": settings("Int4WeightOnlyConfig"),
    "default._version": settings(version=3),
    "default._data.weight_only_decode": settings(DYNAMIC, weight_only_decode=True),
    "default._data.act_mapping_type._data": settings(DYNAMIC, act_mapping_type={"_data": "ASYMMETRIC"}),
    "default._data.granularity._type": settings(DYNAMIC, granularity={"_type": "PerTensor"}),
}


@pytest.mark.parametrize("key", REFUSED)
def test_other_types_are_refused_by_name(made, key):
    folder, _ = made(torchao, REFUSED[key])
    with pytest.raises(UnsupportedError, match=rf"quantization_config.quant_type.{key} .* is not supported"):
        Checkpoint(folder)


@pytest.mark.parametrize("leaf", ["_weight_act_pre_scale", "_weight_act_quant_scale"])
def test_scales_of_activations_are_refused(made, leaf):
    folder, _ = made(torchao, settings())
    edit(folder, lambda tensors: tensors.update({f"{Q}.{leaf}": torch.ones(64)}))
    with pytest.raises(UnsupportedError, match=f"'{Q}.{leaf}' scales activations"):
        Checkpoint(folder)


@pytest.mark.parametrize("leaf", ["_weight_qdata", "_weight_scale"])
def test_missing_parts_are_named(made, leaf):
    folder, _ = made(torchao, settings())
    edit(folder, lambda tensors: tensors.pop(f"{Q}.{leaf}"))
    with pytest.raises(CheckpointError, match=f"'{Q}.{leaf}' is missing"):
        Checkpoint(folder)


def test_a_type_is_asked_for(made):
    config = copy.deepcopy(settings())
    del config["quant_type"]["default"]["_type"]
    folder, _ = made(torchao, config)
    with pytest.raises(CheckpointError, match=r"quant_type.default._type is missing"):
        Checkpoint(folder)


@pytest.mark.parametrize("kind", ["Int8WeightOnlyConfig", DYNAMIC])
def test_its_own_library_writes_the_same(llama, tmp_path, kind):
    """As transformers saves a model that the library quantised."""
    quantization = pytest.importorskip("torchao.quantization")
    import transformers

    how = transformers.TorchAoConfig(getattr(quantization, kind)(version=2))
    model = transformers.AutoModelForCausalLM.from_pretrained(
        llama, quantization_config=how, dtype=torch.float32
    )
    model.save_pretrained(tmp_path / "quantised")
    checkpoint = Checkpoint(tmp_path / "quantised")
    projection = model.model.layers[0].self_attn.q_proj.weight
    assert np.array_equal(checkpoint.read(f"{Q}.weight"), projection.dequantize().numpy())
    assert checkpoint.rounds(f"{Q}.weight") == (kind == DYNAMIC)
