"""pytorch_model.bin without PyTorch: the numbers that torch.load reads, in both formats of torch.save."""

import io
import json
import pickle
import shutil
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import tiny_checkpoint
import torch
from tiny_pickled import pickled

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.pytorch.files import MAGIC, PROTOCOL
from txexport.errors import CheckpointError, UnsupportedError
from txexport.exporter import export
from txexport.inspection import inspect
from txexport.verification import verify

FORMS = {"zip": False, "legacy": True}
TYPES = (
    *(torch.float32, torch.float16, torch.bfloat16, torch.float64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def written(folder: Path, value: object, legacy: bool = False) -> Path:
    (folder / "config.json").write_text("{}")
    torch.save(value, folder / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
    return folder / "pytorch_model.bin"


def assert_as_torch_reads(folder: Path, expected: dict[str, torch.Tensor]) -> Checkpoint:
    """Every tensor of the checkpoint at `folder`, whole and by rows, has the expected numbers."""
    checkpoint = Checkpoint(folder)
    assert checkpoint.tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        tensor, stored = tensor.detach(), checkpoint.tensors[name]
        numbers = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
        ours = stored.array(name)
        assert (ours.dtype, ours.shape) == (numbers.dtype, numbers.shape)
        assert np.array_equal(ours, numbers), name
        if tensor.is_floating_point() and tensor.numel():
            assert np.array_equal(checkpoint.read(name), numbers), name
    return checkpoint


@pytest.mark.parametrize("legacy", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_type_of_numbers(legacy, dtype, tmp_path):
    file = written(
        tmp_path, {"x": (100 * random(3, 5)).to(dtype), "scalar": torch.tensor(7).to(dtype)}, legacy
    )
    assert_as_torch_reads(tmp_path, torch.load(file, weights_only=True))


@pytest.mark.parametrize("legacy", FORMS.values(), ids=FORMS)
def test_views_of_one_storage(legacy, tmp_path):
    """Tied, sliced, transposed, every third row: each has its own numbers, and the storage exists once."""
    whole, cube = random(20, 30), random(6, 8, 10)
    views = {
        **{"whole": whole, "tied": whole, "rows": whole[3:7], "columns": whole[:, 2:5], "turned": whole.T},
        **{"steps": whole[1::3, ::2], "axes": cube.permute(2, 0, 1), "last": cube[..., -1]},
        **{"parameter": torch.nn.Parameter(cube[0]), "row": whole[None, 5, ::2], "none": whole[:0]},
        **{"half": whole.half().T, "double": cube.double().transpose(0, 2)},
    }
    file = written(tmp_path, OrderedDict(views), legacy)
    checkpoint = assert_as_torch_reads(tmp_path, torch.load(file, weights_only=True))
    assert file.stat().st_size < 4 * 600 + (4 + 8) * 480 + 2 * 600 + 8000
    places = {checkpoint.tensors[name].offset for name in ("whole", "tied", "turned")}
    assert len(places) == 1


def test_turned_tensors_are_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("txexport.checkpoints.stored.CHUNK", 100)
    numbers = random(7, 40)
    written(tmp_path, {"x": numbers.T})
    blocks = list(Checkpoint(tmp_path).rows("x"))
    assert len(blocks) == 14
    assert np.array_equal(np.concatenate(blocks), numbers.T.numpy())


def test_numbers_of_a_big_endian_machine(tmp_path):
    """torch.load swaps their bytes too."""
    tensors = {"x": random(3, 4), "half": random(5).bfloat16(), "turned": random(3, 4).double().T}
    file = written(tmp_path, tensors)
    widths = {"0": 4, "1": 2, "2": 8}
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            folder, _, key = name.rpartition("/")
            if folder.endswith("/data"):
                data = np.frombuffer(data, f"<u{widths[key]}").byteswap().tobytes()
            archive.writestr(name, b"big" if key == "byteorder" else data)
    turned = torch.load(file, weights_only=True)
    assert torch.equal(turned["x"], tensors["x"])
    assert_as_torch_reads(tmp_path, turned)


@pytest.mark.parametrize("legacy", FORMS.values(), ids=FORMS)
def test_a_state_dict_beside_what_training_needs(legacy, tmp_path):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    value = {"epoch": 3, "loss": 0.5, "name": "é", "optimizer": optimizer.state_dict(), "done": [True, None]}
    written(tmp_path, value | {"state_dict": model.state_dict()}, legacy)
    assert_as_torch_reads(tmp_path, model.state_dict())
    written(tmp_path, value | {"model": model.state_dict(), "ema": model.state_dict()}, legacy)
    with pytest.raises(CheckpointError, match=r"holds 2 state dicts \('model', 'ema'\), expected one"):
        Checkpoint(tmp_path)
    written(tmp_path, value, legacy)
    with pytest.raises(CheckpointError, match=r"holds 0 state dicts \(none\), expected one"):
        Checkpoint(tmp_path)
    written(tmp_path, value | model.state_dict(), legacy)
    with pytest.raises(CheckpointError, match="holds tensors and 'epoch', a int; save the state dict alone"):
        Checkpoint(tmp_path)
    written(tmp_path, random(3), legacy)
    with pytest.raises(CheckpointError, match="holds a Tensor, expected a state dict"):
        Checkpoint(tmp_path)


def lightning(folder: Path, state: dict[str, torch.Tensor]) -> None:
    """A checkpoint as Lightning writes it, with tensors of its own beside the weights."""
    best = {"monitor": "loss", "best_model_score": torch.tensor(0.5), "best_k_models": {"a": torch.ones(())}}
    value = {
        **{"epoch": 1, "global_step": 7, "pytorch-lightning_version": "2.4.0", "state_dict": state},
        **{"loops": {"fit_loop": {"state_dict": {}}}, "callbacks": {"ModelCheckpoint{'mode': 'min'}": best}},
        **{"optimizer_states": [{"state": {0: {"exp_avg": torch.ones(3)}}, "param_groups": [{"lr": 0.1}]}]},
        **{"lr_schedulers": [], "hparams_name": "kwargs", "hyper_parameters": {"lr": 0.1}},
    }
    written(folder, value)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("model.bert.a", "model.classifier.b"), ("bert.a", "classifier.b")),
        (("bert.a.w", "classifier.b"), ("bert.a.w", "classifier.b")),
        (("a", "b"), ("a", "b")),
    ],
)
def test_a_checkpoint_of_lightning(names, expected, tmp_path):
    """A model that is an attribute of its module, or several that are; training state is left out."""
    first, second = random(3, 4), random(5)
    lightning(tmp_path, dict(zip(names, (first, second), strict=True)))
    assert_as_torch_reads(tmp_path, dict(zip(expected, (first, second), strict=True)))


def test_without_lightning_names_stay(tmp_path):
    state = {"model.a": random(3), "model.b": random(4)}
    written(tmp_path, {"state_dict": state})
    assert_as_torch_reads(tmp_path, state)


class OlderPickler(pickle.Pickler):
    """Writes a file of before PyTorch 0.4, in which each tensor is a view of one storage."""

    def __init__(self, stream: io.BytesIO, numel: int):
        super().__init__(stream, 2)
        self.numel = numel

    def persistent_id(self, one: object):
        if isinstance(one, View):
            return "storage", torch.FloatStorage, "0", "cpu", self.numel, (one.key, one.offset, one.size)
        return None


@dataclass(frozen=True)
class View:
    """That number of elements of a storage, from an offset on."""

    key: str
    offset: int
    size: int


class OlderTensor:
    """A tensor in the pickle format of that time."""

    def __init__(self, view: View, *rest: object):
        self.rebuilt = torch._utils._rebuild_tensor, (view, *rest)

    def __reduce__(self):
        return self.rebuilt


def test_views_of_before_pytorch_0_4(tmp_path):
    numbers = random(4, 6)
    state = OrderedDict(
        rows=OlderTensor(View("1", 6, 12), 0, (2, 6), (6, 1)),
        turned=OlderTensor(View("2", 2, 20), 3, (3, 2), (1, 6)),
    )
    stream = io.BytesIO()
    for value in (MAGIC, PROTOCOL, {"little_endian": True}):
        pickle.dump(value, stream, 2)
    OlderPickler(stream, numbers.numel()).dump(state)
    pickle.dump(["0"], stream, 2)
    stream.write(numbers.numel().to_bytes(8, "little") + numbers.numpy().tobytes())
    (tmp_path / "config.json").write_text("{}")
    file = tmp_path / "pytorch_model.bin"
    file.write_bytes(stream.getvalue())
    expected = torch.load(file, weights_only=False)
    assert torch.equal(expected["rows"], numbers[1:3])
    assert_as_torch_reads(tmp_path, expected)
    file.write_bytes(stream.getvalue()[:-4])
    with pytest.raises(CheckpointError, match="is truncated"):
        Checkpoint(tmp_path)


@pytest.mark.parametrize(("model_type", "legacy"), [("bert", True), ("gpt2", False)])
def test_the_bundle_is_that_of_safetensors(model_type, legacy, checkpoint_of, tmp_path):
    """Byte for byte, but for what txexport.json says of its source."""
    source = shutil.copytree(checkpoint_of(model_type), tmp_path / "in")
    export(source, tmp_path / "before")
    before = inspect(source).weights
    pickled(source, legacy=legacy)
    manifest = export(source, tmp_path / "out")
    beside = {"tokenizer.json", "generation_config.json"} & {*manifest.companions}
    assert manifest.source.sha256.keys() == {"config.json", "pytorch_model.bin", *beside}
    for file in (path for path in (tmp_path / "before").rglob("*") if path.is_file()):
        ours = tmp_path / "out" / file.relative_to(tmp_path / "before")
        if file.name != "txexport.json":
            assert ours.read_bytes() == file.read_bytes(), file.name
    assert verify(tmp_path / "out", cases="quick").ok
    assert inspect(source).weights == before


def test_shards(checkpoint_of, tmp_path):
    source = shutil.copytree(checkpoint_of("llama"), tmp_path / "in")
    expected = {name: Checkpoint(source).read(name) for name in Checkpoint(source).tensors}
    pickled(source, shards=3)
    assert len(Checkpoint(source).files) == 3
    for name, numbers in expected.items():
        assert np.array_equal(Checkpoint(source).read(name), numbers)
    export(source, tmp_path / "out")
    assert verify(tmp_path / "out", reference="transformers", cases="quick").ok
    (source / "pytorch_model-00002-of-00003.bin").unlink()
    with pytest.raises(
        CheckpointError, match=r"pytorch_model-00002-of-00003\.bin is missing, though pytorch"
    ):
        Checkpoint(source)


def test_another_checkpoint_is_told_by_its_hash(checkpoint_of, tmp_path):
    source = pickled(shutil.copytree(checkpoint_of("bert"), tmp_path / "in"))
    export(source, tmp_path / "out")
    other = tmp_path / "other"
    tiny_checkpoint.save(other, "bert", seed=1)
    with pytest.raises(CheckpointError, match=r"is not what was exported: pytorch_model\.bin differ"):
        verify(tmp_path / "out", source=pickled(other))


def test_safetensors_and_single_files_come_first(checkpoint_of, tmp_path):
    source = shutil.copytree(checkpoint_of("bert"), tmp_path / "in")
    (source / "pytorch_model.bin").write_bytes(b"no file of torch.save")
    assert [file.name for file in Checkpoint(source).files] == ["model.safetensors"]
    pickled(source)
    (source / "pytorch_model.bin.index.json").write_text('{"weight_map": {"a": "elsewhere.bin"}}')
    (source / "other.gguf").write_bytes(b"no GGUF file")
    assert [file.name for file in Checkpoint(source).files] == ["pytorch_model.bin"]
    assert families.resolve(Checkpoint(source)).model_type == "bert"


@pytest.mark.parametrize("legacy", FORMS.values(), ids=FORMS)
def test_files_cut_short(legacy, tmp_path):
    file = written(tmp_path, {"x": random(100), "y": random(7)}, legacy)
    whole = file.read_bytes()
    for size in (0, 3, 4, 20, 100, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(
            CheckpointError, match=r"pytorch_model\.bin is no file of torch\.save, or damaged: "
        ):
            Checkpoint(tmp_path)


def archived(file: Path, change, compression: int = zipfile.ZIP_STORED) -> None:
    """Write a zip archive anew of members that `change` has changed."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    file.write_bytes(data.getvalue())


FOLDER = "pytorch_model"
DAMAGED = {
    "without pickle": (lambda members: members.pop(f"{FOLDER}/data.pkl"), "without one data.pkl"),
    "two pickles": (lambda members: members.update({"b/data.pkl": b"."}), "without one data.pkl"),
    "without numbers": (
        lambda members: members.pop(f"{FOLDER}/data/0"),
        "there are no numbers for tensor 'x'",
    ),
    "short numbers": (
        lambda members: members.update({f"{FOLDER}/data/0": bytes(396)}),
        "tensor 'x' has 100 numbers, but only 396 bytes of them",
    ),
    "byte order": (
        lambda members: members.update({f"{FOLDER}/byteorder": b"middle"}),
        "byteorder is b'middle'",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_archives_that_lack_what_their_pickle_names(name, tmp_path):
    file = written(tmp_path, {"x": random(100)})
    change, said = DAMAGED[name]
    archived(file, change)
    with pytest.raises(CheckpointError, match=said):
        Checkpoint(tmp_path)


def test_archives_that_are_no_plain_files(tmp_path):
    """Tensors are read in place: a compressed archive could expand without bound, or overlap others."""
    file = written(tmp_path, {"x": random(100)})
    plain = file.read_bytes()
    archived(file, lambda members: None, zipfile.ZIP_DEFLATED)
    with pytest.raises(UnsupportedError, match="is compressed or encrypted"):
        Checkpoint(tmp_path)
    file.write_bytes(plain)
    archived(file, lambda members: members.update({f"{FOLDER}/constants.pkl": b"."}))
    with pytest.raises(UnsupportedError, match="TorchScript program; save the model's state dict"):
        Checkpoint(tmp_path)


def test_members_that_overlap(tmp_path):
    """The directory says of one that it begins where another does."""
    file = written(tmp_path, {"x": random(100), "y": random(100)})
    data = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        one, other = (archive.getinfo(f"{FOLDER}/data/{key}").header_offset for key in "01")
    directory = data.rindex(f"{FOLDER}/data/1".encode()) - 46
    assert data[directory + 42 : directory + 46] == other.to_bytes(4, "little")
    file.write_bytes(data[: directory + 42] + one.to_bytes(4, "little") + data[directory + 46 :])
    with pytest.raises(CheckpointError, match=r"its member '.*' begins within '.*'"):
        Checkpoint(tmp_path)


def test_published_encoders_of_another_time(tmp_path):
    """A folder of 2019: the format before PyTorch 1.6, LayerNorm's old names, a tied decoder stored twice."""
    folder = tmp_path / "in"
    model = tiny_checkpoint.build("bert", "BertForMaskedLM")
    tiny_checkpoint.save(folder, "bert", "BertForMaskedLM")
    (folder / "model.safetensors").unlink()
    state = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in model.state_dict().items()
    }
    assert "cls.predictions.decoder.weight" in state
    torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    export(folder, tmp_path / "out")
    assert verify(tmp_path / "out", reference="transformers", cases="quick").ok
    assert json.loads((tmp_path / "out/txexport.json").read_text())["task"] == "fill-mask"
