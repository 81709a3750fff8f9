"""The README and the pages of docs/ show what is so: each command and each snippet is run, word for word."""

import re

import pytest
from helpers.documents import NOT_RUN, SHOWN, Reader, blocks, pages
from helpers.project import ROOT

PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in pages()}
RUN = {name: text for name, text in PAGES.items() if any(block.runs for block in blocks(text))}
MOST_NOT_RUN = 14  # blocks that need what no test has; the fewer the better

# One worker types them all, so that a bundle which several pages export is made once.
pytestmark = pytest.mark.xdist_group("pages")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return Reader(tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("name", RUN)
def test_commands_and_snippets_answer_as_they_are_shown(name, reader):
    for _, _, written, answered in reader.page(PAGES[name]):
        assert written == answered


def test_what_is_not_run_says_so_with_a_reason():
    """A block that is a command or Python is run, or its title says why not, which readers see."""
    left_out = []
    for name, text in PAGES.items():
        for block in blocks(text):
            if block.runs or block.language in SHOWN:
                continue
            assert re.fullmatch(rf"{NOT_RUN}( here)?: .{{8,}}", block.title), (name, block.text)
            left_out.append(block.text)
    assert 0 < len(left_out) <= MOST_NOT_RUN


def test_fences_are_those_that_are_looked_at():
    """A fence without a language, indented, or with other attributes would be run by nobody."""
    for name, text in PAGES.items():
        assert text.count("```") == 2 * len(blocks(text)), name


def test_no_page_names_the_machine_that_wrote_it():
    """An answer with a path or a time in it would be another one elsewhere."""
    for name, text in PAGES.items():
        assert str(ROOT) not in text, name
        assert not re.search(r"/(home|root|Users|tmp)/|\b20\d\d-\d\d-\d\dT", text), name


def test_a_name_stands_for_one_thing():
    """In all pages, a folder that is exported to is exported to from one checkpoint, in one way."""
    made: dict[str, set[str]] = {}
    for text in RUN.values():
        for block in blocks(text):
            if block.runs and block.language == "console":
                for line in re.findall(r"^\$ txexport export (.+)$", block.text, re.MULTILINE):
                    made.setdefault(line.split()[1], set()).add(line)
    assert len(made) > 5
    assert [lines for lines in made.values() if len(lines) > 1] == []
