"""The versions that txexport runs with, from pyproject.toml, constraints.txt and the clients' results."""

import json
import re
import tomllib
from collections.abc import Iterator

from documentation.sources import ROOT, DocumentError

REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[^\]]*\])?(.*)")
UNSHOWN = {"dev", "docs", "train"}  # extras of this project's own work
PYTHON = "Programming Language :: Python :: "


def compatibility(part: str) -> str:
    """{{ compatibility python|libraries|clients }}: one of the tables."""
    parts = {"python": _python, "libraries": _libraries, "clients": _clients}
    if part not in parts:
        raise DocumentError(f"compatibility has no {part}; there are {', '.join(parts)}")
    return "\n".join(parts[part]())


def _project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _python() -> Iterator[str]:
    """The Python versions of the classifiers, as a sentence."""
    project = _project()
    versions = [one.removeprefix(PYTHON) for one in project["classifiers"] if one.startswith(f"{PYTHON}3.")]
    yield f"Python {', '.join(versions)}; `requires-python` is `{project['requires-python']}`."


def _libraries() -> Iterator[str]:
    """Each library that pyproject.toml names, with its range and the version of constraints.txt."""
    project = _project()
    groups = {"": project["dependencies"]} | project["optional-dependencies"]
    ranges: dict[tuple[str, str], list[str]] = {}  # extras by a library's name and range
    for extra, requirements in groups.items():
        for requirement in requirements if extra not in UNSHOWN else ():
            match = REQUIREMENT.fullmatch(requirement)
            assert match is not None, requirement
            if match[1] != project["name"]:
                ranges.setdefault((match[1], match[2]), []).append(extra)
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {_plain(name): version for name, _, version in (line.partition("==") for line in lines) if version}
    yield "| library | admitted | tested with | needed for |"
    yield "|---|---|---|---|"
    for (name, versions), extras in sorted(ranges.items(), key=lambda row: row[0][0].lower()):
        needed = ", ".join(f"`{extra}`" if extra else "everything" for extra in extras)
        pin = pins.get(_plain(name), "not by the tests of every change")
        yield f"| {name} | `{versions or 'any'}` | {pin} | {needed} |"


def _plain(name: str) -> str:
    """A package's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _clients() -> Iterator[str]:
    """Each client with the versions of its last run, and the number of cases that it passed."""
    results = json.loads((ROOT / "tools/clients/results.json").read_text(encoding="utf-8"))
    yield "| client | versions | cases that pass |"
    yield "|---|---|---|"
    for name, result in results.items():
        versions = ", ".join(f"{package} {version}" for package, version in result["versions"].items())
        passed = sum(case["why"] is None for case in result["cases"])
        yield f"| {name} | {versions} | {passed} of {len(result['cases'])} |"
