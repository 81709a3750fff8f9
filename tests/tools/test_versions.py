"""The tested versions are those that pyproject.toml allows: pins are the newest, and ranges end there."""

import re
import subprocess
import tomllib
from importlib import metadata

import pytest
from helpers.project import ROOT
from packaging.specifiers import SpecifierSet

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = {_name: version for _name, _, version in (line.partition("==") for line in LINES) if version}

# Libraries on which a bundle's or a verification's numbers depend: each has an upper limit.
LIMITED = ["onnx", "onnx-ir", "onnxruntime", "onnxscript", "tokenizers", "torch", "transformers"]


def ranges() -> dict[str, str]:
    """The version ranges of each package in pyproject.toml."""
    every = [
        *PROJECT["dependencies"],
        *(one for extra in PROJECT["optional-dependencies"].values() for one in extra),
    ]
    parts = [re.fullmatch(r"([A-Za-z0-9_.-]+)(?:\[.*\])?(.*)", one) for one in every]
    return {part[1]: part[2] for part in parts if part is not None and part[2]}


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version.partition("+")[0])]


@pytest.mark.parametrize("name", LIMITED)
def test_a_range_ends_with_the_newest_version_that_is_tried(name):
    lowest, limit = re.fullmatch(r">=([\d.]+),<([\d.]+)", ranges()[name]).groups()
    pinned = numbers(PINS[name])
    assert numbers(lowest) <= pinned
    assert [*pinned[: len(numbers(limit)) - 1], pinned[len(numbers(limit)) - 1] + 1] == numbers(limit)


def test_every_pin_is_one_that_the_ranges_admit():
    for name, range_ in ranges().items():
        pinned = next((PINS[one] for one in PINS if one.replace("_", "-").lower() == name), None)
        for sign, version in re.findall(r"(>=|<)([\d.]+)", range_) if pinned else ():
            below = numbers(pinned) < numbers(version)
            assert below == (sign == "<"), f"{name}=={pinned}{range_}"


def test_every_pin_installs_where_the_oldest_python_is():
    """Debian 12 has 3.11.2: a pin that wants a later 3.11 stops the installation there."""
    oldest = re.search(r"\d+\.\d+", PROJECT["requires-python"])[0]
    for distribution in metadata.distributions():
        wanted = distribution.metadata["Requires-Python"] or ""
        if distribution.metadata["Name"] in PINS:
            assert SpecifierSet(wanted).contains(f"{oldest}.0"), f"{distribution.metadata['Name']} {wanted}"


def test_versions_that_nobody_asks_for_are_refused():
    result = subprocess.run([ROOT / "tools/versions", "middle"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("usage: tools/versions oldest|newest")
