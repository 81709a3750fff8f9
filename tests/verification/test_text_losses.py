"""verify --texts says what each number format loses of real answers, by what compare-dtypes measures."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.bundle_edits import weight_names
from helpers.integer_mutations import OfFile
from helpers.rows import CHOOSE, TAG, Row

import txexport
from txexport.cli.main import main
from txexport.dtype_comparison import accuracy
from txexport.errors import InputError
from txexport.exporter import export
from txexport.formats import DTYPES
from txexport.verification import verify
from txexport.verification.checks import FORMAT_LOSS_ON_TEXTS
from txexport.verification.losses import BUDGETS, OF_TEXTS
from txexport.verification.reports.facts import facts_line
from txexport.verification.reports.repeat import repeat_command

TEXTS = ["The cat sat on the mat.", "Where was Ada born?", "He sold three of them.", "It rains."]
ROWS = {
    "gpt2": "gpt2",
    "bert": "bert",
    "tag": Row("bert", "BertForTokenClassification", TAG),
    "choose": Row("bert", "BertForMultipleChoice", CHOOSE),
}
CASE = {"gpt2": "one token, then steps"}


@pytest.fixture(scope="module")
def made(checkpoint_of, tmp_path_factory):
    """A function from what a bundle does and dtypes to such a bundle of our graphs alone."""
    folders: dict[tuple, Path] = {}

    def get(what: str, *dtypes: str) -> Path:
        key = (what, *dtypes)
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp("texts") / "out"
            export(checkpoint_of(ROWS[what]), folders[key], dtype=dtypes, only="native")
        return folders[key]

    return get


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


def lost(folder: Path, texts: Path, what: str, **options):
    report = verify(
        folder,
        reference="twin",
        cases=[CASE.get(what, "three ragged rows, right padding")],
        texts=texts,
        **options,
    )
    return report, {case.graphs: case for case in report.cases if case.name == FORMAT_LOSS_ON_TEXTS}


def test_generators_lose_what_compare_dtypes_says(made, texts):
    folder = made("gpt2", "float32", "int8", "int4")
    report, cases = lost(folder, texts, "gpt2")
    assert report.ok
    assert cases.keys() == {"native int8", "native int4"}  # float32 loses nothing
    beside = txexport.compare_dtypes(folder, texts=TEXTS, device="cpu", rounds=1, max_new_tokens=32)
    for one in beside.dtypes[1:]:
        found = {check.output: check for check in cases[f"native {one.dtype}"].checks}
        assert found.keys() == {"perplexity", "tokens"}
        assert found["perplexity"].error == pytest.approx(max(0, one.accuracy[accuracy.CHANGE]), abs=1e-9)
        assert found["tokens"].error == pytest.approx(1 - one.accuracy[accuracy.GREEDY], abs=1e-9)
        assert {name: check.tolerance for name, check in found.items()} == {
            name: BUDGETS[one.dtype][name] for name in found
        }
        said = f"{one.dtype} loses {found['perplexity'].error:.2%} of perplexity"
        assert said in facts_line(report)
    assert cases["native int8"].reference == "float32"


@pytest.mark.parametrize(
    ("what", "measures"), [("bert", {"cosine", "neighbours"}), ("tag", {"answers"}), ("choose", {"answers"})]
)
def test_others_lose_what_their_answers_say(what, measures, made, texts):
    """Without float32 in the bundle, too: it is made of the checkpoint."""
    alone = {
        check.output: check.error for check in lost(made(what, "int4"), texts, what)[1]["native int4"].checks
    }
    assert alone.keys() == measures
    both = lost(made(what, "float32", "int4"), texts, what)[1]
    assert {check.output: check.error for check in both["native int4"].checks} == pytest.approx(
        alone, abs=1e-6
    )
    assert all(0 <= share <= 1 for share in alone.values())
    if what == "bert":
        assert alone["cosine"] > 1e-5


def test_perplexity_beyond_its_budget_is_not_equal(made, texts, tmp_path):
    """A word's scale made larger costs perplexity, and whoever says how much may be lost gets exit code 1."""
    folder = Path(shutil.copytree(made("gpt2", "float32", "int4"), tmp_path / "copy"))
    name = next(name for name in weight_names(folder) if name.endswith("mlp.weight") or "word.weight" in name)
    report, cases = lost(folder, texts, "gpt2", budget={"perplexity": 0.0, "tokens": 1.0})
    [check] = [check for check in cases["native int4"].checks if check.output == "perplexity"]
    assert check.ok == (check.error == 0)
    words = OfFile("int4", name.removesuffix(".scale"), "scale", lambda scales: scales * np.float32(40))
    path = folder / "onnx/model_q4.onnx_data"
    before = path.read_bytes()
    change(words, path)
    assert path.read_bytes() != before
    report, cases = lost(folder, texts, "gpt2", budget={"perplexity": 0.01})
    [check] = [check for check in cases["native int4"].checks if check.output == "perplexity"]
    assert check.error > 0.01
    assert not check.ok
    [case] = [case for case in report.failed if case.name == FORMAT_LOSS_ON_TEXTS]
    assert f"--texts {texts}" in repeat_command(report, case)
    arguments = ["verify", str(folder), "--reference", "twin", "--case", CASE["gpt2"], "--texts", str(texts)]
    result = CliRunner().invoke(main, [*arguments, "--budget", "perplexity=0.01"])
    assert result.exit_code == 1  # its numbers are wrong too
    assert "lost on texts" in result.output


def change(one: OfFile, path: Path) -> None:
    """Change a part of a parameter in a file that is not the bundle's first."""
    from safetensors import safe_open

    from txexport.checkpoints.checkpoint import read_header

    part = f"{one.parameter}.{one.part}"
    with safe_open(path, "np") as file:
        numbers = one.change(file.get_tensor(part))
    with path.open("r+b") as file:
        file.seek(read_header(path)[part].offset)
        file.write(np.ascontiguousarray(numbers).tobytes())


def test_too_few_texts_to_choose_from_are_told(made, tmp_path):
    path = tmp_path / "two.txt"
    path.write_text("\n".join(TEXTS[:2]), encoding="utf-8")
    with pytest.raises(InputError, match="2 texts are too few for multiple choice, expected 3 or more"):
        lost(made("choose", "int4"), path, "choose")


def test_a_text_that_no_score_can_be_given_is_told(made, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("cat " * 60, encoding="utf-8")
    _, cases = lost(made("gpt2", "int8"), path, "gpt2")
    assert str(cases["native int8"].skipped).endswith("tokens, and the model takes 40; cut it")


def test_every_dtype_has_every_budget():
    assert BUDGETS.keys() == DTYPES.keys() - {"float32"}
    assert {frozenset(of) for of in BUDGETS.values()} == {frozenset(BUDGETS["int8"])}
    assert OF_TEXTS.keys() <= BUDGETS["int8"].keys()
