"""Generation with a prefix cache: Model.session."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from txexport.runtime.generation.prefixes import TOKENS, PrefixStore
from txexport.runtime.generation.requests import check_store
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.methods import attached, like
from txexport.runtime.tasks import streaming, text_generation

P = ParamSpec("P")
R = TypeVar("R")


def _over_store(
    function: Callable[Concatenate[LoadedBundle, P], R],
) -> Callable[Concatenate["PrefixSession", P], R]:
    """Make a PrefixSession method of a function that generates; it passes the session's bundle and store."""
    generate: Callable[..., R] = function

    def method(self: "PrefixSession", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return generate(self.bundle, *args, prefix_store=self.store, **kwargs)

    return like(function, method)


@attached
class PrefixSession:
    """The methods of Model that generate, with the same arguments, over one prefix cache, `store`.

    Tokens with which an earlier prompt also began are not computed again, such as the earlier turns of a
    conversation. Threads may share a session; made by `Model.session`.
    """

    def __init__(self, bundle: LoadedBundle, store: PrefixStore):
        self.bundle, self.store = bundle, store

    generate = _over_store(text_generation.generate)
    generate_ids = _over_store(text_generation.generate_ids)
    generate_with_scores = _over_store(text_generation.generate_with_scores)
    stream = _over_store(streaming.stream)
    stream_many = _over_store(streaming.stream_many)
    chat = _over_store(text_generation.chat)
    stream_chat = _over_store(streaming.stream_chat)


def session(bundle: LoadedBundle, max_tokens: int = TOKENS, *, max_bytes: int | None = None) -> PrefixSession:
    """A session, whose `generate`, `chat` and `stream` reuse the prefixes of earlier prompts.

    It stores the keys and values of at most `max_tokens` tokens and `max_bytes` bytes (None: no limit), and
    evicts the least recently used ones first. States, which some models have beside keys and values, count as
    the tokens of their size, and only a continued conversation is reused then: a prompt that begins with a
    whole earlier one and its answer. For decoders without an encoder.
    """
    check_task(bundle, "generate")
    store = PrefixStore(max_tokens, max_bytes)
    check_store(bundle, store)
    return PrefixSession(bundle, store)
