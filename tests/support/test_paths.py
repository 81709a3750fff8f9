"""Names and links that leave a checkpoint or a bundle: nothing outside is read, copied or removed."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.bundle_edits import graph_path

from txexport import bundle
from txexport.errors import BundleError, CheckpointError
from txexport.exporter import export
from txexport.runtime import load
from txexport.support.paths import links_out, stays_inside

OUTSIDE = [
    "../a",
    "a/../../b",
    "/etc/passwd",
    "..",
    "\\a",
    "..\\a",
    "a\\..\\b",
    "C:a",
    "C:/a",
    "//host/a",
    "a\0",
    "a/" + "b" * 300,
]


def test_which_names_stay_inside():
    assert [name for name in (*OUTSIDE, None, 3, ["a"]) if stays_inside(name)] == []
    inside = ["model.safetensors", "1_Pooling", "a/b.json", "./a", "", ".", "..a", "a..b", "ä ö.json"]
    assert [name for name in inside if not stays_inside(name)] == []


@pytest.fixture
def source(checkpoint_of, tmp_path) -> Path:
    """A checkpoint in a folder whose parent has only `secret.json` besides."""
    (tmp_path / "secret.json").write_text('{"key": "secret"}')
    return shutil.copytree(checkpoint_of("bert"), tmp_path / "source")


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_shard_index_names_files_of_its_folder(name, source):
    weights = (source / "model.safetensors").rename(source.parent / "a")
    name = str(weights) if name.startswith("/e") else name
    (source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"any": name}}))
    with pytest.raises(CheckpointError, match="expected a file within its folder") as caught:
        export(source, source.parent / "out")
    assert repr(name) in str(caught.value)
    assert "\0" not in str(caught.value)


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_manifest_names_files_of_its_folder(name, bundle_of, tmp_path):
    out = shutil.copytree(bundle_of("bert"), tmp_path / "out")
    graph_path(out).rename(tmp_path / "a")
    written = json.loads((out / "txexport.json").read_text())
    graphs = written["formats"]["float32"]
    hostile = [
        written | {"companions": {name: "0" * 64}},
        *(
            written
            | {"formats": {"float32": graphs | {kind: {"model": graphs[kind]["model"] | {"file": name}}}}}
            for kind in ("native", "hub")
        ),
        written | {"data": {name: {"bytes": 1, "sha256": "0" * 64}}},
    ]
    for manifest in hostile:
        (out / "txexport.json").write_text(json.dumps(manifest))
        with pytest.raises(BundleError, match="expected a path within its folder") as caught:
            load(out)
        assert repr(name) in str(caught.value)


@pytest.mark.parametrize("name", [*OUTSIDE, None, 3])
@pytest.mark.parametrize("kind", ["Pooling", "Dense", "Transformer"])
def test_modules_are_folders_of_the_bundle(name, kind, bundle_of, tmp_path):
    out = shutil.copytree(bundle_of("bert"), tmp_path / "out")
    for folder in (tmp_path / "a", out / "None"):
        folder.mkdir()
        (folder / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": name}]
    (out / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(BundleError, match="expected a folder within the bundle") as caught:
        load(out, device="cpu", check=False).embed("the cat")
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt", "config.json", "1_Pooling/config.json"])
def test_companions_that_are_links_out_of_the_checkpoint_are_refused(name, source):
    (source / name).parent.mkdir(exist_ok=True)
    (source / name).unlink(missing_ok=True)
    (source / name).symlink_to(source.parent / "secret.json")
    with pytest.raises(CheckpointError, match="is a link out of the checkpoint; copy it there") as caught:
        export(source, source.parent / "out")
    assert str(source / name) in str(caught.value)
    assert sorted(path.name for path in source.parent.iterdir()) == ["secret.json", "source"]


def test_a_module_s_folder_that_is_a_link_out_is_refused(source):
    (source.parent / "private").mkdir()
    (source.parent / "private" / "config.json").write_text('{"key": "secret"}')
    (source / "1_Pooling").symlink_to(source.parent / "private")
    with pytest.raises(CheckpointError, match=r"1_Pooling/config\.json is a link out of the checkpoint"):
        export(source, source.parent / "out")


def test_links_within_the_checkpoint_and_to_weights_are_followed(source, bundle_of):
    """Large weights are often links to another disk; the target must be a safetensors file."""
    weights = source.parent / "large"
    (source / "model.safetensors").rename(weights)
    (source / "model.safetensors").symlink_to(weights)
    (source / "tokenizer.json").rename(source / "mine.json")
    (source / "tokenizer.json").symlink_to("mine.json")
    (source.parent / "link").symlink_to(source)
    export(source.parent / "link", source.parent / "out")
    for name in ("tokenizer.json", "onnx/model.onnx_data"):
        assert (source.parent / "out" / name).read_bytes() == (bundle_of("bert") / name).read_bytes()
    assert not any(path.is_symlink() for path in (source.parent / "out").rglob("*"))
    weights.write_text("secret")
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        export(source.parent / "link", source.parent / "other")


def cached(folder: Path, repository: Path) -> Path:
    """`folder` in the cache layout of the Hugging Face Hub; returns the snapshot's folder."""
    snapshot, blobs = repository / "snapshots" / "0123abc", repository / "blobs"
    blobs.mkdir(parents=True)
    for path in (path for path in folder.rglob("*") if path.is_file()):
        blob = blobs / hashlib.sha256(path.read_bytes()).hexdigest()
        shutil.copyfile(path, blob)
        link = snapshot / path.relative_to(folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    return snapshot


def test_a_downloaded_checkpoint_and_bundle_are_links_to_their_own_blobs(source, tmp_path):
    modules = [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
    (source / "modules.json").write_text(json.dumps(modules))
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    snapshot = cached(source, tmp_path / "hub" / "models--some--bert")
    assert all(path.is_symlink() for path in snapshot.rglob("*") if not path.is_dir())
    out = tmp_path / "out"
    export(snapshot, out)
    assert not any(path.is_symlink() for path in out.rglob("*"))
    assert (out / "1_Pooling" / "config.json").read_text() == '{"pooling_mode_mean_tokens": true}'
    expected = load(out, device="cpu").embed("the cat")
    downloaded = cached(out, tmp_path / "hub" / "models--some--bundle")
    assert np.array_equal(load(downloaded, device="cpu").embed("the cat"), expected)


def test_links_to_other_places_of_a_cache_lead_out(source, tmp_path):
    hub = tmp_path / "hub"
    snapshot = cached(source, hub / "models--some--bert")
    private = cached(source, hub / "models--my--private")
    config = snapshot / "config.json"
    assert not links_out(config, snapshot)
    for target in (private / "config.json", tmp_path / "secret.json"):
        config.unlink()
        config.symlink_to(target)
        with pytest.raises(CheckpointError, match=r"config\.json is a link out of the checkpoint"):
            export(snapshot, tmp_path / "out")
    blobs = hub / "models--some--bert" / "blobs"
    config.unlink()
    config.symlink_to("../../blobs/secret.json")
    shutil.rmtree(blobs)
    blobs.symlink_to(tmp_path)  # the name of a blob, in a folder that is not the cache's
    assert config.read_text() == '{"key": "secret"}'
    with pytest.raises(CheckpointError, match=r"config\.json is a link out of the checkpoint"):
        export(snapshot, tmp_path / "out")


@pytest.mark.parametrize("name", ["tokenizer.json", "onnx/model.onnx_data", "1_Pooling/config.json", "notes"])
def test_a_link_out_of_a_bundle_is_refused(name, bundle_of, tmp_path):
    out = shutil.copytree(bundle_of("bert"), tmp_path / "out")
    (out / name).parent.mkdir(exist_ok=True)
    if not (out / name).exists():
        (out / name).write_text("{}")
    assert bundle.read(out)
    (out / name).rename(tmp_path / "elsewhere")
    (out / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(
        BundleError, match=f"{name} is a link out of the bundle; replace it by the file that it links to"
    ):
        load(out)
    (out / name).unlink()
    (tmp_path / "elsewhere").rename(out / "there")
    (out / name).symlink_to(out / "there")
    assert bundle.read(out)
