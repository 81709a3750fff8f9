"""The recipes of the shipped checkpoints: what they learn from, what is held out, and that they run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import _library
import completer
import numpy as np
import pytest
import translator
from num2words import num2words

ROOT = Path(__file__).parent.parent
RECIPES = ROOT / "tools/train"
PRETRAINED = ROOT / "models/pretrained"


def test_numbers_held_out_are_none_of_those_learned():
    lines = (PRETRAINED / "number-translator/heldout.jsonl").read_text(encoding="utf-8").splitlines()
    drawn = translator.numbers(np.random.default_rng(5), 20_000)
    learned = {num2words(number) for number in drawn if not translator.held_out(number)}
    assert not learned & {json.loads(line)["english"] for line in lines}
    assert len(learned) > 5000
    assert 0.03 < np.mean([translator.held_out(number) for number in drawn if number >= 1000]) < 0.07
    assert {number % 10 for number in drawn if translator.held_out(number)} == set(range(10))


def test_every_number_of_digits_is_as_frequent():
    digits = [len(str(number)) for number in translator.numbers(np.random.default_rng(5), 9000)]
    assert max(abs(np.bincount(digits)[1:] - 1000)) < 5 * 1000**0.5


def test_library_is_split_by_file():
    names = list(_library.sources())
    assert len(names) > 200
    assert all(not name.startswith(("test/", "site-packages/")) for name in names)
    share = np.mean([_library.held_out(name) for name in names])
    assert 0.02 < share < 0.09


def test_trigram_knows_what_it_has_seen():
    train = np.array([1, 2, 3, 4] * 50 + [7, 2, 3, 5])
    windows = np.array([[1, 2, 3, 4], [1, 2, 3, 9]])
    seen, unseen = np.exp(completer.trigram(train, windows))
    assert seen[2] > 0.95
    assert 0 < unseen[2] < 0.01
    every = np.array([[1, 2, word] for word in range(completer.VOCAB)])
    assert np.exp(completer.trigram(train, every)[:, 1]).sum() == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["translator", "completer"])
def test_recipe_runs_and_goes_on_after_a_kill(recipe, tmp_path):
    """Whole, from a clean folder: a checkpoint that the library loads, and the same one after a kill."""

    def command(folder, *more):
        return [sys.executable, str(RECIPES / f"{recipe}.py"), str(folder), "--steps", "40", *more]

    subprocess.run(command(tmp_path / "whole"), check=True, capture_output=True)
    hurried = dict(os.environ, PYTHONPATH=str(RECIPES))
    code = f"import _loop, {recipe}; _loop.SAVE_SECONDS = 0; {recipe}.main()"
    killed = [sys.executable, "-c", code, str(tmp_path / "killed"), "--steps", "40"]
    with subprocess.Popen(killed, stdout=subprocess.PIPE, env=hurried, text=True) as process:
        while not (tmp_path / "killed.part/training.pt").exists():
            assert process.poll() is None
        process.kill()
    assert not (tmp_path / "killed").exists()
    subprocess.run(command(tmp_path / "killed"), check=True, capture_output=True)
    one, two = (tmp_path / name / "model.safetensors" for name in ("whole", "killed"))
    assert one.read_bytes() == two.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "whole"]
