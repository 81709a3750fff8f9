"""Diverse beam search: tokens and scores are those of transformers 4.55, recorded by group_beams.py."""

import json

import pytest
from helpers.group_beams import CASES, FILE, MODELS, NEW, PROMPTS, make

from txexport.exporter import export
from txexport.runtime import load

EXPECTED = json.loads(FILE.read_text())


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    """A function from a model_type and a cache to its model."""
    checkpoints, made = {}, {}

    def get(model_type: str, cache: str):
        if model_type not in checkpoints:
            checkpoints[model_type] = tmp_path_factory.mktemp("checkpoint")
            make(model_type).save_pretrained(checkpoints[model_type])
        if (model_type, cache) not in made:
            folder = tmp_path_factory.mktemp("bundle") / "out"
            export(checkpoints[model_type], folder, cache=cache)
            made[model_type, cache] = load(folder, device="cpu", threads=1)
        return made[model_type, cache]

    return get


@pytest.mark.parametrize("cache", ["static", "dynamic"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model_type", MODELS)
def test_groups_of_beams_and_their_scores_equal_transformers(model_type, case, cache, model_of):
    wanted, options = EXPECTED[model_type][case], dict(CASES[case])
    ends = {"eos_token_id": EXPECTED[model_type]["end"], "pad_token_id": 1}
    found = model_of(model_type, cache).generate_with_scores(PROMPTS, max_new_tokens=NEW, **ends, **options)
    copies = options.get("num_return_sequences", 1)
    for i, expected in enumerate(wanted):
        mine = found[i * copies : (i + 1) * copies]
        assert [one.tokens for one in mine] == expected["rows"]
        assert [one.score for one in mine] == pytest.approx(expected["scores"], rel=1e-5, abs=1e-5)


def test_the_recorded_rows_end_at_different_times():
    rows = [
        row for cases in EXPECTED.values() for case in CASES for one in cases[case] for row in one["rows"]
    ]
    assert len({len(row) for row in rows}) > 5


def test_a_checkpoints_own_groups_are_honoured(model_of, tmp_path):
    model = model_of("gpt2", "static")
    options = CASES["two groups"] | {"max_new_tokens": NEW, "eos_token_id": 5, "pad_token_id": 1}
    wanted = model.generate_with_scores(PROMPTS, **options)
    folder = model.folder
    path = folder / "generation_config.json"
    before = path.read_text()
    try:
        path.write_text(json.dumps(options))
        model = load(folder, device="cpu", threads=1, check=False)
        assert [one.score for one in model.generate_with_scores(PROMPTS)] == [one.score for one in wanted]
        assert [one.score for one in model.generate_with_scores(PROMPTS, num_beam_groups=1)] != [
            one.score for one in wanted
        ]
    finally:
        path.write_text(before)


def test_a_penalty_without_groups_is_said(model_of):
    with pytest.warns(UserWarning, match="diversity_penalty changes nothing without num_beam_groups above 1"):
        model_of("gpt2", "static").generate_with_scores(
            PROMPTS, num_beams=2, diversity_penalty=0.5, max_new_tokens=2
        )
