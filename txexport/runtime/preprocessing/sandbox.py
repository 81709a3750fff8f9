"""Chat templates in Jinja2's sandbox, with limits on the time and size of each step and of all together.

A template comes with a checkpoint, so anybody may have written it. There are three limits. Every value is
limited in size; the size is estimated before a step that could make a value much larger than its parts
(repetition, powers, formats, replacing, joining, indenting). The sum of the sizes of all values is limited,
which bounds memory. Every step of a loop, call, filter and operator checks the CPU time.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from types import CodeType
from typing import Any

from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import loopcontrols
from jinja2.filters import make_attrgetter
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.visitor import NodeTransformer

from txexport.runtime.preprocessing import sandbox_sizes as sizes
from txexport.runtime.preprocessing.sandbox_sizes import SIZE, WIDTH, size
from txexport.runtime.preprocessing.sandbox_values import Dictionary, Generation, TemplateNamespace

SECONDS = 2.0  # of CPU time for a conversation; published templates take milliseconds
FEW = 500  # steps that have twice the time: Python's garbage collections are no fault of theirs
MADE = 2**28  # characters and items of all values together
SOURCE = 2**18  # characters of a template
NEVER = {"expandtabs", "translate", "encode", "to_bytes", "from_bytes", "striptags"}
LOOPS = {"batch", "groupby", "list", "map", "max", "min", "slice", "sort", "sum", "unique"}
LOOPS |= {"reject", "rejectattr", "select", "selectattr"}
TEXTS = {"capitalize", "center", "e", "escape", "format", "indent", "lower", "replace", "safe", "string"}
TEXTS |= {"title", "trim", "truncate", "upper", "wordcount"}
OTHERS = {"abs", "attr", "count", "d", "default", "dictsort", "first", "float", "int", "items", "last"}
OTHERS |= {"filesizeformat", "length", "reverse", "round"}
SLOW = {"forceescape", "pprint", "striptags", "urlencode", "urlize", "wordwrap", "xmlattr"}  # of short values
ARGUMENTS = {"center": ("width",), "indent": ("width",), "replace": ("old", "new")}  # those that are measured


class Sandbox(ImmutableSandboxedEnvironment):
    """An environment for one rendering; what goes beyond its bounds raises SecurityError."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
        self.until, self.made, self.steps = time.thread_time() + SECONDS, 0, 0
        self.filters = {
            name: self._bounded(name, self.filters[name]) for name in LOOPS | TEXTS | OTHERS | SLOW
        }
        self.filters |= {"join": self._join, "tojson": self._json, "random": _never_the_same}
        self.globals = {name: self.globals[name] for name in ("cycler", "joiner")} | {
            "dict": Dictionary(),
            "lipsum": _never_the_same,
            "range": sizes.bounded_range,
            "namespace": TemplateNamespace,
        }

    def tick(self) -> None:
        """Count a step. Raises SecurityError when the time is up."""
        self.steps += 1
        if time.thread_time() > self.until + (SECONDS if self.steps <= FEW else 0):
            raise SecurityError(f"it computes for more than {SECONDS:g} seconds")

    def sized(self, value: Any) -> Any:
        """`value`, counted. Raises SecurityError for one that is too large."""
        self.room(size(value))
        return value

    def room(self, amount: int) -> None:
        """Count a value of that size. Raises SecurityError where it, or the sum of all, is too large."""
        if amount > 0:
            self.made += amount
        if amount > SIZE or self.made > MADE:
            raise SecurityError(f"it makes values of more than {SIZE:,} characters, or {MADE:,} in all")

    def counted(self, items: Iterable) -> Iterator:
        """The items of a loop; each counts as a step."""
        for item in items:
            self.tick()
            yield item

    def joined(self, *values: Any) -> str:
        """Values side by side, as ~ joins them."""
        self.room(sum(map(size, values)))
        return "".join(map(str, values))

    def concat(self, pieces: Iterable[str]) -> str:
        """The text that a template, a macro or a block writes."""
        parts, total = [], 0
        for piece in pieces:
            total += len(piece)
            if total > SIZE:
                break
            parts.append(piece)
        self.room(total)
        return "".join(parts)

    def _generate(self, source: nodes.Template, *arguments: Any, **named: Any) -> str:
        """Jinja2's hook for the code of a template; adds the calls that measure to its tree."""
        return super()._generate(_Watched().visit(source), *arguments, **named)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Jinja2's hook for operators."""
        if operator == "+" and type(left) is str is type(right):  # by far the most common operation
            self.room(len(left) + len(right))
            return left + right
        self.tick()
        if operator == "%" and isinstance(left, str):
            self._percent(left, right)
        elif operator == "*":
            times = [value for value in (left, right) if isinstance(value, int)]
            if len(times) == 1:
                self.room(size(right if isinstance(left, int) else left) * max(times[0], 0))
        elif operator == "**" and abs(right) > sizes.BITS:
            raise SecurityError(f"a power of {right} is not computed")
        elif operator == "+":
            self.room(size(left) + size(right))
        return self.sized(super().call_binop(context, operator, left, right))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Jinja2's hook for calls."""
        self = __self
        self.tick()
        owner = getattr(__obj, "__self__", None)
        if owner is self:
            return __obj(*args)
        name = getattr(__obj, "__name__", "")
        if isinstance(owner, str) and name == "join":
            return self._join(args[0], owner)
        if isinstance(owner, str):
            self.room(sizes.method_size(name, owner, *args, *kwargs.values()))
        return self.sized(super().call(__context, __obj, *args, **kwargs))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Jinja2's hook for attributes and methods."""
        return attr not in NEVER and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Jinja2's hook for the methods format and format_map."""
        text, name = getattr(value, "__self__", None), getattr(value, "__name__", "")
        if not isinstance(text, str) or name not in ("format", "format_map"):
            return None

        def formatted(*args: Any, **kwargs: Any) -> str:
            self.room(sizes.format_size(text))
            if name == "format_map":
                kwargs = args[0]
            return _Formatter(self).vformat(str(text), args, kwargs)

        return formatted

    def _percent(self, text: str, values: Any) -> None:
        """Raise SecurityError for a % format whose result may be much larger than its parts."""
        self.room(sizes.percent_size(text, values))
        sizes.check_widths(text)

    def _bounded(self, name: str, function: Callable) -> Callable:
        """A filter that counts as a step; its arguments and its result are measured."""
        skipped = 1 if hasattr(function, "jinja_pass_arg") else 0  # what Jinja2 passes before the value

        @wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            self.tick()
            value, *parameters = args[skipped:]
            parameters += [kwargs[key] for key in ARGUMENTS.get(name, kwargs) if key in kwargs]
            if name in ("center", "replace", "indent"):
                self.room(sizes.method_size(name, str(self.sized(value)), *parameters))
            elif name == "format":
                self._percent(str(value), parameters)
            elif name == "sum" and any(not isinstance(one, int | float | str | None) for one in parameters):
                raise SecurityError("sum must begin with a number")
            elif name in ("string", "escape", "e"):
                self.room(size(value))
            elif name in SLOW:
                self.room(sizes.slow_size(name, value, parameters))
            if name in LOOPS:
                args = (*args[:skipped], self.counted(value), *args[skipped + 1 :])
            wide = any(isinstance(one, int) and one > WIDTH for one in parameters)
            if wide and name in ("batch", "slice", "round"):
                raise SecurityError(f"{name} by more than {WIDTH} is not supported")
            return self.sized(function(*args, **kwargs))

        return measured

    def _join(self, value: Iterable, d: Any = "", attribute: str | int | None = None) -> str:
        """The filter and the method join."""
        items = value if attribute is None else map(make_attrgetter(self, attribute), value)
        between = str(d)

        def pieces() -> Iterator[str]:
            for place, item in enumerate(self.counted(items)):
                if place:
                    yield between
                yield item if isinstance(item, str) else str(self.sized(item))

        return self.concat(pieces())

    def _json(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """The filter tojson as transformers has it: without the escapes for HTML that Jinja2's own makes."""
        self.tick()
        self.room(size(value))
        encoder = json.JSONEncoder(
            ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        if indent is None and separators is None:
            return self.sized(encoder.encode(value))
        if isinstance(indent, int) and indent > WIDTH:
            raise SecurityError(f"tojson indents by {indent}, expected at most {WIDTH}")
        return self.concat(encoder.iterencode(value))


def _never_the_same(*arguments: Any, **named: Any) -> None:
    raise SecurityError("it is random, so that prompts could not be reproduced")


def render(source: str, functions: Mapping[str, Callable], values: Mapping[str, Any]) -> str:
    """Render a template, which may call `functions` too. Raises whatever its expressions raise."""
    sandbox = Sandbox()
    sandbox.globals |= functions
    return Template.from_code(sandbox, _code(source), sandbox.globals).render(**values)


def check(source: str) -> None:
    """Compile a template, and raise whatever that raises."""
    _code(source)


@lru_cache(maxsize=8)
def _code(source: str) -> CodeType:
    """The compiled template, cached: compiling takes longer than rendering most conversations."""
    if len(source) > SOURCE:
        raise SecurityError(f"it has {len(source):,} characters, expected at most {SOURCE:,}")
    return Sandbox().compile(source)


@lru_cache(maxsize=8)
def values_read(source: str) -> set[str]:
    """The names of the values that a template reads. Raises TemplateError for one that cannot be parsed."""
    return find_undeclared_variables(Sandbox().parse(source))


class _Formatter(SandboxedFormatter):
    """The method format; each field counts as a step, and its parts are measured."""

    _env: Sandbox

    def get_field(self, field_name: str, args: Sequence, kwargs: Mapping) -> tuple[Any, str]:
        """The value of one field."""
        self._env.tick()
        if len(field_name) > WIDTH:
            raise SecurityError(f"the format {field_name[:40]!r} is too wide")
        return super().get_field(field_name, args, kwargs)

    def format_field(self, value: Any, format_spec: str) -> str:
        """A formatted field."""
        if sizes.WIDE.search(format_spec):
            raise SecurityError(f"the format {format_spec[:40]!r} is too wide")
        self._env.room(size(value))
        return super().format_field(value, format_spec)


class _Watched(NodeTransformer):
    """Adds to a template's tree the calls that count loops and measure values."""

    def _call(self, node: nodes.Node, name: str, *args: nodes.Node) -> nodes.Call:
        call = nodes.Call(nodes.EnvironmentAttribute(name), list(args), [], None, None)
        call.set_lineno(node.lineno)
        call.set_environment(node.environment)  # type: ignore[arg-type]
        return call

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        """Count the steps of loops."""
        self.generic_visit(node)
        node.iter = self._call(node, "counted", node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        """Measure the operator ~."""
        self.generic_visit(node)
        return self._call(node, "joined", *node.nodes)

    def _literal(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        plain = all(isinstance(item, nodes.Const) for item in node.items)
        stored = getattr(node, "ctx", "load") != "load"
        return node if plain or stored else self._call(node, "sized", node)

    visit_List = visit_Tuple = visit_Dict = _literal  # noqa: N815

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        """Measure slices, except those of constants, which Jinja2 computes when it compiles."""
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        try:
            node.as_const()
        except Exception:  # nodes.Impossible, or whatever a constant raises, and raises again when it runs
            return self._call(node, "sized", node)
        return node

    def visit_Const(self, node: nodes.Const) -> nodes.Const:  # noqa: N802
        """Measure constants."""
        size(node.value)
        return node

    def visit_ScopedEvalContextModifier(self, node: nodes.Node) -> nodes.Node:  # noqa: N802
        """Refuse the block autoescape."""
        raise SecurityError("autoescape is not supported")
