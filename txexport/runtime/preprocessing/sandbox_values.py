"""Extensions of Jinja2 that chat templates use, as in transformers."""

from collections.abc import Callable, Iterable
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.utils import Namespace

from txexport.runtime.preprocessing.sandbox_sizes import SIZE, size, vars_of


class Generation(Extension):
    """The block {% generation %}, which marks the assistant's text for training; its text is written.

    It has a scope of its own, as a macro has: variables that are set in it are not visible after it.
    """

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        """Jinja2's hook for the tag."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("written"), [], [], body).set_lineno(line)

    def written(self, caller: Callable[[], str]) -> str:
        """The text that the block writes."""
        return caller()


class Dictionary:
    """The function dict, without the type's methods, which would change their arguments."""

    def __call__(self, *arguments: Any, **named: Any) -> dict:
        """A dictionary of pairs, another dictionary, or names."""
        return dict(*arguments, **named)

    def fromkeys(self, keys: Iterable, value: Any = None) -> dict:
        """A dictionary that has one value for all keys."""
        return dict.fromkeys(keys, value)


class TemplateNamespace(Namespace):
    """A namespace without names that begin with an underscore; its size is checked before it is written."""

    def __init__(*arguments: Any, **named: Any) -> None:  # so that one may hold `self`
        self, *positional = arguments
        for name in (attributes := dict(*positional, **named)):
            _check_name(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        """Jinja2's hook for assignments. Raises SecurityError for a name with an underscore."""
        _check_name(name)
        super().__setitem__(name, value)

    def __repr__(self) -> str:
        """The text of the values. Raises SecurityError where it is too long or contains itself."""
        if size(self) > SIZE:
            raise SecurityError(f"a namespace of more than {SIZE:,} characters is not written out")
        return f"<Namespace {vars_of(self)!r}>"


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace takes no {name[:40]!r}, which begins with an underscore")
