"""Traces of a checkpoint, made again once: `verify` of damaged copies compares each with the same ones."""

import pytest
from helpers.kept_traces import KeptTraces

from txexport.verification.traced import verifying


@pytest.fixture(scope="session")
def _traces():
    return KeptTraces()


@pytest.fixture(autouse=True)
def kept_traces(monkeypatch, _traces):
    """The second trace of a checkpoint, which a verification makes, serves later verifications too."""
    for name in ("traced", "traced_decoder", "traced_sequence"):
        monkeypatch.setattr(verifying, name, _traces.of(getattr(verifying, name)))
