"""A bundle from snapshot_download: every file is a link to a blob of the cache; other links are refused."""

import hashlib
import os
import shutil
from pathlib import Path

import httpx
import numpy as np
import onnxruntime
import pytest
from helpers.hub import serve
from helpers.serving import running
from huggingface_hub import snapshot_download

import txexport
from txexport import bundle
from txexport.errors import BundleError
from txexport.exporter import export, quantize
from txexport.verification import verify

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
SECRET = b'{"key": "secret"}'
OTHER = hashlib.sha256(SECRET).hexdigest()


@pytest.fixture
def downloaded(tmp_path, monkeypatch):
    """A function from a bundle's folder to the same in the hub's cache, where huggingface_hub put it."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)

    def get(folder: Path) -> Path:
        with serve({"org/model": folder}) as hub:
            result = Path(snapshot_download("org/model", endpoint=hub.url, cache_dir=tmp_path / "cache"))
        files = [path for path in result.rglob("*") if not path.is_dir()]
        assert len(files) == len(bundle.present(folder))
        assert all(path.is_symlink() for path in files)
        return result

    return get


def by_text(model) -> np.ndarray:
    """Vectors of texts."""
    return model.embed(["the cat", "a dog and a cat"], pooling="mean")


def by_tower(model) -> np.ndarray:
    """Vectors of texts for comparison with images."""
    return model.embed(["the cat", "a dog and a cat"])


def by_tokens(model) -> list:
    """Greedy tokens, of an encoder's or of a prompt."""
    return model.generate_ids([[5, 6, 7], [9]], max_new_tokens=6)


@pytest.mark.parametrize(
    ("family", "answer"), [("bert", by_text), ("gpt2", by_tokens), ("t5", by_tokens), ("clip", by_tower)]
)
def test_a_downloaded_bundle_is_run_and_proved(family, answer, bundle_of, checkpoint_of, downloaded):
    out = bundle_of(family)
    folder = downloaded(out)
    assert np.array_equal(
        answer(txexport.load(folder, device="cpu")), answer(txexport.load(out, device="cpu"))
    )
    report = verify(folder, source=checkpoint_of(family), cases="quick")
    assert report.ok, report.failed[:3]


@pytest.mark.parametrize("family", ["t5", "gpt2", pytest.param("bart", marks=pytest.mark.slow)])
def test_integers_behind_links_are_run_and_proved(family, integers_of, checkpoint_of, downloaded):
    out = integers_of(family)
    folder = downloaded(out)
    for dtype in ("int8", "int4"):
        models = [txexport.load(one, device="cpu", dtype=dtype) for one in (folder, out)]
        assert np.array_equal(*map(by_tokens, models))
    report = verify(folder, source=checkpoint_of(family), cases="quick")
    assert report.ok, report.failed[:3]


@pytest.mark.parametrize("family", ["t5", "whisper"])
def test_every_graph_for_other_clients_opens_behind_links(family, integers_of, downloaded):
    """ONNX Runtime opens no linked file for the weights of a branch, so that no branch has any."""
    folder = downloaded(integers_of(family))
    graphs = sorted(folder.glob("onnx/*.onnx"))
    assert len([path for path in graphs if "merged" in path.name]) == 2
    for path in graphs:
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def test_a_growing_cache_behind_links(bundle_of, downloaded):
    out = bundle_of("t5", "dynamic")
    assert np.array_equal(*(by_tokens(txexport.load(one, device="cpu")) for one in (downloaded(out), out)))


def test_a_downloaded_bundle_is_served(bundle_of, downloaded):
    folder = downloaded(bundle_of("clip"))
    with running({"small": folder}) as (url, _):
        answer = httpx.post(f"{url}/v1/embeddings", json={"model": "small", "input": "the cat"})
    expected = txexport.load(folder, device="cpu").embed("the cat")
    assert np.allclose(answer.json()["data"][0]["embedding"], expected, atol=1e-6)


def test_nothing_is_written_into_a_cache(bundle_of, checkpoint_of, downloaded):
    folder, source = downloaded(bundle_of("bert")), checkpoint_of("bert")
    said = r"holds links \(config\.json, .*\), as a model hub's cache does; copy the folder, and use the copy"
    with pytest.raises(BundleError, match=said):
        quantize(folder, "int8", source=source)
    with pytest.raises(BundleError, match=said):
        export(source, folder, force=True)
    assert bundle.read(folder)


def to(target: Path):
    """An attack: config.json of a snapshot links to `target`, below the cache's folder or anywhere."""

    def attack(snapshot: Path) -> None:
        (snapshot / "config.json").unlink()
        (snapshot / "config.json").symlink_to(target)

    return attack


def by_a_link_beside(snapshot: Path) -> None:
    """Through a link that is no part of the cache."""
    blob = os.path.realpath(snapshot / "config.json")
    (snapshot.parent / "way").symlink_to(blob)
    to(Path("../way"))(snapshot)


def by_a_folder_beside(snapshot: Path) -> None:
    """Through a link to the folder blobs."""
    name = Path(os.path.realpath(snapshot / "config.json")).name
    (snapshot.parent / "way").symlink_to("../blobs")
    to(Path("../way") / name)(snapshot)


def to_a_blob_that_is_a_link(snapshot: Path) -> None:
    """The link is the hub's, and its target is a link."""
    blob = Path(os.path.realpath(snapshot / "config.json"))
    blob.unlink()
    blob.symlink_to(snapshot.parent.parent.parent / "secret.json")


def to_blobs_elsewhere(snapshot: Path) -> None:
    """The cache's folder of blobs is a link itself."""
    blobs = snapshot.parent.parent / "blobs"
    blobs.rename(blobs.parent.parent / "elsewhere")
    blobs.symlink_to(blobs.parent.parent / "elsewhere")


def of_a_folder(snapshot: Path) -> None:
    """A folder of the bundle is a link to one of another revision."""
    shutil.copytree(snapshot / "onnx", snapshot.parent / "other" / "onnx")
    shutil.rmtree(snapshot / "onnx")
    (snapshot / "onnx").symlink_to("../other/onnx")


def of_a_folder_of_blobs(snapshot: Path) -> None:
    """A folder of the bundle is a link to a folder with the name of a blob."""
    blobs = snapshot.parent.parent / "blobs"
    shutil.copytree(snapshot / "onnx", blobs / OTHER, symlinks=False)
    shutil.rmtree(snapshot / "onnx")
    (snapshot / "onnx").symlink_to(f"../../blobs/{OTHER}")


@pytest.mark.parametrize(
    "attack",
    [
        to(Path("/etc/hostname")),
        to(Path("../../../secret.json")),
        to(Path("../../refs/main")),
        to(Path("../../blobs/secret.json")),
        to(Path("../../blobs/below") / OTHER),
        to(Path("../other/config.json")),
        to(Path(f"../../../models--my--private/blobs/{OTHER}")),
        by_a_link_beside,
        by_a_folder_beside,
        to_a_blob_that_is_a_link,
        to_blobs_elsewhere,
        of_a_folder,
        of_a_folder_of_blobs,
    ],
)
def test_other_links_of_a_snapshot_are_refused(attack, bundle_of, downloaded):
    snapshot = downloaded(bundle_of("bert"))
    repository = snapshot.parent.parent
    cache = repository.parent
    for place in (
        cache / "secret.json",
        cache / "models--my--private" / "blobs" / OTHER,
        repository / "blobs" / "secret.json",
        repository / "blobs" / "below" / OTHER,
        repository / "snapshots" / "other" / "config.json",
    ):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(SECRET)
    assert bundle.read(snapshot)
    attack(snapshot)
    for read in (txexport.load, verify):
        with pytest.raises(BundleError, match="is a link out of the bundle; replace it by its target"):
            read(snapshot)


def test_a_cache_of_another_name_is_followed_too(bundle_of, downloaded, tmp_path):
    """Only huggingface_hub's own is called models--ORGANISATION--NAME; others have the same layout."""
    snapshot = downloaded(bundle_of("bert"))
    moved = snapshot.parent.parent.rename(tmp_path / "hub")
    assert bundle.read(moved / "snapshots" / snapshot.name)
    (tmp_path / "alias").symlink_to(moved / "snapshots" / snapshot.name)
    assert bundle.read(tmp_path / "alias")
