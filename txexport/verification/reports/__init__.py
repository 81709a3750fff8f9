"""Reports as files: JSON, Markdown, JUnit and HTML."""

from collections.abc import Callable, Sequence
from pathlib import Path

from txexport import bundle
from txexport.errors import InputError
from txexport.support.replaced import replaced
from txexport.verification.reports import html_page, json_text, junit, markdown
from txexport.verification.result import Report

FORMS: dict[str, Callable[[Report | Sequence[Report]], str]] = {
    ".json": json_text.render,
    ".md": markdown.render,
    ".xml": junit.render,
    ".html": html_page.render,
}


def check(path: str | Path, form: str | None = None) -> str:
    """The format of a report at `path`, a key of FORMS: by its suffix unless given.

    Raises InputError for an unknown suffix, or for a path where no file can be written.
    """
    path = Path(path)
    form = path.suffix.lower() if form is None else form
    if form not in FORMS:
        raise InputError(f"report '{path}' ends in '{path.suffix}', expected one of {', '.join(FORMS)}")
    bundle.check_output(path)
    return form


def write(reports: Report | Sequence[Report], path: str | Path, form: str | None = None) -> None:
    """Write one report, or several as one file. Raises as `check`, and OSError, which leaves an older one."""
    text = FORMS[check(path, form)](reports)
    with replaced(Path(path)) as stream:
        stream.write(text.encode())
