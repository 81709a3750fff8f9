"""The hub of other tests behaves as one for huggingface_hub."""

from pathlib import Path

import pytest
from helpers.hub import serve
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

NAME = "org/model"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with one small repository."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    folder = tmp_path / "repository"
    (folder / "onnx").mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    (folder / "onnx/model.onnx_data").write_bytes(bytes(range(256)) * 10_000)
    with serve({NAME: folder}) as result:
        yield result


def test_files_arrive_once_and_whole(hub, tmp_path):
    api, where = HfApi(endpoint=hub.url), {"endpoint": hub.url, "cache_dir": tmp_path / "cache"}
    assert api.list_repo_files(NAME) == ["config.json", "onnx/model.onnx_data"]
    path = hf_hub_download(NAME, "onnx/model.onnx_data", **where)
    assert Path(path).read_bytes() == bytes(range(256)) * 10_000
    hub.requests.clear()
    folder = snapshot_download(NAME, **where)
    assert path.startswith(folder)
    bodies = [
        request.path for request in hub.requests if request.method == "GET" and "resolve" in request.path
    ]
    assert bodies == [f"/{NAME}/resolve/{api.model_info(NAME).sha}/config.json"]


def test_tree_and_sizes(hub):
    api = HfApi(endpoint=hub.url)
    assert {part.path for part in api.list_repo_tree(NAME)} == {"config.json", "onnx"}
    [file] = api.list_repo_tree(NAME, "onnx")
    assert (file.path, file.size, file.lfs.size) == ("onnx/model.onnx_data", 2_560_000, 2_560_000)
    assert [part.path for part in api.get_paths_info(NAME, ["config.json", "none"])] == ["config.json"]
    assert api.file_exists(NAME, "config.json")
    assert not api.file_exists(NAME, "onnx/model.onnx")


def test_what_is_not_there_is_refused_as_a_hub_does(hub, tmp_path):
    where = {"endpoint": hub.url, "cache_dir": tmp_path}
    with pytest.raises(EntryNotFoundError):
        hf_hub_download(NAME, "onnx/model.onnx", **where)
    with pytest.raises(RevisionNotFoundError):
        hf_hub_download(NAME, "config.json", revision="other", **where)
    with pytest.raises(RepositoryNotFoundError):
        hf_hub_download("org/none", "config.json", **where)
