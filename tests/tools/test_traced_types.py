"""The table of traced types, and the tiny configurations behind it."""

import re
from importlib.metadata import version

import pytest
import torch
import traced_types
import transformers
from helpers.project import ROOT
from tiny_configs import tiny_config

from txexport import families

PAGE = (ROOT / "docs/reference/traced.md").read_text()
ROWS = re.findall(r"^\| (\S+) \| (\w+) \| (right|limited|refused|untried) \|", PAGE, re.M)
COUNTS = r"(\d+) were tried: (\d+) are right .*, (\d+) with limits, (\d+) are refused"


def test_the_page_counts_its_rows():
    outcomes = [outcome for _, _, outcome in ROWS]
    counted = re.search(COUNTS, " ".join(PAGE.split()))
    expected = [len(ROWS), *(outcomes.count(one) for one in ("right", "limited", "refused"))]
    assert [int(number) for number in counted.groups()] == expected


def test_the_page_lists_no_family():
    assert not {kind for kind, _, _ in ROWS} & set(families.names())


@pytest.mark.skipif(f"transformers {version('transformers')}," not in PAGE, reason="of other versions")
def test_the_page_lists_types_of_the_library_with_the_class_that_is_tried():
    assert {kind: one for kind, one, _ in ROWS}.items() <= traced_types.classes().items()


@pytest.mark.parametrize("kind", ["layoutlm", "persimmon", "poolformer", "diffllama", "deepseek_v32"])
def test_tiny_configurations_make_tiny_models(kind):
    config = tiny_config(kind)
    with torch.device("meta"):
        model = getattr(transformers, traced_types.classes()[kind])(config)
    assert sum(one.numel() for one in model.parameters()) < 2_000_000
    assert model.config.model_type == kind


def test_the_page_has_a_row_of_each_outcome():
    outcomes = {
        "one": {"architecture": "OneModel", "outcome": "right", "varied": ["batch_size"], "limits": {}},
        "two": {"architecture": "TwoModel", "outcome": "refused", "why": "a | b\nc"},
    }
    page = traced_types.page(outcomes)
    assert "| one | OneModel | right | batch\\_size |" in page
    assert "| two | TwoModel | refused | a \\| b c |" in page
    assert "2 were tried: 1 are right" in page
