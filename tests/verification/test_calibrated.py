"""verify of calibrated integers: taken from the bundle, and held to what calibration may choose, and no more.

Whoever changes them can write the new digests into txexport.json too; here that is done, so that the rules
alone are left to find it.
"""

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.bundle_edits import weights_path
from helpers.integer_mutations import SECOND, SQUARE, OfFile
from helpers.reports import SCHEMA, valid
from safetensors.numpy import load_file

import txexport
from txexport import bundle, families
from txexport.bundle.source import source_of
from txexport.checkpoints.checkpoint import read_header
from txexport.cli.main import main
from txexport.errors import BundleError
from txexport.exporter import export
from txexport.formats.gptq import calibrated as gptq
from txexport.formats.gptq import feedback, ties_alone
from txexport.formats.number_format import packed, unpacked
from txexport.verification import verify
from txexport.verification.checks import CALIBRATED, FORMAT_LOSS
from txexport.verification.reports.facts import facts_line
from txexport.verification.reports.views import graph_results

GRAPHS, WEIGHTS, FILES = "exported graphs", "every weight", "manifest and copied files"
TEXTS = [f"the cat sat on the mat {'and the dog ' * n}" for n in range(12)]
FEW = "three ragged rows, right padding"
FIRST = "encoder.layers.0.feed_forward.up.weight"
SHAPE = (100, 48)  # of FIRST and SECOND
BLOCK = 16


@pytest.fixture(scope="module")
def lines(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("texts") / "texts.txt"
    file.write_text("\n".join(TEXTS), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def bert(checkpoint_of, lines, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("calibrated") / "bert"
    export(checkpoint_of("bert"), folder, dtype="int4", texts=lines, only="native")
    return folder


@pytest.fixture
def copy(bert, tmp_path) -> Path:
    return Path(shutil.copytree(bert, tmp_path / "copy"))


def relisted(folder: Path) -> Path:
    """Have txexport.json say that the weights are as they lie there."""
    manifest = bundle.read_manifest(folder)
    data = {
        path: dataclasses.replace(one, sha256=hashlib.sha256((folder / path).read_bytes()).hexdigest())
        for path, one in manifest.data.items()
    }
    dataclasses.replace(manifest, data=data).write(folder / bundle.MANIFEST)
    return folder


def failures(folder: Path, *cases: str, **options) -> dict[str, list[str]]:
    """The cases that fail, with what fails in each, or why."""
    report = verify(folder, reference="twin", cases=[*cases], **options)
    return {
        case.name: [str(case.exception)]
        if case.exception
        else [check.output for check in case.checks if not check.ok]
        for case in report.failed
    }


@pytest.mark.parametrize(
    "family", ["bert", "gpt2", *(pytest.param(f, marks=pytest.mark.slow) for f in ("t5", "mixtral", "clip"))]
)
def test_calibrated_integers_are_proved(family, checkpoint_of, lines, tmp_path):
    """As those of the search are, and made again by their texts; the verdict says all of it."""
    export(checkpoint_of(family), tmp_path / "out", dtype=["float32", "int4"], texts=lines)
    report = verify(tmp_path / "out", cases="quick", texts=lines)
    assert [(case.name, case.summary) for case in report.failed] == []
    assert {"native int4", "hub int4"} <= {case.graphs for case in report.cases if case.name == FORMAT_LOSS}
    [held] = [case for case in report.cases if case.name == CALIBRATED]
    calibration = bundle.read(tmp_path / "out").form.calibrated["int4"]
    assert len(held.checks) > 5
    assert not {check.output.partition(", ")[2] for check in held.checks} & {*calibration.searched}
    assert {check.error for check in held.checks} == {0.0}
    assert (report.verdict, report.unproved) == ("equal", [])
    assert report.scope.endswith(", int4 calibrated again on its texts")
    left = f", {len(calibration.searched)} matrices not" if calibration.searched else ""
    assert facts_line(report).endswith(
        f"; int4 is calibrated by 12 texts of {calibration.tokens:,} tokens{left}: made again from its "
        "texts, every integer is the same"
    )
    valid(report.to_dict(), SCHEMA)
    assert bundle.read(tmp_path / "out").proof.scope == report.scope


def test_other_texts_calibrated_nothing(bert, tmp_path):
    file = tmp_path / "others.txt"
    file.write_text("the dog", encoding="utf-8")
    report = verify(bert, reference="twin", cases="quick", texts=file)
    assert (report.verdict, report.exit_code, report.ok) == ("not proved", 2, False)
    [held] = [case for case in report.cases if case.name == CALIBRATED]
    assert held.skipped == "others.txt has other texts than int4 came of"
    assert facts_line(report).endswith("to prove it, give the texts with --texts")


def test_the_command_says_so(bert, lines):
    result = CliRunner().invoke(
        main,
        ["verify", str(bert), "--cases", "quick", "--reference", "twin", "--texts", str(lines), "--quiet"],
    )
    assert result.exit_code == 0
    first, second = result.output.splitlines()
    assert first.endswith(", int4 calibrated again on its texts")
    assert "int4 is calibrated by 12 texts of " in second


@pytest.mark.parametrize("cases", ["quick", [FEW], [FEW, WEIGHTS]], ids=str)
def test_without_the_texts_nothing_is_proved(cases, bert, tmp_path):
    """Whoever wrote the bundle could have chosen either of two integers for each number."""
    report = verify(bert, reference="twin", cases=cases)
    assert report.failed == []
    assert (report.verdict, report.ok, report.exact, report.exit_code) == ("not proved", False, False, 2)
    assert report.scope.startswith("beside twin on onnxruntime cpu")
    assert graph_results(report)["onnx/model_native_q4.onnx"].startswith("not proved, ")
    values = report.to_dict()
    valid(values, SCHEMA)
    assert values["verdict"] == "not proved"
    if cases == "quick":
        assert bundle.read(bert).proof.verdict == "not proved"
        words = ["verify", str(bert), "--cases", "quick", "--reference", "twin", "--quiet"]
        result = CliRunner().invoke(main, [*words, "--report", str(tmp_path / "report.xml")])
        assert result.exit_code == 2
        assert "integers of int4 are calibrated on texts; to prove them, give the texts with --texts" in (
            tmp_path / "report.xml"
        ).read_text(encoding="utf-8")
        assert "not proved" in result.output


@pytest.mark.parametrize("share", [0.003, 0.02])
def test_a_plain_bundle_that_is_marked_calibrated_is_found_by_the_texts(
    share, checkpoint_of, lines, tmp_path
):
    """A few integers on the other side of their numbers, within every budget of loss."""
    export(checkpoint_of("bert"), tmp_path / "out", dtype="int4", texts=lines, only="native")
    further = unpacked(wrong_side(tmp_path / "out")(np.zeros(0, np.uint8)), SHAPE[::-1])
    chosen = np.random.default_rng(0).random(further.shape) < share
    OfFile("int4", SECOND, "", whole(lambda n: np.where(chosen, further, n)))(tmp_path / "out")
    relisted(tmp_path / "out")
    assert verify(tmp_path / "out", reference="twin", cases="quick").verdict == "not proved"
    report = verify(tmp_path / "out", reference="twin", cases="quick", texts=lines)
    assert report.verdict == "NOT EQUAL"
    assert [case.name for case in report.failed] == [CALIBRATED]
    assert [check.output for check in report.failed[0].checks if not check.ok] == [f"int4, {SECOND}"]


def test_ties_are_told_from_choices():
    """A choice that depends on another processor's last bits of H is a tie; an arbitrary choice is not."""
    random = np.random.default_rng(1)
    rows = random.standard_normal((60, 64)).astype(np.float32)
    vectors = random.standard_normal((512, 64)).astype(np.float32) @ random.standard_normal((64, 64))
    moments = (vectors.T @ vectors).astype(np.float32)
    factor = feedback(moments)
    given = gptq(rows, moments, factor, 16)
    others = [
        feedback(moments * (1 + np.float32(1e-6) * random.standard_normal(moments.shape))) for _ in range(9)
    ]
    made = [gptq(rows, moments, other, 16) for other in others]
    assert all(ties_alone(rows, given, other, 16) for other in [factor, *others])
    assert all(ties_alone(rows, one, factor, 16) for one in made)
    for place in ((0, 0), (7, 31), (59, 63)):
        low, high = given.copy(), given.copy()
        low[place], high[place] = max(0, given[place] - 1), min(15, given[place] + 1)
        wrong = [one for one in (low, high) if one[place] != given[place]]
        assert not all(ties_alone(rows, one, factor, 16) for one in wrong)


def block_of(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """A change of the integers of one block of one output: (16) of rows (100,48)."""

    def apply(bytes_: np.ndarray) -> np.ndarray:
        integers = unpacked(bytes_, SHAPE[::-1]).copy()  # (in,out)
        integers[BLOCK : 2 * BLOCK, 7] = change(integers[BLOCK : 2 * BLOCK, 7].astype(int)).clip(0, 15)
        return packed(integers.astype(np.uint8))

    return apply


def whole(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """A change of all integers (48,100)."""
    return lambda bytes_: packed(
        change(unpacked(bytes_, SHAPE[::-1]).astype(int)).clip(0, 15).astype(np.uint8)
    )


def one_scale(scales: np.ndarray) -> np.ndarray:
    """A block with the scale of the next one."""
    scales[1, 7] = scales[2, 7]
    return scales


def one_zero(zeros: np.ndarray) -> np.ndarray:
    """A zero point that is off by one."""
    zeros[0] = zeros[0] - 1 if zeros[0] & 15 else zeros[0] + 1
    return zeros


def swapped_nibbles(bytes_: np.ndarray) -> np.ndarray:
    return bytes_ >> 4 | bytes_ << 4


# What is changed -> whether its rule finds it in the smallest amount.
EDITS = {
    "swapped nibbles": ("", swapped_nibbles),
    "all one more": ("", whole(lambda n: n + 1)),
    "one block one less": ("", block_of(lambda n: n - 1)),
    "a block backwards": ("", block_of(lambda n: n[::-1])),
    "a block of zeros": ("", block_of(lambda n: n * 0 + 8)),
    "blocks exchanged": ("", whole(lambda n: np.roll(n, BLOCK, axis=0))),
    "outputs exchanged": ("", whole(lambda n: np.roll(n, 1, axis=1))),
    "inputs exchanged": ("", whole(lambda n: n[::-1])),
    "the other end": ("", whole(lambda n: 15 - n)),
    "one scale": ("scale", one_scale),
    "every scale": ("scale", lambda scales: np.roll(scales, 1, axis=0)),
    "a last bit of scales": ("scale", lambda scales: np.nextafter(scales, np.float32(9))),
    "one zero": ("zero", one_zero),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_named_by_its_matrix(name, copy):
    """The digests agree, and no texts are there: still what is not calibration's is found."""
    part, change = EDITS[name]
    OfFile("int4", SECOND, part, change)(copy)
    found = failures(relisted(copy), WEIGHTS, FILES)
    assert SECOND in found.pop(WEIGHTS)
    assert found == {}


def replaced(folder: Path, make: Callable[[str], bytes]) -> None:
    """Write other bytes in the places of SECOND's parts."""
    path = weights_path(folder)
    header = read_header(path)
    with path.open("r+b") as file:
        for part in ("", ".zero", ".scale"):
            file.seek(header[SECOND + part].offset)
            file.write(make(part))


def test_another_layer_s_matrix_is_named(copy):
    content, header = weights_path(copy).read_bytes(), read_header(weights_path(copy))

    def other(part: str) -> bytes:
        first = header[FIRST + part]
        return content[first.offset : first.offset + first.nbytes]

    replaced(copy, other)
    found = failures(relisted(copy), WEIGHTS, FILES, FEW)
    assert SECOND in found[WEIGHTS]
    assert FILES not in found


def test_a_layer_of_zeros_is_named(copy):
    """Integers that are their zero points, with scales as they were."""
    content, header = weights_path(copy).read_bytes(), read_header(weights_path(copy))
    place = header[f"{SECOND}.zero"]
    zeros = unpacked(np.frombuffer(content[place.offset :][: place.nbytes], np.uint8), (3, 100))
    OfFile("int4", SECOND, "", lambda bytes_: packed(np.repeat(zeros, BLOCK, axis=0)))(copy)
    assert SECOND in failures(relisted(copy), WEIGHTS)[WEIGHTS]


def test_integers_that_are_all_on_the_wrong_side_are_named(copy, lines):
    """Each alone could be calibration's choice; all of them are too far from the numbers together."""
    OfFile("int4", SECOND, "", wrong_side(copy))(copy)
    found = failures(relisted(copy), WEIGHTS)
    assert found == {WEIGHTS: [f"{SECOND}: rounding"]}


def wrong_side(folder: Path) -> Callable[[np.ndarray], np.ndarray]:
    """For each number of SECOND, of the two integers beside it the one that is further off."""
    checkpoint = source_of(folder, bundle.read(folder), None)
    rows = np.concatenate([*families.resolve(checkpoint).weights[SECOND].rows(checkpoint)])
    held = load_file(weights_path(folder))
    zeros = np.repeat(unpacked(held[f"{SECOND}.zero"], (3, 100)).astype(float), BLOCK, axis=0)
    places = rows.T / np.repeat(held[f"{SECOND}.scale"], BLOCK, axis=0)
    further = np.where(np.rint(places) == np.floor(places), np.ceil(places), np.floor(places))
    return lambda bytes_: packed((further + zeros).clip(0, 15).astype(np.uint8))


def test_what_may_differ_is_one_of_two_and_no_more(copy, lines):
    """The edits that nothing but texts can tell: some integers on the other side of their numbers."""
    further = wrong_side(copy)(np.zeros(0, np.uint8))
    some = unpacked(further, SHAPE[::-1])[:, :4]

    def change(integers: np.ndarray) -> np.ndarray:
        integers[::5, :4] = some[::5]
        return integers

    OfFile("int4", SECOND, "", whole(change))(copy)
    [[why]] = failures(copy, WEIGHTS, FILES).values()
    assert "is not the file that was exported" in why
    assert failures(relisted(copy), WEIGHTS, GRAPHS, FILES, FEW) == {}
    found = failures(relisted(copy), CALIBRATED, texts=lines)
    assert found == {CALIBRATED: [f"int4, {SECOND}"]}


def test_what_was_left_to_the_search_is_the_search_s(bert, copy):
    """A matrix that the texts did not calibrate is held bit by bit, and so is one that is said to be."""
    manifest = bundle.read_manifest(copy)
    one = manifest.form.calibrated["int4"]
    calibrated = {"int4": dataclasses.replace(one, searched=[*one.searched, SQUARE])}
    form = dataclasses.replace(manifest.form, calibrated=calibrated)
    dataclasses.replace(manifest, form=form).write(copy / bundle.MANIFEST)
    assert failures(copy, WEIGHTS) == {WEIGHTS: [SQUARE]}
    calibrated = {"int4": dataclasses.replace(one, searched=["encoder.embedding.word.weight"])}
    form = dataclasses.replace(manifest.form, calibrated=calibrated)
    dataclasses.replace(manifest, form=form).write(copy / bundle.MANIFEST)
    [[why]] = failures(copy, FILES).values()
    assert "encoder.embedding.word.weight is not searched in int4, which has no such matrix" in why


def test_integers_pass_for_calibrated_only_where_that_is_recorded(copy):
    manifest = bundle.read_manifest(copy)
    form = dataclasses.replace(manifest.form, calibrated={})
    dataclasses.replace(manifest, form=form).write(copy / bundle.MANIFEST)
    assert SECOND in failures(copy, WEIGHTS)[WEIGHTS]


def test_a_file_cut_short_is_told_as_of_any_bundle(copy):
    path = weights_path(copy)
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(BundleError, match=r"model_native_q4\.onnx cannot be loaded: "):
        failures(copy, WEIGHTS, FILES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"int8": {"texts": 1, "tokens": 1, "sha256": "", "searched": []}},
        {"int4": {"texts": "1", "tokens": 1, "sha256": "", "searched": []}},
        {"int4": {"texts": 1, "tokens": 1, "sha256": "", "searched": [1]}},
        {"int4": {"texts": 1}},
        {"int4": 3},
        [],
    ],
    ids=str,
)
def test_a_record_that_is_none_is_damage(wrong, copy):
    path = copy / bundle.MANIFEST
    values = json.loads(path.read_text())
    values["form"]["calibrated"] = wrong
    path.write_text(json.dumps(values))
    with pytest.raises(BundleError, match="is damaged"):
        txexport.load(copy)
