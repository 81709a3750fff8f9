"""Installed packages of npm."""

import json
import os
from pathlib import Path


def find(package: str) -> Path | None:
    """The folder of an installed package: in node_modules here or above, or in a folder of NODE_PATH."""
    here = Path.cwd()
    folders = [folder / "node_modules" for folder in (here, *here.parents)]
    folders += [Path(name) for name in os.environ.get("NODE_PATH", "").split(os.pathsep) if name]
    return next((one / package for one in folders if (one / package / "package.json").is_file()), None)


def missing(package: str) -> str | None:
    """The reason why a package cannot be used; None if it is installed."""
    if find(package) is not None:
        return None
    return f"{package} is in no node_modules here, above or in NODE_PATH; npm install {package}"


def version(package: str) -> str:
    """The version of an installed package."""
    folder = find(package)
    assert folder is not None
    return json.loads((folder / "package.json").read_text(encoding="utf-8"))["version"]
