"""The folder that export writes, and its manifest."""

from txexport.bundle.folder import (
    DENSE,
    DRAFT,
    check,
    check_runs,
    files_sha256,
    has_linked_weights,
    is_bundle,
    is_traced,
    listed_files,
    module_folder,
    older_files,
    present,
    read,
    read_any,
    read_json,
    read_manifest,
    read_traced,
    reads_tokens,
    record,
    spec_of,
)
from txexport.bundle.manifest import MANIFEST, Manifest
from txexport.bundle.outputs import check_output
from txexport.bundle.traced_manifest import TracedManifest

__all__ = [
    "DENSE",
    "DRAFT",
    "MANIFEST",
    "Manifest",
    "TracedManifest",
    "check",
    "check_output",
    "check_runs",
    "files_sha256",
    "has_linked_weights",
    "is_bundle",
    "is_traced",
    "listed_files",
    "module_folder",
    "older_files",
    "present",
    "read",
    "read_any",
    "read_json",
    "read_manifest",
    "read_traced",
    "reads_tokens",
    "record",
    "spec_of",
]
