"""The folder that export writes, and its manifest."""

from txexport.bundle.folder import (
    DENSE,
    DRAFT,
    check,
    check_report,
    check_runs,
    files_sha256,
    has_linked_weights,
    is_bundle,
    module_folder,
    older_files,
    present,
    read,
    read_json,
    read_manifest,
    reads_tokens,
    record,
)
from txexport.bundle.manifest import MANIFEST, Manifest

__all__ = [
    "DENSE",
    "DRAFT",
    "MANIFEST",
    "Manifest",
    "check",
    "check_report",
    "check_runs",
    "files_sha256",
    "has_linked_weights",
    "is_bundle",
    "module_folder",
    "older_files",
    "present",
    "read",
    "read_json",
    "read_manifest",
    "reads_tokens",
    "record",
]
