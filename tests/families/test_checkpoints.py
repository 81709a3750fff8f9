"""The page of popular checkpoints gives each one's status: a user who finds a name there can rely on it."""

import json

import pytest
from documentation.tables import shown
from helpers.checkpoints import FILE, Published, checkpoints_table, published, save

from txexport import families
from txexport.errors import UnsupportedError
from txexport.exporter import export

# Checkpoints with features of no row: older names of values, and code of their own.
QUICK = (
    *("deepseek-ai/deepseek-coder-6.7b-instruct", "microsoft/Phi-4-mini-instruct", "openai/gpt-oss-120b"),
    *("google/embeddinggemma-300m", "microsoft/deberta-v3-base", "tiiuae/falcon-rw-1b"),
    *("nomic-ai/nomic-embed-text-v1", "jinaai/jina-embeddings-v2-base-en"),
    "answerdotai/answerai-colbert-small-v1",
)
ALIKE = list({one.like: one for one in reversed(published())}.values())


def params() -> list:
    return [
        pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.slow) for one in ALIKE
    ]


@pytest.mark.parametrize("one", params())
def test_what_becomes_of_a_checkpoint(one: Published, tmp_path):
    save(one, tmp_path / "in")
    if one.reason is None:
        assert export(tmp_path / "in", tmp_path / "out", only="native").task == one.task
    else:
        with pytest.raises(UnsupportedError) as refused:
            export(tmp_path / "in", tmp_path / "out", only="native")
        assert "\n" not in str(refused.value)


def test_page_has_them_all():
    assert shown("checkpoints") == checkpoints_table()


def test_no_family_is_called_unsupported():
    """When a family is added, remove its line from not_taken; `tools/docs checkpoints` writes the page."""
    assert set(json.loads(FILE.read_text(encoding="utf-8"))["not_taken"]).isdisjoint(families.names())


def test_quick_ones_are_among_them():
    assert set(QUICK) <= {one.name for one in ALIKE}
