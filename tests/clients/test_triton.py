"""A model repository for Triton: its own protobuf reads the settings, which match the graphs."""

import pytest
from helpers.client_rows import WHISPER, rows_of
from helpers.rows import FEATURES, GENERATE, LABEL, MATCH, TRANSLATE

from txexport import bundle
from txexport.exporter import export
from txexport.verification.clients.process import Call

CLIENT = "triton"
ROWS = [
    *rows_of(("bert",), (FEATURES,)),
    *rows_of(("vit",), (LABEL,)),
    *rows_of(("clip",), (MATCH,)),
    *rows_of(("gpt2",), (GENERATE,)),
    *rows_of(("t5",), (TRANSLATE,)),
    WHISPER,
]


def listed(ports) -> list:
    return [
        [port.name, port.dtype, [dim if isinstance(dim, int) else -1 for dim in port.shape]] for port in ports
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_settings_are_those_of_the_graphs(row, exported, process, record, tmp_path):
    record(row, "config.pbtxt by its protobuf (--for triton)")
    out = tmp_path / "repository"
    manifest = export(exported(row).checkpoint, out, task=row.task, client="triton")
    answers = process.ask(out, row.task, [Call("ports", options={"model": role}) for role in manifest.hub])
    for graph, answer in zip(manifest.hub.values(), answers, strict=True):
        assert answer["inputs"] == listed(graph.inputs)
        assert answer["outputs"] == listed(graph.outputs)
        # In a dual encoder's graph, texts and images have separate batch axes.
        together = row.model_type != "clip"
        assert answer["batch"] == (64 if together else 0)
        assert answer["preferred"] == ([8, 16, 32, 64] if together else [])
        assert answer["delay"] == (1000 if together else 0)
        assert answer["instances"] == [[0, 1]]  # KIND_AUTO, and one of it
    assert bundle.read(out).hub == manifest.hub
