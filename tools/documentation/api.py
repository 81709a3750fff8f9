"""The public API as Markdown, from signatures and docstrings."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import txexport
from documentation.escaping import escaped
from documentation.meanings import meaning
from documentation.sources import ROOT, DocumentError, source
from txexport import errors
from txexport.runtime.generation.options import RULES

ERRORS = [name for name, value in vars(errors).items() if inspect.isclass(value) and name.endswith("Error")]


def public() -> list[str]:
    """Every documented name of the API: exports of `txexport`, and the public members of Model."""
    members = [f"Model.{name}" for name in vars(txexport.Model) if not name.startswith("_")]
    return [*txexport.__all__, *members]


def entry(name: str) -> str:
    """A heading, the signature, the docstring, arguments, result and errors."""
    if name not in public():
        raise DocumentError(f"{name} is not public; {', '.join(public())} are")
    member: Any = txexport
    for part in name.split("."):
        member = getattr(member, part)
    text = _prose(inspect.getdoc(member) or "")
    head = [f"### `{name}` {{ #{name} }}", ""]
    if inspect.isclass(member):
        return "\n".join([*head, text, ""])
    if isinstance(member, property):
        assert member.fget is not None
        return "\n".join([*head, f"Property: `{_Signature(member.fget).returns}`", "", text, ""])
    return "\n".join([*head, *_function(name, member, text)])


class _Signature:
    """A function's arguments and result: types and defaults as in the source."""

    def __init__(self, function: Callable[..., Any]):
        code = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
        node = ast.parse(code).body[0]
        assert isinstance(node, ast.FunctionDef)
        arguments_class = getattr(function, "arguments_class", None)
        if arguments_class is None:
            self._types = _argument_types(node.args)
        else:
            self._types = _field_types(arguments_class)
        parameters = inspect.signature(function).parameters.values()
        self.parameters = [parameter for parameter in parameters if parameter.name != "self"]
        for one in self.parameters:  # the source does not list those of a dataclass of options
            self._types.setdefault(one.name, inspect.formatannotation(one.annotation))
        self.returns = _type(node.returns) or "None"

    def rows(self, function: Callable[..., Any]) -> list[str]:
        """A table row for each argument of the function."""
        return [
            f"| `{of.name}` | {_code(self._types[of.name])} | {_code(_default(of)) or 'required'} | "
            f"{escaped(meaning(of.name, function))} |"
            for of in self.parameters
            if of.kind != of.VAR_KEYWORD
        ]

    def text(self, name: str) -> str:
        """The call, an argument a line where there are many."""
        parts, named = list[str](), False
        for of in self.parameters:
            if of.kind == of.KEYWORD_ONLY and not named:
                named = True
                parts.append("*")
            default = _default(of)
            star = "**" if of.kind == of.VAR_KEYWORD else ""
            parts.append(f"{star}{of.name}={default}" if default else f"{star}{of.name}")
            if of.kind == of.POSITIONAL_ONLY:
                parts.append("/")
        line = f"{name}({', '.join(parts)})"
        if len(line) > 80:
            line = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + ")"
        return f"{line} -> {self.returns}"


def _argument_types(arguments: ast.arguments) -> dict[str, str]:
    """Types as in the source, by argument."""
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named += filter(None, (arguments.vararg, arguments.kwarg))
    return {argument.arg: _type(argument.annotation) for argument in named}


def _field_types(arguments_class: type) -> dict[str, str]:
    """Types as in the source, by field of a dataclass."""
    node = ast.parse(textwrap.dedent(inspect.getsource(arguments_class))).body[0]
    assert isinstance(node, ast.ClassDef)
    fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
    return {ast.unparse(field.target): _type(field.annotation) for field in fields}


def _type(annotation: ast.expr | None) -> str:
    return "" if annotation is None else ast.unparse(annotation).strip("'\"")


def _default(parameter: inspect.Parameter) -> str:
    return "" if parameter.default is parameter.empty else repr(parameter.default)


def _function(name: str, function: Callable[..., Any], text: str) -> list[str]:
    signature = _Signature(function)
    called = f"txexport.{name}" if "." not in name else name.replace("Model.", "model.")
    summary, _, details = text.partition("\n\n")
    lines = ["```python", signature.text(called), "```", "", summary, ""]
    if rows := signature.rows(function):
        lines += ["| argument | type | default | meaning |", "|---|---|---|---|", *rows, ""]
    lines += [details, ""]
    lines += [f"Returns `{signature.returns}`.", ""]
    raised = [error for error in ERRORS if error in (inspect.getdoc(function) or "")]
    if raised:
        lines += ["Errors: " + ", ".join(f"[`{error}`](errors.md#{error})" for error in raised) + ".", ""]
    return lines


def _code(text: str) -> str:
    """Code in a table cell, where a | does not end it; empty for an empty text."""
    return text and f"`{text}`"


def _prose(doc: str) -> str:
    """A docstring as Markdown: `ticks` and indented blocks are code there too."""
    return "\n\n".join(part if part.startswith("    ") else escaped(part) for part in doc.split("\n\n"))


def error_list() -> str:
    """A section for each error, in the order of their definitions."""
    lines: list[str] = []
    for name in ERRORS:
        error = getattr(errors, name)
        parents = [base.__name__ for base in error.__bases__]
        lines += [f"### `{name}` {{ #{name} }}", "", inspect.getdoc(error) or "", ""]
        lines += ["Subclass of " + ", ".join(f"`{parent}`" for parent in parents) + ".", ""]
    return "\n".join(lines)


def generation_options() -> str:
    """A table per group of options: name, default, type, and the comment in the source."""
    path = "txexport/runtime/generation/config.py"
    text = source(ROOT / path, "GenerationConfig")
    lines: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("# "):
            title = stripped[2:]
            lines += [
                "",
                f"### {title[0].upper()}{title[1:]}",
                "",
                "| option | default | allowed values | |",
                "|---|---|---|---|",
            ]
        elif lines and ": " in stripped and " = " in stripped and not stripped.startswith("ignored"):
            name, rest = stripped.split(": ", 1)
            default, _, note = rest.split(" = ", 1)[1].partition("  # ")
            default = {"field(default_factory=dict)": "{}"}.get(default, default)
            lines.append(
                f"| `{name}` | {_code(default)} | {RULES[name].expected.replace('|', '')} | {note} |"
            )
        elif stripped.startswith("@property"):
            break
    return "\n".join(lines).lstrip("\n") + "\n"
