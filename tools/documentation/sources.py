"""Definitions from the source code by name, read when pages are built."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
MODULES, GRAPHS = Path("models/txmodels"), Path("graphs/txgraphs")
Definition = ast.FunctionDef | ast.ClassDef


class DocumentError(Exception):
    """A page refers to a name that does not exist; the message gives the position and the existing names."""


def source(path: Path, *names: str) -> str:
    """The text of a file's definitions, "function", "Class" or "Class.method", one after another."""
    text = (ROOT / path).read_text(encoding="utf-8")
    tree = ast.parse(text)
    return "\n\n\n".join(_text(text, _definition(path, tree, name)) for name in names)


def _definition(path: Path, tree: ast.Module, name: str) -> Definition:
    body, node = tree.body, None
    for part in name.split("."):
        names = {child.name: child for child in body if isinstance(child, Definition)}
        if part not in names:
            raise DocumentError(f"{path} has no {name}; it has {', '.join(names)}")
        node = names[part]
        body = node.body
    assert node is not None
    return node


def _text(text: str, node: Definition) -> str:
    """The source with decorators, dedented."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = text.splitlines()[first - 1 : node.end_lineno]
    return "\n".join(line[node.col_offset :] for line in lines)


def snake(name: str) -> str:
    """The name of the graph half: CamelCase as snake_case."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def twin(file: str, modules: list[str], graphs: list[str]) -> str:
    """Both halves of a component as two tabs of code."""
    tabs = (
        ("PyTorch", MODULES / f"{file}.py", modules),
        ("Graph", GRAPHS / f"{file}.py", graphs),
    )
    lines: list[str] = []
    for mark, (title, path, names) in zip(("===!", "==="), tabs, strict=True):  # "!" begins a new group
        code = source(path, *names).splitlines()
        block = [f'```python title="{path}"', *code, "```"]
        lines += [f'{mark} "{title}"', "", *(f"    {line}".rstrip() for line in block), ""]
    return "\n".join(lines)
