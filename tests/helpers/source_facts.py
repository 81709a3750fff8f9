"""The names in a Python file, read in one pass over its syntax tree."""

import ast
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class SourceFacts:
    """A file's imports, functions, docstrings, strings of code and names.

    `modules` are those of `import a.b`; `members` are module and name of `from a import b`, with the module
    None for a relative import; `functions` are name, number of parameters without self, and the names in its
    decorators; `bound` are variables and parameters; `used` are all names outside annotations.
    """

    modules: list[str] = field(default_factory=list)
    members: list[tuple[str | None, str]] = field(default_factory=list)
    functions: list[tuple[str, int, set[str]]] = field(default_factory=list)
    docstrings: list[str] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    bound: list[str] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter)


@cache
def facts_of(path: Path) -> SourceFacts:
    """The facts of a file."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    facts, annotations, described = SourceFacts(), set[int](), set[int]()
    for node in nodes:
        described |= {id(node.value)} if isinstance(node, ast.Expr) else set()
        for name in ("annotation", "returns"):
            value = getattr(node, name, None)
            annotations |= {id(inner) for inner in ast.walk(value)} if isinstance(value, ast.AST) else set()
        if isinstance(node, ast.Import):
            facts.modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = None if node.level else node.module
            facts.members += [(module, alias.name) for alias in node.names]
        elif isinstance(node, ast.arg):
            facts.bound.append(node.arg)
        if isinstance(node, Documented):
            facts.docstrings.append(ast.get_docstring(node) or "")
        if isinstance(node, Function):
            facts.functions.append((node.name, len(_parameters(node)), _names(node.decorator_list)))
    for node in nodes:
        if isinstance(node, ast.Name):
            facts.bound += [node.id] if isinstance(node.ctx, ast.Store) else []
            facts.used.update([node.id] if id(node) not in annotations else [])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            facts.texts.add(node.value)
    return facts


def _parameters(node: Function) -> list[str]:
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [argument.arg for argument in every if argument.arg not in ("self", "cls")]


def _names(nodes: list[ast.expr]) -> set[str]:
    return {inner.id for node in nodes for inner in ast.walk(node) if isinstance(inner, ast.Name)}
