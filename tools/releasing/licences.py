"""The licence of each dependency, as an SPDX expression, and whether licences.toml allows it."""

import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from releasing.dependencies import Package

RULES = tomllib.loads(Path(__file__).with_name("licences.toml").read_text(encoding="utf-8"))
LONGEST_NAME = 60  # a longer text in the field License is the licence itself, not its name


def expression(package: Package, rules: dict = RULES) -> str | None:
    """The SPDX expression of a package's licence, None if it states none that licences.toml knows.

    In this order: the field License-Expression (PEP 639), an entry of licences.toml, the field License,
    the classifiers.
    """
    metadata = package.metadata
    if stated := metadata.get("license_expression"):
        return spdx(stated, rules)
    for pattern, entry in rules["packages"].items():
        if fnmatchcase(package.name, pattern):
            return entry["licence"]
    named = (metadata.get("license") or "").strip()
    if named and "\n" not in named and len(named) <= LONGEST_NAME:
        return spdx(named.removeprefix("OSI Approved :: "), rules)
    classifiers = [line for line in metadata.get("classifier", ()) if line.startswith("License :: ")]
    known = [spdx(line.rpartition(" :: ")[2], rules) for line in classifiers]
    return " AND ".join(filter(None, known)) if known and all(known) else None


def spdx(name: str, rules: dict = RULES) -> str | None:
    """The SPDX expression of a licence's name, None if the name is unknown."""
    try:
        return str(canonicalize_license_expression(rules["names"].get(name, name)))
    except InvalidLicenseExpression:
        return None


def allowed(text: str, rules: dict = RULES) -> bool:
    """True if a canonical SPDX expression is one of, or combines, the licences of licences.toml."""
    for operator, combine in ((" OR ", any), (" AND ", all)):  # AND binds more closely
        parts = _split(text, operator)
        if len(parts) > 1:
            return combine(allowed(part, rules) for part in parts)
    if text.startswith("("):
        return allowed(text[1:-1], rules)
    return text in rules["allowed"]


def _split(text: str, operator: str) -> list[str]:
    """The operands of an operator outside of parentheses."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(rf"[()]|{operator}", text):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if match[0] == operator and depth == 0:
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def complaints(packages: dict[str, Package], rules: dict = RULES) -> list[str]:
    """A line for each package whose licence is unknown or not allowed."""
    lines = []
    for package in packages.values():
        text = expression(package, rules)
        if text is None:
            stated = package.metadata.get("license") or package.metadata.get("license_expression")
            shown = f"states the licence {stated[:LONGEST_NAME]!r}" if stated else "states no licence"
            todo = "add it to tools/releasing/licences.toml, or drop it"
            lines.append(f"{package.name} {package.version} {shown}; {todo}")
        elif not allowed(text, rules):
            lines.append(f"{package.name} {package.version} has the licence {text}, which is not allowed")
    return lines
