"""The kernels of an execution provider, as `txexport inspect --provider` reads them.

python tools/kernel_table.py CUDAExecutionProvider > txexport/inspection/providers/cuda.json

Run it where the pinned onnxruntime-gpu is installed with its CUDA libraries; a GPU is not needed. The
published table of kernels is no substitute: it follows the main branch, and a kernel of one version does not
run operators of the next.
"""

import json
import sys

import onnxruntime
from onnx import defs
from onnxruntime.capi import onnxruntime_pybind11_state as state

OPSETS = range(17, 25)  # those that export writes
OPEN = 2**31 - 1  # the end of a version range without end


def main(provider: str) -> None:
    """Print the provider's kernels of ONNX's operators as JSON, a line for each operator."""
    table: dict[str, list[dict]] = {}
    for kernel in state.get_all_opkernel_def():
        first, last = kernel.version_range
        if kernel.provider == provider and kernel.domain == "" and _used(kernel.op_name, first, last):
            types = {
                name: sorted(one[len("tensor(") : -1] for one in values if one.startswith("tensor("))
                for name, values in sorted(kernel.type_constraints.items())
            }
            _add(table.setdefault(kernel.op_name, []), first, None if last == OPEN else last, types)
    lines = [f'"{name}": {json.dumps(table[name])}' for name in sorted(table)]
    body = ",\n".join(lines)
    print(
        f'{{"onnxruntime": "{onnxruntime.__version__}", "provider": "{provider}", "kernels": {{\n{body}\n}}}}'
    )


def _used(name: str, first: int, last: int) -> bool:
    """Tell whether an operator of one of OPSETS can find a kernel of these versions."""
    if not defs.has(name, OPSETS[-1], ""):
        return False
    since = {defs.get_schema(name, opset, "").since_version for opset in OPSETS if defs.has(name, opset, "")}
    return bool(since & ({first} if last == OPEN else set(range(first, last + 1))))


def _add(rows: list[dict], first: int, last: int | None, types: dict[str, list[str]]) -> None:
    """Add a kernel, merged with one that differs in the types of a single constraint."""
    for row in rows:
        differs = [name for name in types if row["types"].get(name) != types[name]]
        if (
            (row["since"], row["until"]) == (first, last)
            and row["types"].keys() == types.keys()
            and len(differs) < 2
        ):
            for name in differs:
                row["types"][name] = sorted({*row["types"][name], *types[name]})
            return
    rows.append({"since": first, "until": last, "types": types})


if __name__ == "__main__":
    main(sys.argv[1])
