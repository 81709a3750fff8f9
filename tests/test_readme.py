"""The README claims what the tests prove, and no more."""

from pathlib import Path

from rows import readme_table

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_table_is_that_of_the_rows():
    table = README.split("<!-- rows: python tests/rows.py -->\n")[1].split("<!-- end of rows -->")[0]
    assert table == readme_table() + "\n"
