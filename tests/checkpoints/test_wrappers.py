"""Weights saved by a wrapper of the model are those of the model."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import txexport
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.wrappers import unwrapped
from txexport.errors import CheckpointError

NAMES = {
    "module.bert.a": "bert.a",
    "module.module.a": "a",
    "_orig_mod.a": "a",
    "module._orig_mod.a": "a",
    "_orig_mod.module.a": "a",
    "_fsdp_wrapped_module.layer._fsdp_wrapped_module._checkpoint_wrapped_module.a": "layer.a",
    "model.layers.0._orig_mod.a": "model.layers.0.a",
    "submodule.a": "submodule.a",
    "layer._orig_model.a": "layer._orig_model.a",
}


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    assert unwrapped({name: 1}) == {NAMES[name]: 1}


def test_a_module_of_that_name_stays_where_others_have_none():
    names = {"module.a": 1, "head.a": 2}
    assert unwrapped(names) == names
    assert unwrapped({}) == {}


def test_a_name_with_and_without_is_refused():
    with pytest.raises(CheckpointError, match="tensor 'a' occurs twice, with and without the prefix"):
        unwrapped({"_orig_mod.a": 1, "a": 2})


def torch_wrapped(model: torch.nn.Module) -> dict[str, list[str]]:
    """A model's tensor names inside PyTorch's wrappers."""
    wrapped = {"parallel": torch.nn.DataParallel(model), "compiled": torch.compile(model)}
    return {how: list(one.state_dict()) for how, one in wrapped.items()}


def test_names_are_those_that_pytorch_writes():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))
    for how, names in torch_wrapped(model).items():
        assert not set(names) & set(model.state_dict()), how
        assert list(unwrapped(dict.fromkeys(names))) == list(model.state_dict())


@pytest.mark.parametrize("form", ["model.safetensors", "pytorch_model.bin"])
def test_a_wrapped_checkpoint_is_exported_and_proved(form, checkpoint_of, tmp_path):
    """The graphs and numbers of the plain one; the original gets the numbers by the plain names."""
    source = shutil.copytree(checkpoint_of("bert"), tmp_path / "in")
    tensors = {f"module._orig_mod.{k}": v for k, v in load_file(source / "model.safetensors").items()}
    if form == "model.safetensors":
        save_file(tensors, source / form, {"format": "pt"})
    else:
        (source / "model.safetensors").unlink()
        torch.save({"model": tensors, "epoch": 3}, source / form)
    assert Checkpoint(source).tensors.keys() == Checkpoint(checkpoint_of("bert")).tensors.keys()
    txexport.export(source, tmp_path / "out")
    txexport.export(checkpoint_of("bert"), tmp_path / "plain")
    for file in ("onnx/model_native.onnx", "onnx/model.onnx_data"):
        assert (tmp_path / "out" / file).read_bytes() == (tmp_path / "plain" / file).read_bytes()
    assert txexport.verify(tmp_path / "out", cases="quick", reference="transformers").ok
