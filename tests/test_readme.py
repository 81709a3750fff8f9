"""The README is short and begins with a stranger's questions; tables of docs/ are made by the tests."""

import json
import re
import runpy

from documentation import task_table
from documentation.tables import shown
from helpers.project import ROOT
from helpers.rows import ROWS, families_table

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_is_a_page_that_one_reads():
    assert len(README.splitlines()) <= 150
    assert max(map(len, README.split("```")[0].splitlines())) <= 120


def test_install_stands_before_the_first_command():
    assert README.index("## Install") < README.index("```console")
    assert README.index("licence") < README.index("```console")


def test_links_lead_to_files():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert len(links) > 15
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_table_of_families_is_that_of_the_rows():
    assert shown("rows") == families_table()


def test_table_of_tasks_is_that_of_the_library():
    assert shown("tasks") == task_table.table()


def test_every_family_is_named():
    """By its usual name, without hyphens and capitals; a close variant by its parent's."""
    plain = re.sub(r"[\W_]", "", README.split("## What can be exported")[1].split("##")[0]).lower()
    other = {
        "openai-gpt": "gpt",
        "cohere": "commandr",
        "cohere2": "commandr",
        "sam2_video": "sam2",
        "gemma3_text": "gemma3",
        "gemma3n_text": "gemma3n",
        "gemma4_text": "gemma4",
    }
    other |= {"clip_text_model": "clip", "clip_vision_model": "clip", "blenderbot-small": "blenderbot"}
    other |= {"modernbert-decoder": "modernbert", "roberta-prelayernorm": "roberta"}
    other |= {"xlm-roberta-xl": "xlmroberta", "siglip_text_model": "siglip", "siglip_vision_model": "siglip"}
    other |= {"speech_to_text": "speech2text"}
    other |= {"dinov3_vit": "dinov3", "data2vec-text": "data2vec", "hunyuan_v1_dense": "hunyuan"}
    other |= {"donut-swin": "donut", "granitemoehybrid": "granite4", "lfm2_moe": "lfm2"}
    other |= dict.fromkeys(("qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"), "qwen35")
    other |= {"deberta-v2": "deberta", "deepseek_v2": "deepseekv2", "data2vec-audio": "data2vec"}
    for row in ROWS:
        assert re.sub(r"[\W_]", "", other.get(row.model_type, row.model_type)) in plain


def test_table_of_clients_is_that_of_their_results():
    results = runpy.run_path(str(ROOT / "tools/clients/results.py"))
    assert shown("clients") == results["table"](json.loads(results["RESULTS"].read_text(encoding="utf-8")))


def test_table_of_speed_is_that_of_the_records():
    measured = runpy.run_path(str(ROOT / "tools/bench/measured.py"))
    assert shown("measured") == measured["tables"]()
