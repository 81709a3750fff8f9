"""Output fits the terminal; a pipe gets all of it."""

import io
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner
from helpers.reports import hostile
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from txexport import families
from txexport.cli import console
from txexport.cli.main import main
from txexport.support.terminal import Column, FittedTable, Notes, folded, number
from txexport.verification import CaseReport, Report, TensorCheck
from txexport.verification.reports import table

WEIGHT = "decoder.layers.31.feed_forward.experts.127.gate.weight"
MESSAGE = f"RuntimeError: node 'split' of {WEIGHT} " + "cannot be reshaped to what is asked of it, " * 20


def lines_of(*shown, width: int) -> list[str]:
    target = Console(width=width, file=io.StringIO(), highlight=False)
    target.print(*shown)
    return [line.rstrip() for line in target.file.getvalue().splitlines()]


def report(runtimes: tuple[str, ...] = ("onnxruntime",)) -> Report:
    """Cases that passed, that failed, that raised the same twice, and that were skipped."""
    good, bad = TensorCheck("logits", 9, 1e-7, 1e-5), TensorCheck(WEIGHT, 9, 2.0, 1e-5)
    cases = []
    for runtime in runtimes:
        for reference in ("twin", "transformers"):
            cases += [
                CaseReport("two equal rows, several tokens a step", reference, [good], runtime=runtime),
                CaseReport("three ragged rows, right padding", reference, [bad, good], runtime=runtime),
                CaseReport("one token", reference, exception=MESSAGE, runtime=runtime),
                CaseReport("left padding", reference, skipped="a cache pads on the right", runtime=runtime),
            ]
    return Report("bundle", "mixtral", "text-generation", "onnxruntime cpu", {}, cases)


@pytest.mark.parametrize("width", [80, 60])
def test_a_report_stays_a_table_and_its_messages_stand_below(width):
    lines = lines_of(table.render(report()), width=width)
    assert max(map(cell_len, lines)) <= width
    start = next(n for n, line in enumerate(lines) if line.startswith(" case"))
    end = start + lines[start:].index("")
    rows = lines[start + 2 : end]
    assert [row for row in rows if row.startswith(" against: ")] == [
        " against: twin",
        " against: transformers",
    ]
    assert len([row for row in rows if row.endswith("FAILED")]) == 4
    assert len([row for row in rows if row.endswith("ok")]) == 2
    assert len(rows) <= 2 + 8 * (2 if width == 80 else 5)
    notes = " ".join(lines[end + 1 :])
    assert notes.count("(1) RuntimeError: node 'split'") == 1
    assert notes.count("(2) a cache pads on the right") == 1
    assert len([row for row in rows if "(1)" in row]) == len([row for row in rows if "(2)" in row]) == 2
    assert "".join(MESSAGE.split()) in "".join(notes.split())


def test_a_pipe_gets_whole_names_and_messages():
    lines = lines_of(table.render(report()), width=console.ENDLESS)
    row = next(line for line in lines if line.startswith(" three ragged rows"))
    cells = [" three ragged rows, right padding", "twin", WEIGHT, "2e+00", "FAILED"]
    assert re.split(" {3,}", row) == cells
    assert f"(1) {MESSAGE.strip()}" in lines


@pytest.mark.parametrize("width", [80, 60, 40])
def test_runtimes_that_do_not_fit_go_on_in_a_table_below(width):
    names = ("onnxruntime", "onnxruntime-unoptimized", "reference", "openvino", "node", "web")
    lines = lines_of(table.render(report(names)), width=width)
    heads = [n for n, line in enumerate(lines) if line.startswith(" case")]
    assert max(map(cell_len, lines)) <= width
    assert len(heads) == {80: 2, 60: 4, 40: 7}[width]
    titles = " ".join(" ".join(lines[n : n + 2]) for n in heads)
    assert all(part in titles for name in names for part in name.replace("-", "- ").split())
    numbers = [
        word for line in lines[heads[0] :] for word in line.split() if re.fullmatch(r"\de[+-]\d\d", word)
    ]
    assert numbers.count("1e-07") == numbers.count("2e+00") == len(names) * 2
    assert sum(line.startswith(tuple(f"({n}) " for n in range(1, 13))) for line in lines) == 2 * len(names)


def test_texts_break_after_parts_of_names_and_are_cut_where_there_are_none():
    assert folded("onnx/decoder_model_merged.onnx is off", 16) == [
        "onnx/decoder_",
        "model_merged.",
        "onnx is off",
    ]
    assert folded("ab " + "x" * 20, 8) == ["ab", "xxxxxxxx", "xxxxxxxx", "xxxx"]
    assert folded("日本語のモデル", 5) == ["日本", "語の", "モデ", "ル"]
    assert folded("", 5) == [""]
    text = "past_key_values.31.decoder.key of a/b-c: 1, and more"
    for width in range(1, 60):
        lines = folded(text, width)
        assert max(map(cell_len, lines)) <= width
        assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_column_gives_way_where_fewest_cells_break():
    shown = FittedTable("case", "output", number("error"))
    for _ in range(5):
        shown.add_row("a case of some forty characters, no less", "logits", "1e-07")
    shown.add_row("short", WEIGHT, "1e-07")
    lines = lines_of(shown, width=80)
    assert sum("no less   logits" in line for line in lines) == 5
    assert max(map(cell_len, lines)) <= 80


def test_what_rows_have_in_common_stands_above_them_only_where_it_does_not_fit():
    shown = FittedTable(Column("text", apart=True), "label", number("score"))
    shown.add_row("word " * 30, "CODE", "0.9926")
    shown.add_row("", "CODE", "0.9781")
    wide, narrow = lines_of(shown, width=400), lines_of(shown, width=60)
    assert sum(line.startswith(" text: word word") for line in narrow) == 1
    assert sum(line.startswith(" text: ") for line in wide) == 0
    assert [line.split() for line in narrow if "0.9" in line] == [["CODE", "0.9926"], ["CODE", "0.9781"]]
    assert any(line.split()[-2:] == ["CODE", "0.9926"] and line.count("word") == 30 for line in wide)


def test_notes_are_told_once():
    notes = Notes()
    assert [notes.mark(text) for text in ("a", "b", "a")] == ["(1)", "(2)", "(1)"]
    assert [line.plain for line in notes.lines()] == ["(1) a", "(2) b"]


def test_a_pipe_is_as_wide_as_what_is_written_unless_columns_are_said(monkeypatch):
    long = "x " * 500
    monkeypatch.delenv("COLUMNS", raising=False)
    target = console.Console(file=io.StringIO())
    target.print(Text(long))
    assert target.file.getvalue().rstrip() == long.rstrip()
    monkeypatch.setenv("COLUMNS", "70")
    assert console.Console(file=io.StringIO()).width == 70
    monkeypatch.delenv("COLUMNS")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert console.Console(file=Terminal()).width < console.ENDLESS


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("model_type", ["t5", "mixtral", "clip"])
def test_inspect_fits(model_type, width, bundle_of, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    output = CliRunner().invoke(main, ["inspect", str(bundle_of(model_type))]).output
    assert max(map(cell_len, output.splitlines())) <= width
    assert "…" not in output
    monkeypatch.delenv("COLUMNS")
    whole = CliRunner().invoke(main, ["inspect", str(bundle_of(model_type))]).output
    assert "".join(sorted(re.sub(r"[\s─]", "", whole))) == "".join(sorted(re.sub(r"[\s─]", "", output)))


def test_families_fit(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    output = CliRunner().invoke(main, ["families"]).output
    assert max(map(cell_len, output.splitlines())) <= 60
    assert output.count("starcoder2") == len(families.module("starcoder2").TASKS)
    monkeypatch.delenv("COLUMNS")
    whole = CliRunner().invoke(main, ["families"]).output
    assert sum(line.startswith(" text-generation ") and " starcoder2" in line for line in whole.splitlines())


@pytest.mark.parametrize("width", [200, 60, 20])
@pytest.mark.parametrize("several", [True, False])
def test_hostile_names_fit(several, width):
    shown = hostile()
    if not several:
        shown = replace(shown, cases=[replace(case, runtime=None) for case in shown.cases])
    lines = lines_of(table.render(shown), width=width)
    assert max(map(cell_len, lines)) <= max(width, 70)  # a runtime of such a name stays whole
