"""verify also runs the graphs for other clients in sessions without options, as those clients do."""

import shutil

import pytest

from txexport.exporter import export
from txexport.verification import verify
from txexport.verification.checks import FORMAT_LOSS, FORMAT_LOSS_UNSET, UNSET_OPTIONS
from txexport.verification.losses import BUDGETS
from txexport.verification.reports.repeat import repeat_command

CASES = {"bert": ["three ragged rows, right padding"], "gpt2": ["three ragged rows in chunks"]}
CASES |= {"mixtral": ["one token, then steps"], "t5": ["one token, then steps"]}


@pytest.fixture
def exported(checkpoint_of, tmp_path):
    """A function from a family and dtypes to its bundle for other clients."""

    def get(family: str, *dtypes: str):
        export(checkpoint_of(family), tmp_path / "out", dtype=dtypes, only="hub")
        return tmp_path / "out"

    return get


@pytest.mark.parametrize("family", CASES)
def test_rows_of_integers_are_the_same_without_options(family, exported):
    folder = exported(family, "int8", "int8-fast", "float16")
    report = verify(folder, reference="transformers", cases=CASES[family])
    assert report.ok
    plain = [case for case in report.cases if case.name == UNSET_OPTIONS]
    assert {case.graphs for case in plain} == {"hub int8", "hub int8-fast", "hub float16"}
    assert all(check.error == 0 and check.elements for case in plain for check in case.checks)
    assert "--cases quick" in repeat_command(report, plain[0])


def test_blocks_lose_what_their_fast_sibling_may(exported):
    report = verify(exported("gpt2", "int4", "int4-fast"), reference="transformers", cases=CASES["gpt2"])
    assert report.ok
    losses = {(case.graphs, case.name): case.checks[0] for case in report.cases if case.is_loss}
    rounded, exact = losses["hub int4", FORMAT_LOSS_UNSET], losses["hub int4", FORMAT_LOSS]
    assert rounded.error != exact.error
    assert rounded.tolerance == BUDGETS["int4-fast"]["probability"]
    [same] = [case for case in report.cases if case.name == UNSET_OPTIONS]
    assert same.graphs == "hub int4-fast"
    # The fast sibling has the same integers, and rounds with and without options.
    assert losses["hub int4-fast", FORMAT_LOSS].error == pytest.approx(rounded.error, abs=1e-6)


def test_a_product_that_rounds_once_more_without_options_is_caught(exported):
    """An int4 graph in the place of the int8 one: only session options keep its activations from rounding."""
    folder = exported("gpt2", "int8", "int4")
    shutil.copyfile(folder / "onnx/model_q4.onnx", folder / "onnx/model_int8.onnx")
    report = verify(folder, reference="transformers", cases=CASES["gpt2"], allow_edited=True)
    [case] = [case for case in report.failed if case.name == UNSET_OPTIONS]
    assert case.graphs == "hub int8"
    assert max(check.error for check in case.checks) > 1e-3


def test_native_graphs_have_no_other_client(checkpoint_of, tmp_path):
    export(checkpoint_of("bert"), tmp_path / "out", dtype="int8", only="native")
    report = verify(tmp_path / "out", reference="transformers", cases=CASES["bert"])
    assert not {case.name for case in report.cases} & {UNSET_OPTIONS, FORMAT_LOSS_UNSET}
