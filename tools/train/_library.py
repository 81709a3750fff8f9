"""Training data from the sources of Python's own library.

Present on any machine with Python; files and contents depend on its version.
"""

import sysconfig
from pathlib import Path

# Tests are not installed everywhere, encodings and topics are tables, the rest was removed in 3.12 and 3.13.
LEFT_OUT = {
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idle_test",
    "encodings",
    "pydoc_data",
    "distutils",
    "lib2to3",
    "__pycache__",
}


def sources() -> dict[str, str]:
    """The library's files by path, in order of path."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = {}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if LEFT_OUT.isdisjoint(name.parts) and not name.name.startswith("_sysconfigdata"):
            files[name.as_posix()] = path.read_text(encoding="utf-8", errors="replace")
    return files
