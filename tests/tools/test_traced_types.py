"""The table of traced types, and the tiny configurations behind it."""

import re
from importlib.metadata import version

import pytest
import tiny_numbers
import torch
import traced_page
import traced_types
import transformers
from tiny_configs import tiny_config
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from txexport import families

PAGE = traced_page.PAGE.read_text()
RECORD = traced_page.record()
OUTCOMES = ("right", "limited", "refused", "untried", "open")
ROWS = re.findall(rf"^\| (\S+) \| (\w+) \| ({'|'.join(OUTCOMES)}) \|", PAGE, re.M)
COUNTS = dict(re.findall(r"^\| (\w+) \| (\d+) \|", PAGE, re.M))
OF_RECORD = pytest.mark.skipif(
    version("transformers") != RECORD["versions"]["transformers"], reason="of other versions"
)


def test_the_page_counts_its_rows():
    outcomes = [outcome for _, _, outcome in ROWS]
    expected = {one: str(outcomes.count(one)) for one in OUTCOMES}
    assert {"authored": str(len(families.names()))} | expected == COUNTS


@OF_RECORD
def test_the_page_is_what_the_record_makes():
    """`tools/traced_types.py --write` writes it, after a new family too."""
    assert traced_types.written() == PAGE


@OF_RECORD
def test_every_type_of_the_library_is_a_family_or_has_a_row_or_is_a_part():
    kinds = {kind for kind, _, _ in ROWS}
    assert {kind: one for kind, one, _ in ROWS} == traced_types.classes()
    assert not kinds & set(families.names())
    assert not (tiny_numbers.NUMBERS.keys() | RECORD["types"].keys()) & set(families.names())
    assert kinds | set(families.names()) | set(traced_types.parts()) == set(CONFIG_MAPPING_NAMES)
    assert set(MODEL_MAPPING_NAMES) <= kinds | set(families.names())


@pytest.mark.parametrize(
    "kind", ["bros", "persimmon", "poolformer", "diffllama", "deepseek_v32", "mimi", "zoedepth"]
)
def test_tiny_configurations_make_tiny_models(kind):
    config = tiny_config(kind)
    with torch.device("meta"):
        model = getattr(transformers, traced_types.classes()[kind])(config)
    assert sum(one.numel() for one in model.parameters()) < 2_000_000
    assert model.config.model_type == kind


def test_tiny_widths_that_belong_together_still_do():
    convolutions = tiny_config("hgnet_v2")
    assert convolutions.stem_channels[-1] == convolutions.stage_in_channels[0] < 48
    assert convolutions.stage_in_channels[1:] == convolutions.stage_out_channels[:-1]
    detector = tiny_config("d_fine")
    assert detector.encoder_in_channels == detector.backbone_config.stage_out_channels[1:]
    assert detector.decoder_in_channels == [detector.d_model] * 3
    codec = tiny_config("mimi")
    assert codec.upsample_groups == codec.hidden_size == 32
    speaker = tiny_config("pocket_tts")
    assert speaker.flow_head_config.condition_dim == speaker.hidden_size


def test_tiny_rotary_sections_are_half_a_head():
    config = tiny_config("cosmos3_edge_text")
    assert sum(config.rope_parameters["mrope_section"]) == config.head_dim // 2


def test_tiny_layers_have_one_of_each_kind():
    config = tiny_config("hy_v4_vl_text")
    assert config.indexer_types == ["full", "shared"]
    assert config.mlp_layer_types == ["dense", "sparse"]
    assert tiny_config("mistral_large4_text").kv_source_layers == [0, 1]


def test_encoder_decoders_of_texts_are_tried_as_such_and_others_by_their_base_class():
    classes = traced_types.classes()
    assert classes["led"] == "LEDForConditionalGeneration"
    assert classes["persimmon"] == "PersimmonForCausalLM"
    assert classes["aya_vision"] == "AyaVisionModel"
    assert classes["aya_vision"] == "AyaVisionModel"
    assert classes["zoedepth"] == "ZoeDepthForDepthEstimation"
    assert "bert" not in classes


def test_a_page_has_a_row_of_each_outcome():
    outcomes = {
        "one": {"architecture": "OneModel", "outcome": "right", "varied": ["batch_size"], "limits": {}},
        "two": {"architecture": "TwoModel", "outcome": "refused", "why": "a | b\nc"},
        "bert": {"architecture": "BertModel", "outcome": "right", "varied": [], "limits": {}},
    }
    classes = {"one": "OneModel", "two": "TwoModel", "three": "ThreeModel"}
    page = traced_page.page({"versions": {"torch": "1"}, "types": outcomes}, classes, ["bert"], ["four_text"])
    assert "| one | OneModel | right | batch\\_size |" in page
    assert "| two | TwoModel | refused | a \\| b c |" in page
    assert "| three | ThreeModel | open | a small model runs |" in page
    assert "| bert |" not in page
    assert "| right | 1 |" in page
    assert "of the 4 model types" in page
    assert "**Authored (1)**: `bert`." in page
    assert "no auto class opens (1)**: `four_text`." in page
