"""`verify --client`: other software as a column of the report."""

import shutil

import numpy as np
import onnx
import onnxruntime
import pytest

from txexport import bundle
from txexport.errors import InputError, UnsupportedError
from txexport.verification import verify
from txexport.verification.clients import judged
from txexport.verification.clients.process import Client
from txexport.verification.reports.facts import facts_line
from txexport.verification.reports.repeat import repeat_command

ROWS = [
    *[("optimum", name) for name in ("bert", "gpt2", "t5", "clip")],
    *[("js", name) for name in ("bert", "gpt2", "t5", "clip")],
    ("genai", "gpt2"),
    *[("openvino", name) for name in ("bert", "gpt2")],
]


def asked(client: str, folder, **options):
    """The report with the client's column; the test is skipped where the client is not installed."""
    try:
        judged.check(client, folder, bundle.read(folder))
    except UnsupportedError as why:
        pytest.skip(str(why))
    return verify(folder, reference="twin", cases="quick", client=client, **options)


@pytest.mark.parametrize(("client", "model_type"), ROWS)
def test_a_client_is_a_column_of_the_report(client, model_type, bundle_of):
    report = asked(client, bundle_of(model_type))
    assert report.ok, facts_line(report)
    assert report.runtimes == ["onnxruntime", f"client {client}"]
    own = [case for case in report.cases if case.runtime == f"client {client}"]
    assert own
    assert all(case.graphs == "hub" for case in own)
    assert all(case.checks or case.name == judged.OUTPUTS for case in own)


def test_an_output_that_a_client_does_not_give_is_said(bundle_of, monkeypatch):
    folder = bundle_of("bert")
    graph = bundle.read(folder).hub["model"].file

    def opened(name, client, folder, manifest):
        session = onnxruntime.InferenceSession(folder / graph)
        return lambda inputs: {"last_hidden_state": session.run(["last_hidden_state"], inputs)[0]}

    monkeypatch.setattr(judged, "started", lambda name, stack: None)
    monkeypatch.setattr(judged, "forward_of", opened)
    monkeypatch.setattr(judged, "check", lambda *given: None)
    lines: list[str] = []
    report = verify(folder, reference="twin", cases="quick", client="optimum", progress=lines.append)
    assert report.ok, facts_line(report)
    assert f": {len(lines)} of {len(lines)}, " in lines[-1]
    own = [case for case in report.cases if case.runtime == "client optimum"]
    assert {check.output for case in own for check in case.checks} == {"last_hidden_state"}
    assert [case.skipped for case in own if case.skipped] == ["optimum returns no pooler_output"]


@pytest.mark.parametrize("client", ["optimum", "js", "genai"])
def test_a_graph_that_computes_something_else_shows_in_its_column(client, bundle_of, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(bundle_of("gpt2"), folder)
    path = folder / bundle.read(folder).hub["model"].file
    model = onnx.load(path, load_external_data=False)
    norm = next(node for node in model.graph.node if node.op_type == "LayerNormalization")
    next(attribute for attribute in norm.attribute if attribute.name == "epsilon").f = 0.5
    onnx.save(model, path)
    report = asked(client, folder, allow_edited=True)
    [first, *_] = [case for case in report.failed if case.runtime == f"client {client}"]
    assert repeat_command(report, first).endswith(f"--client {client} --allow-edited")


def test_what_cannot_be_asked_is_said_before_the_work(bundle_of, monkeypatch):
    folder = bundle_of("gpt2")
    with pytest.raises(InputError, match="client 'tract' is not known; expected one of optimum, js, genai"):
        verify(folder, cases="quick", client="tract")
    monkeypatch.setattr(Client, "missing", lambda client: f"{client.name} is away")
    with pytest.raises(UnsupportedError, match="cannot be tried in genai: genai is away"):
        verify(folder, cases="quick", client="genai")
    monkeypatch.setattr(Client, "missing", lambda client: None)
    with pytest.raises(
        UnsupportedError, match="has no graphs for other clients; export without --only native"
    ):
        verify(bundle_of("gpt2", "dynamic"), cases="quick", client="genai")


def test_a_sound_and_an_image_have_names_of_their_own():
    for shape, name in (((80, 30), "input_features"), ((3, 30, 30), "pixel_values")):
        assert name in judged._inputs([[1]], [np.zeros(shape, np.float32)], False)
