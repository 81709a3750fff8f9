"""Summaries of traced bundles."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any


def traced_summary(out: Path, manifest: Any) -> str:
    """The class, the inputs and outputs with their dimensions, and why some of these are fixed."""
    graphs = list(manifest.every_graph)
    files = ", ".join(graph.file for graph in graphs)
    lines = [f"{out}: {manifest.model_type}, {manifest.traced}, traced: {files}"]
    for graph in graphs:
        lines += [f"  inputs   {_ports(graph.inputs)}", f"  outputs  {_ports(graph.outputs)}"]
    lines += [f"  {limit}" for limit in manifest.limited or []]
    return "\n".join(lines)


def traced_details(out: Path, manifest: Any) -> str:
    """The summary, with versions, files and the last result of verify."""
    sizes = [
        f"{name} ({(out / name).stat().st_size:,} bytes)" for name in manifest.files if (out / name).is_file()
    ]
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    proof = "never verified; txexport verify compares it with its class of transformers"
    if manifest.proof is not None:
        proof = f"{manifest.proof.verdict} {manifest.proof.scope}, {manifest.proof.created}"
    lines = [f"  from     {manifest.source.path}", f"  by       {versions}"]
    return "\n".join(
        [traced_summary(out, manifest), *lines, f"  files    {', '.join(sizes)}", f"  proof    {proof}"]
    )


def _ports(ports: Iterable[Any]) -> str:
    return ", ".join(f"{one.name} {one.dtype}[{', '.join(map(str, one.shape))}]" for one in ports)
