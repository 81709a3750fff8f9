"""The guide's KServe manifest is valid for KServe's own library, and names exported files."""

import pytest
from helpers.documents import blocks
from helpers.project import ROOT

from txexport.verification.clients.process import Call

CLIENT = "kserve"


@pytest.fixture
def manifest() -> str:
    """The manifest in the guide."""
    page = (ROOT / "docs/guides/scale.md").read_text(encoding="utf-8")
    [block] = [block for block in blocks(page) if block.language == "yaml"]
    return block.text


def test_the_manifest_is_of_kserves_schema(manifest, process, tmp_path):
    [answer] = process.ask(tmp_path, "none", [Call("service", options={"text": manifest})])
    assert answer["kind"] == ["serving.kserve.io/v1beta1", "InferenceService", "tagger"]
    assert (answer["format"], answer["protocol"]) == ("triton", "v2")
    assert answer["storage"].endswith("/triton-tagger")
    assert answer["unknown"] == []


def test_a_key_that_the_schema_does_not_have_is_found(manifest, process, tmp_path):
    """Else KServe's library would ignore it, and the test above could not fail."""
    text = manifest.replace("storageUri", "storageURL")
    [answer] = process.ask(tmp_path, "none", [Call("service", options={"text": text})])
    assert answer["unknown"] == [".spec.predictor.model.storageURL"]
