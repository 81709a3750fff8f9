"""The packages that an installation brings, as `pip install --dry-run --report FILE` lists them."""

import json
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "txexport"


@dataclass(frozen=True)
class Package:
    """A distribution: its metadata, the extras of it that are installed, and the SHA-256 of its file."""

    name: str
    version: str
    metadata: dict
    extras: frozenset[str]
    sha256: str | None
    environment: dict[str, str]

    def requires(self, extra: str | None = None) -> list[str]:
        """The names of the packages that it requires: with its installed extras, or with `extra` alone."""
        extras = self.extras if extra is None else {extra}
        environments = [self.environment | {"extra": name} for name in ("", *extras)]
        names = set()
        for line in self.metadata.get("requires_dist", ()):
            requirement = Requirement(line)
            if requirement.marker is None or any(map(requirement.marker.evaluate, environments)):
                names.add(canonicalize_name(requirement.name))
        return sorted(names - {self.name})


def read(report: Path) -> dict[str, Package]:
    """The packages of a report by their names, sorted."""
    values = json.loads(report.read_text(encoding="utf-8"))
    packages = {}
    for entry in values["install"]:
        metadata = entry["metadata"]
        name = canonicalize_name(metadata["name"])
        hashes = entry["download_info"].get("archive_info", {}).get("hashes", {})
        packages[name] = Package(
            name,
            metadata["version"],
            metadata,
            frozenset(entry.get("requested_extras", ())),
            hashes.get("sha256"),
            values["environment"],
        )
    return dict(sorted(packages.items()))
