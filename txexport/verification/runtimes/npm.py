"""Packages of npm: where they lie, and which version."""

import json
import os
from pathlib import Path


def find(package: str) -> Path | None:
    """The folder of an installed package: in node_modules here or above, or in one that NODE_PATH names."""
    here = Path.cwd()
    places = [folder / "node_modules" for folder in (here, *here.parents)]
    places += [Path(place) for place in os.environ.get("NODE_PATH", "").split(os.pathsep) if place]
    return next((place / package for place in places if (place / package / "package.json").is_file()), None)


def missing(package: str) -> str | None:
    """Why a package cannot be used, where it is not installed."""
    if find(package) is not None:
        return None
    return f"{package} is in no node_modules here, above or in NODE_PATH; npm install {package}"


def version(package: str) -> str:
    """The version of an installed package."""
    folder = find(package)
    assert folder is not None
    return json.loads((folder / "package.json").read_text(encoding="utf-8"))["version"]
