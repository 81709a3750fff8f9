"""Stages of models whose last graph reads the vectors of texts and of images."""

from collections.abc import Mapping
from dataclasses import replace

from txexport.contracts import names, roles
from txexport.contracts.contract import Signature
from txexport.contracts.stage import ONCE, GraphFacts, Stage, sources_of
from txexport.parts.inputs import input_of
from txexport.spec import SignalStackSpec, TextStackSpec


def stages_of(text: TextStackSpec, vision: SignalStackSpec, graphs: Mapping[str, Signature]) -> list[Stage]:
    """Both encoders, then the other graphs. A single graph for other clients replaces the encoders."""
    read = replace(input_of(text).facts(text.embedding), limit="text")
    facts = {roles.TEXT: read, roles.MODEL: read}
    facts[roles.VISION] = input_of(vision).facts(vision.embedding)
    vectors = {
        names.TEXT_EMBEDS: f"{roles.TEXT}.{names.TEXT_EMBEDS}",
        names.IMAGE_EMBEDS: f"{roles.VISION}.{names.IMAGE_EMBEDS}",
    }
    encoders = [roles.TEXT, roles.VISION]
    order = [*encoders, *(role for role in graphs if role not in encoders)]
    return [
        Stage(
            role,
            ONCE,
            sources_of(graphs[role].inputs, vectors),
            facts.get(role, GraphFacts()),
            encoders if role == roles.MODEL else [],
        )
        for role in order
    ]
