"""A Model with a prefix store, as returned by Model.session."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from txexport.runtime.generation.prefixes import PrefixStore
from txexport.runtime.generation.prompts import Prompts
from txexport.runtime.generation.search import Generated
from txexport.runtime.preprocessing.chat import Messages


class PrefixSession:
    """Model's generation methods, with the same arguments, over one prefix `store`.

    Only tokens after the longest stored prefix are computed, as for a conversation's next turn. Threads may
    share a session; created by `Model.session`.
    """

    def __init__(self, model: Any, store: PrefixStore):  # a Model, whose module imports this one
        self.model, self.store = model, store

    def generate(self, prompts: Prompts, **options: Any) -> str | list[str] | list[list[str]]:
        """See Model.generate."""
        return self.model.generate(prompts, prefix_store=self.store, **options)

    def generate_ids(
        self, input_ids: Sequence[Sequence[int] | np.ndarray], **options: Any
    ) -> list[list[int]]:
        """See Model.generate_ids."""
        return self.model.generate_ids(input_ids, prefix_store=self.store, **options)

    def generate_with_scores(
        self, input_ids: Sequence[Sequence[int] | np.ndarray], **options: Any
    ) -> list[Generated]:
        """See Model.generate_with_scores."""
        return self.model.generate_with_scores(input_ids, prefix_store=self.store, **options)

    def stream(self, prompt: str, **options: Any) -> Iterator[str]:
        """See Model.stream."""
        return self.model.stream(prompt, prefix_store=self.store, **options)

    def stream_many(self, prompts: Sequence, **options: Any) -> Iterator[tuple[int, str]]:
        """See Model.stream_many."""
        return self.model.stream_many(prompts, prefix_store=self.store, **options)

    def chat(self, messages: Messages, **options: Any) -> str:
        """See Model.chat."""
        return self.model.chat(messages, prefix_store=self.store, **options)

    def stream_chat(self, messages: Messages, **options: Any) -> Iterator[str]:
        """See Model.stream_chat."""
        return self.model.stream_chat(messages, prefix_store=self.store, **options)
