"""Model's methods are the functions of runtime/tasks: one signature, one docstring, seen by every tool."""

import pickle
import pydoc
from inspect import Parameter, signature, unwrap
from typing import get_type_hints

import pytest

from txexport.runtime import Model
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.tasks.prefix_session import PrefixSession
from txexport.runtime.tasks.question_answering import AnswerKeywords, AnswerOptions
from txexport.tasks import ROWS

OWN = {"close"}  # of Model itself, beside its properties


def methods(owner: type) -> dict:
    return {
        name: value for name, value in vars(owner).items() if callable(value) and not name.startswith("_")
    }


ATTACHED = [
    *(("Model", name, method) for name, method in methods(Model).items() if name not in OWN),
    *(("PrefixSession", name, method) for name, method in methods(PrefixSession).items()),
]


@pytest.mark.parametrize(
    ("owner", "name", "method"), ATTACHED, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_method_looks_like_its_function(owner, name, method):
    """Arguments in their order with types and defaults, result and docstring; `self` for the bundle."""
    function = unwrap(method)
    assert function.__module__.startswith("txexport.runtime.")
    itself, *arguments = signature(method).parameters.values()
    bundle, *expected = signature(function).parameters.values()
    assert (itself.name, itself.annotation) == ("self", Parameter.empty)
    assert bundle.name in ("bundle", "self")
    assert arguments == expected
    assert signature(method).return_annotation == signature(function).return_annotation
    assert method.__doc__ == function.__doc__
    assert method.__doc__
    assert (method.__name__, function.__name__) == (name, name)
    assert method.__qualname__ == f"{owner}.{name}"


def test_every_method_of_a_task_is_attached():
    assert {method for task in ROWS for method in task.methods} <= methods(Model).keys()


def test_a_method_asks_for_what_its_function_needs():
    assert unwrap(Model.run) is LoadedBundle.run
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'texts'"):
        Model(None).classify()


def test_help_shows_the_arguments_and_the_docstring_of_a_method():
    text = pydoc.plain(pydoc.render_doc(Model))
    assert "classify(\n        self,\n        texts:" in text or "classify(self, texts:" in text
    assert "The labels of a text, likeliest first" in text
    assert signature(Model.__new__(Model).classify).parameters.keys() == {
        "texts",
        "top_k",
        "truncate",
        "batch_tokens",
        "progress",
    }


@pytest.mark.parametrize("owner", [Model, PrefixSession])
def test_methods_are_pickled_by_name(owner):
    """Ray and Spark send functions to their workers so."""
    for method in methods(owner).values():
        assert pickle.loads(pickle.dumps(method)) is method


def test_every_public_method_says_what_it_does():
    public = [value for name, value in vars(Model).items() if not name.startswith("_")]
    assert all(value.__doc__ for value in public)


def test_keywords_of_an_options_object_are_its_fields():
    """mypy reads the TypedDict, and inspect, the server and the documentation the dataclass."""
    assert get_type_hints(AnswerKeywords) == get_type_hints(AnswerOptions)
    arguments = signature(Model.answer).parameters
    assert list(arguments)[:4] == ["self", "question", "context", "top_k"]
    assert {name: arguments[name].default for name in get_type_hints(AnswerOptions)} == vars(AnswerOptions())
    assert list(arguments)[-2:] == ["batch_tokens", "progress"]
    with pytest.raises(TypeError, match="unexpected keyword argument 'top'"):
        AnswerOptions(top=3)
