"""The process of a client: `worker.py NAME` calls functions of NAME_client.py beside it.

Each line of the standard input names a folder. Its request.json has the bundle, its task and the calls;
request.npz the arrays of call i as `i/NAME`. The worker writes the packages' versions and the result or error
of each call to answer.json and answer.npz, and then a line to the standard output.
"""

import importlib
import json
import os
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np


def versions(packages: list[str]) -> dict[str, str]:
    """The versions of the installed ones of those packages."""
    result = {}
    for package in packages:
        try:
            result[package] = version(package)
        except PackageNotFoundError:
            continue
    return result


def read_arrays(folder: Path, count: int) -> list[dict[str, np.ndarray]]:
    """The arrays of each call."""
    result: list[dict[str, np.ndarray]] = [{} for _ in range(count)]
    with np.load(folder / "request.npz") as file:
        for key in file.files:
            i, name = key.split("/", 1)
            result[int(i)][name] = file[key]
    return result


def answer(client: ModuleType, folder: Path) -> None:
    """Answer the request in `folder`."""
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    bundle, task, calls = Path(request["bundle"]), request["task"], request["calls"]
    results: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    for i, (call, inputs) in enumerate(zip(calls, read_arrays(folder, len(calls)), strict=True)):
        try:
            values = getattr(client, call["function"])(bundle, task, inputs, **call["options"])
        except Exception as error:  # of the client
            results.append({"values": {}, "error": f"{type(error).__name__}: {error}"})
            continue
        arrays |= {f"{i}/{key}": value for key, value in values.items() if isinstance(value, np.ndarray)}
        others = {key: value for key, value in values.items() if not isinstance(value, np.ndarray)}
        results.append({"values": others, "error": None})
    np.savez(folder / "answer.npz", **arrays)  # type: ignore[arg-type]
    text = json.dumps({"versions": versions(client.PACKAGES), "results": results}, default=float)
    (folder / "answer.json").write_text(text, encoding="utf-8")


def main(name: str) -> None:
    """Answer requests until the input ends; the client's prints go to the standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    client = importlib.import_module(f"{name}_client")
    for line in sys.stdin:
        answer(client, Path(line.rstrip("\n")))
        print("answered", file=replies, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
