"""A client's process per module, and bundles as `export` writes them by default, made once a session."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.client_rows import save_checkpoint
from helpers.rows import Row

from txexport.exporter import export
from txexport.verification.clients.process import CLIENTS, Process


@dataclass(frozen=True)
class Exported:
    """A row's checkpoint and its bundle."""

    checkpoint: Path
    bundle: Path


@pytest.fixture(scope="session")
def exported(tmp_path_factory) -> Callable[..., Exported]:
    """A function from a row and a layout to its files, which no test may change."""
    made: dict[tuple[str, str | None], Exported] = {}

    def get(row: Row, client: str | None = None) -> Exported:
        if (row.id, client) not in made:
            folder = tmp_path_factory.mktemp("client")
            made[row.id, client] = Exported(folder / "checkpoint", folder / "bundle")
            save_checkpoint(row, folder / "checkpoint")
            export(folder / "checkpoint", folder / "bundle", task=row.task, client=client)
        return made[row.id, client]

    return get


@pytest.fixture(scope="module")
def process(request) -> Iterator[Process]:
    """The process of the client that the module names."""
    client = CLIENTS[request.module.CLIENT]
    if client.missing() is not None:
        pytest.skip(str(client.missing()))
    with Process(client) as process:
        yield process


@pytest.fixture
def record(request, process, record_property) -> Iterator[Callable[[Row, str], None]]:
    """A function that records, for the table in docs/, the row, task and feature of a test."""

    def note(row: Row, what: str) -> None:
        for name, value in (("family", row.model_type), ("task", row.task), ("what", what)):
            record_property(name, value)

    record_property("client", request.module.CLIENT)
    yield note
    record_property("versions", json.dumps(process.versions))
