"""A model that reads what begins alike only once: what Model.session gives."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from txexport.runtime.generation.prefixes import PrefixStore
from txexport.runtime.generation.prompts import Prompts
from txexport.runtime.generation.search import Generated
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.chat import Messages
from txexport.runtime.tasks import streaming, text_generation


class PrefixSession:
    """The methods of Model that generate, with the same arguments, over one `store` of what was read before.

    A conversation's next turn reads what is new, and so does a prompt that begins as another did. Threads may
    share a session; made by `Model.session`.
    """

    def __init__(self, bundle: LoadedBundle, store: PrefixStore):
        self.bundle, self.store = bundle, store

    def generate(self, prompts: Prompts, **options: Any) -> str | list[str] | list[list[str]]:
        """See Model.generate."""
        return text_generation.generate(self.bundle, prompts, prefix_store=self.store, **options)

    def generate_ids(
        self, input_ids: Sequence[Sequence[int] | np.ndarray], **options: Any
    ) -> list[list[int]]:
        """See Model.generate_ids."""
        return text_generation.generate_ids(self.bundle, input_ids, prefix_store=self.store, **options)

    def generate_with_scores(
        self, input_ids: Sequence[Sequence[int] | np.ndarray], **options: Any
    ) -> list[Generated]:
        """See Model.generate_with_scores."""
        options |= {"prefix_store": self.store}
        return text_generation.generate_with_scores(self.bundle, input_ids, **options)

    def stream(self, prompt: str, **options: Any) -> Iterator[str]:
        """See Model.stream."""
        return streaming.stream(self.bundle, prompt, prefix_store=self.store, **options)

    def stream_many(self, prompts: Sequence, **options: Any) -> Iterator[tuple[int, str]]:
        """See Model.stream_many."""
        return streaming.stream_many(self.bundle, prompts, prefix_store=self.store, **options)

    def chat(self, messages: Messages, **options: Any) -> str:
        """See Model.chat."""
        return text_generation.chat(self.bundle, messages, prefix_store=self.store, **options)

    def stream_chat(self, messages: Messages, **options: Any) -> Iterator[str]:
        """See Model.stream_chat."""
        return streaming.stream_chat(self.bundle, messages, prefix_store=self.store, **options)
