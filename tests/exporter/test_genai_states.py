"""Settings of onnxruntime-genai for decoders with states."""

import json
import shutil

import pytest

from txexport.exporter import export
from txexport.exporter.genai import GENAI


@pytest.fixture
def settings_of(checkpoint_of, tmp_path):
    """A function from a family to its genai_config.json, where generation_config.json asks for beams."""

    def get(family: str) -> dict:
        shutil.copytree(checkpoint_of(family), tmp_path / "in")
        file = tmp_path / "in/generation_config.json"
        values = json.loads(file.read_text()) | {"num_beams": 3, "top_k": 7}
        file.write_text(json.dumps(values))
        export(tmp_path / "in", tmp_path / "out", only="hub")
        return json.loads((tmp_path / "out" / GENAI).read_text())

    return get


@pytest.mark.parametrize(
    ("family", "kind", "recurrence"),
    [
        ("qwen3_next", "decoder", "past_recurrent.%d"),
        ("granitemoehybrid", "decoder", "past_ssm.%d"),
        ("mamba", "decoder", "past_ssm.%d"),
        ("qwen3_5", "qwen3_5", "past_recurrent.%d"),
    ],
)
def test_a_recurrence_has_a_name_and_no_beams(family, kind, recurrence, settings_of):
    """onnxruntime-genai's beam search does not reorder such states."""
    settings = settings_of(family)
    assert settings["model"]["type"] == kind
    names = settings["model"]["decoder"]["inputs"]
    assert (names["past_conv_names"], names["past_recurrent_names"]) == ("past_conv.%d", recurrence)
    assert settings["search"]["top_k"] == 7
    assert "num_beams" not in settings["search"]


def test_convolutions_alone_have_beams(settings_of):
    settings = settings_of("lfm2")
    assert settings["model"]["type"] == "lfm2"
    assert settings["model"]["decoder"]["layer_types"] == ["conv", "full_attention", "conv", "conv"]
    assert "past_recurrent_names" not in settings["model"]["decoder"]["inputs"]
    assert settings["search"]["num_beams"] == 3
