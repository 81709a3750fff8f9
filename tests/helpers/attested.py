"""Bundles that count as verified, their statements, and edits of statements."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import txexport
from txexport import bundle
from txexport.bundle.proof import Proof
from txexport.verification.attestations.hash_tree import root_of
from txexport.verification.attestations.statement import Statement, read

PROOF = Proof(
    created="2026-01-02T03:04:05+00:00",
    verdict="equal",
    scope="to twin on onnxruntime cpu, of tiny (0123456789ab)",
    references=["twin"],
    cases=3,
    failed=0,
    skipped=1,
    numbers=4,
    worst_output="logits",
    worst_error=1e-7,
    bound=1e-5,
    versions={"txexport": "1"},
    sha256={},
)


def accepted(folder: Path, **facts: Any) -> Path:
    """Record a proof of the bundle as it is, without running it; its answers are removed."""
    bundle.record(folder, PROOF)
    proof = dataclasses.replace(PROOF, sha256=bundle.files_sha256(folder), **facts)
    bundle.record(folder, proof)
    return folder


def statement_of(folder: Path, file: Path, **options: Any) -> Statement:
    """The statement about an accepted bundle, which is also written to `file`."""
    statement = txexport.attest(accepted(folder), recorded=True, **options)
    statement.write(file)
    return statement


def edited(file: Path, change: Callable[[dict[str, Any]], object], reroot: bool = True) -> Path:
    """Change a statement's values in its file, and make its roots fit the leaves again."""
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))
    if reroot:
        again = read(file)
        values["predicate"]["weights"]["root"] = root_of(again.weights)
        values["predicate"]["checkpoint"]["root"] = root_of(again.tensors)
        file.write_text(json.dumps(values))
    return file
