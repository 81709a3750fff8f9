"""Progress of long work: a caller's function, or a line for people."""

import pytest
from helpers.rows import CHOOSE, ROWS, TAG

from txexport import load, verify
from txexport.errors import InputError
from txexport.support.progress import Numbered, counting, naming


def bert_for(task):
    return next(row for row in ROWS if (row.model_type, row.task) == ("bert", task))


LONG = "the cat sat on the mat " * 8


def test_true_shows_it_on_standard_error(bundle_of, capsys):
    load(bundle_of("gpt2"), device="cpu").generate(["the", "cat"], max_new_tokens=2, progress=True)
    assert capsys.readouterr() == ("", "\r2 of 2\n")
    naming(True)("batch 1")
    assert capsys.readouterr() == ("", "batch 1\n")
    counting(False)(1, 2)
    naming(None)("batch 1")
    assert capsys.readouterr() == ("", "")


def test_steps_have_numbers_and_the_time_left():
    lines, now = [], 100.0
    steps = Numbered(lines.append, 5, clock=lambda: now)
    steps("a")
    now += 30
    steps("b")
    now += 70
    steps("c")
    assert lines == ["a: 1 of 5", "b: 2 of 5, 2:00 left", "c: 3 of 5, 2:30 left"]


def test_verify_counts_its_cases(bundle_of):
    lines: list[str] = []
    report = verify(bundle_of("gpt2"), cases="quick", progress=lines.append)
    assert len(lines) > 5
    ends = [line.rpartition(": ")[2].partition(",")[0] for line in lines]
    assert ends == [f"{n} of {len(lines)}" for n in range(1, len(lines) + 1)]
    names = {line.partition(" (")[0] for line in lines}
    assert names == {case.name for case in report.cases if case.checks and case.runtime}


def test_what_cannot_be_told_is_refused(bundle_of):
    with pytest.raises(InputError, match=r"^progress is 3, expected true, false or a function$"):
        load(bundle_of("gpt2"), device="cpu").generate(["the"], max_new_tokens=1, progress=3)


def test_inputs_are_counted_and_not_their_parts(bundle_of):
    """Windows of a long text, and pairs with every choice, count as one input."""
    told: list[tuple[int, int]] = []

    def tell(*at):
        told.append(at)

    tagger = load(bundle_of(bert_for(TAG)), device="cpu")
    tagger.tag([LONG, "the cat"], stride=2, batch_tokens=40, progress=tell)
    assert told == [(0, 2), (2, 2)]  # a batch of windows of the long one alone, then its last
    told.clear()
    chooser = load(bundle_of(bert_for(CHOOSE)), device="cpu")
    chooser.choose(["where?", "who?"], [["a", "b", "c"], ["d", "e"]], batch_tokens=5, progress=tell)
    assert told[-1] == (2, 2)
    assert len(told) == 5
