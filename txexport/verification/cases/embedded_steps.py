"""Steps of a decoder whose tokens are embedded by a graph of their own, and the choice among all kinds."""

from collections.abc import Sequence

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import IMAGE_FEATURES, INPUT_IDS, INPUTS_EMBEDS
from txexport.parts.cases import DecoderCase
from txexport.runtime.generation.media import Media
from txexport.verification.cases.decoder_steps import (
    DynamicSteps,
    HubSteps,
    SharedSteps,
    StaticSteps,
    Steps,
)
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.references.reference import Arrays


class EmbeddedSteps(DynamicSteps):
    """Steps by the ecosystem's contract where a graph of its own embeds tokens; images replace vectors."""

    embeds_by = roles.EMBED_TOKENS
    embedded: np.ndarray

    def stepping(self, case: DecoderCase) -> str:
        """See Steps."""
        return roles.DECODER_MERGED

    def features(self, new: list[list[int]]) -> dict[str, np.ndarray]:
        """See Steps."""
        return {IMAGE_FEATURES: self.vectors(new)}

    def advance(self, feeds: dict[str, np.ndarray]) -> np.ndarray:
        """See Steps."""
        embeds = self.read_tokens(feeds.pop(INPUT_IDS), feeds.pop(IMAGE_FEATURES))
        return super().advance(feeds | {INPUTS_EMBEDS: embeds})

    def read_tokens(self, ids: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Ids (B,S) and the vectors (n,W) of images among them -> what the decoder reads (B,S,W)."""
        self.embedded = self.runner.run(self.embeds_by, **{INPUT_IDS: ids})[INPUTS_EMBEDS]
        embeds = self.embedded.copy()
        if any(self.media):
            embeds[ids == self.runner.bundle.image_token_id] = vectors
        return embeds

    def embeds(self, row: int, truth: Arrays) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """See Steps."""
        computed = self.embedded[row][self.new[row]]
        until = int(self.lengths[row])
        return {INPUTS_EMBEDS: (computed, self.expected(row, truth)[until - len(computed) : until])}

    def expected(self, row: int, truth: Arrays) -> np.ndarray:
        """The vectors (S,W) that the reference has for a row."""
        return truth[INPUTS_EMBEDS]


class JoinedSteps(EmbeddedSteps):
    """The same where that graph also puts images in their places, as in onnxruntime-genai."""

    embeds_by = roles.EMBEDDING

    def read_tokens(self, ids: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """See EmbeddedSteps."""
        inputs = {INPUT_IDS: ids, IMAGE_FEATURES: vectors}
        self.embedded = self.runner.run(self.embeds_by, **inputs)[INPUTS_EMBEDS]
        return self.embedded

    def expected(self, row: int, truth: Arrays) -> np.ndarray:
        """See EmbeddedSteps; the first tokens of images have their vectors."""
        vectors = truth[INPUTS_EMBEDS].copy()
        if IMAGE_FEATURES in truth:
            features = truth[IMAGE_FEATURES].reshape(-1, vectors.shape[-1])
            of_images = np.array(self.case.rows[row]) == self.runner.bundle.image_token_id
            vectors[np.flatnonzero(of_images)[: len(features)]] = features
        return vectors


def steps_of(
    runner: GraphRunner,
    case: DecoderCase,
    cross: dict[str, np.ndarray],
    media: Sequence[Media] | None = None,
) -> list[Steps]:
    """The kinds of steps for the bundle's graphs; arguments as for Steps."""
    if roles.EMBED_TOKENS in runner.manifest.graphs:
        kinds = [EmbeddedSteps, *[JoinedSteps] * (roles.EMBEDDING in runner.manifest.graphs)]
        return [kind(runner, case, cross, media) for kind in kinds]
    ways = {roles.DECODER_WITH_PAST: False, roles.DECODER_MERGED: True}
    others = [HubSteps(runner, case, cross, ways[role]) for role in ways if role in runner.manifest.graphs]
    if others:
        return list(others)
    static = runner.manifest.cache == "static"
    steps: list[Steps] = [(StaticSteps if static else DynamicSteps)(runner, case, cross, media)]
    if roles.SHARED in runner.manifest.graphs and not case.left:
        steps.append(SharedSteps(runner, case, cross))
    return steps
