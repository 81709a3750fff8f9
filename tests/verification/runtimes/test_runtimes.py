"""The same cases on every runtime: a runtime that is wrong, missing or refuses must show as such."""

import http.client
import re
import shutil
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import matrix
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from click.testing import CliRunner
from helpers.bundle_edits import graph_path
from helpers.graph_edits import set_attribute

from txexport import bundle
from txexport.cli.main import main
from txexport.contracts import Port
from txexport.errors import InputError, UnsupportedError
from txexport.exporter import export
from txexport.pytest_plugin import AssertParity
from txexport.runtime import Model
from txexport.runtime.engines import onnxruntime as engine
from txexport.runtime.engines.computed import Computed
from txexport.runtime.engines.onnxruntime import open_sessions
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.session import Session
from txexport.verification import Report, environment, reports, verify
from txexport.verification.checks import ALL_CASES, FORMAT_LOSS, HUB, NATIVE
from txexport.verification.reports.facts import facts_line
from txexport.verification.reports.repeat import repeat_command
from txexport.verification.reports.views import worst_outputs
from txexport.verification.runtimes import RUNTIMES, node, npm, openvino, page, reference, runtime, web
from txexport.verification.runtimes.frames import builder, decode, encode

# Options of an export that a runtime takes, where those of every other are not.
FORM = {"openvino": {"opset": 23, "inline": True}, "webgpu": {"client": "web"}}
MODELS = [("bert", None), ("gpt2", "static"), ("gpt2", "dynamic"), ("bart", "static"), ("clip", None)]


@pytest.fixture(scope="module")
def form_of(bundle_of, checkpoint_of, tmp_path_factory):
    """A function from a runtime, a model_type and a cache to a bundle in a form that the runtime takes."""
    flat: dict[tuple, Path] = {}

    def get(name: str, model_type: str, cache: str | None = None) -> Path:
        why = RUNTIMES[name].missing()
        if why is not None:
            pytest.skip(f"{name}: {why}")
        if name not in FORM:
            return bundle_of(model_type, cache)
        key = (model_type, None if name == "webgpu" else cache, name)
        if key not in flat:
            flat[key] = tmp_path_factory.mktemp("flat") / "out"
            export(checkpoint_of(model_type), flat[key], cache=key[1], **FORM[name])
        return flat[key]

    return get


def invoke(*arguments) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.parametrize(("model_type", "cache"), MODELS, ids=[f"{m}-{c}" for m, c in MODELS])
@pytest.mark.parametrize("name", list(RUNTIMES))
def test_every_runtime_computes_the_same(name, model_type, cache, form_of):
    report = verify(form_of(name, model_type, cache), runtime=name, reference="twin", cases="quick")
    assert report.ok, facts_line(report)
    ran = [case for case in report.cases if case.runtime is not None and case.skipped is None]
    assert {case.runtime for case in ran} == set(report.runtimes) == {name}
    assert len(ran) >= (1 if model_type == "clip" else 3 if name == "webgpu" else 4)
    assert all(check.elements for case in ran for check in case.checks)
    assert report.runtime == f"{name} {'webgpu' if name == 'webgpu' else 'cpu'}"


@pytest.mark.parametrize("name", list(RUNTIMES))
def test_changed_graph_is_caught_on_every_runtime(name, form_of, tmp_path):
    shutil.copytree(form_of(name, "gpt2", "static"), tmp_path / "out")
    [file, *_] = (tmp_path / "out" / "onnx").glob("model*.onnx")
    model = onnx.load(file, load_external_data=False)
    nodes = [node for part in (model.graph, *model.functions) for node in part.node]
    norms = [node for node in nodes if node.op_type == "LayerNormalization"]
    assert norms
    for norm in norms:
        set_attribute(norm, "epsilon", 1e-2)
    onnx.save(model, file)
    report = verify(tmp_path / "out", runtime=name, reference="twin", cases="quick", allow_edited=True)
    assert {case.runtime for case in report.failed} == {name}
    assert not any(case.exception for case in report.failed), "the graph should run, and run wrongly"
    assert "logits" in {check.output for case in report.failed for check in case.checks if not check.ok}


def stand_in(name: str, build) -> runtime.Runtime:
    """A runtime of our own."""

    @contextmanager
    def opened(files, device, options):
        yield "cpu", {role: runtime.load(path, name, build) for role, path in files.items()}

    return runtime.Runtime(name, opened)


def off_by(error: float):
    """A factory of a runtime with wrong logits."""

    def build(path):
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [port.name for port in session.get_outputs()]

        def compute(feeds):
            found = dict(zip(names, session.run(None, feeds), strict=True))
            return found | {"logits": found["logits"] + np.float32(error)}

        return compute

    return build


@pytest.fixture
def two(monkeypatch):
    """ONNX Runtime and a runtime of our own are all that there are: a function that sets the latter."""
    for name in list(RUNTIMES):
        if name != "onnxruntime":
            monkeypatch.delitem(RUNTIMES, name)

    def use(found: runtime.Runtime) -> None:
        monkeypatch.setitem(RUNTIMES, found.name, found)

    return use


def test_runtime_that_is_wrong_fails_in_its_own_column(two, bundle_of, tmp_path):
    two(stand_in("other", off_by(1e-3)))
    report = verify(bundle_of("gpt2"), runtime="all", reference="twin", cases="quick")
    assert report.runtimes == ["onnxruntime", "other"]
    assert {case.runtime for case in report.failed} == {"other"}
    assert 1e-4 < worst_outputs(report, "other")["logits"].error < 2e-3
    assert worst_outputs(report, "onnxruntime")["logits"].ok
    code, output = invoke(
        *repeat_command(report, report.failed[0]).split()[1:3], "--runtime", "other", "-q", "--cases", "quick"
    )
    assert code == 1
    assert "NOT EQUAL to twin and transformers on other cpu" in output
    assert "--runtime other" in repeat_command(report, report.failed[0])
    assert "(twin on other)" in facts_line(report)
    reports.write(report, tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text()
    assert "| output | `onnxruntime` | `other` | bound |" in text
    [line] = [line for line in text.splitlines() if line.startswith("| `logits`")]
    assert [cell.endswith("❌ ") for cell in line.split("|")[2:4]] == [False, True]
    reports.write(report, tmp_path / "r.xml")
    assert 'classname="txexport.gpt2.text-generation.twin.other"' in (tmp_path / "r.xml").read_text()
    reports.write(report, tmp_path / "r.html")
    assert "<th>onnxruntime</th><th>other</th>" in (tmp_path / "r.html").read_text()
    assert Report.from_dict(report.to_dict()) == report


def test_runtime_within_tolerance_is_equal(two, bundle_of):
    two(stand_in("other", off_by(1e-7)))
    code, output = invoke("verify", bundle_of("gpt2"), "--runtime", "all", "--cases", "quick")
    assert code == 0
    assert "equal to twin and transformers on onnxruntime cpu, other cpu" in output
    assert "case against onnxruntime other" in output


def test_runtime_that_cannot_load_a_graph_is_red_among_all_and_untried_by_name(two, bundle_of):
    def build(path):
        raise ValueError("no such operator\nand more")

    two(stand_in("other", build))
    code, output = invoke("verify", bundle_of("bert"), "--runtime", "all", "--cases", "quick")
    assert code == 1
    assert "all cases (twin on other): other cannot load" in output
    code, output = invoke("verify", bundle_of("bert"), "--runtime", "other")
    assert code == 2
    assert output == f"error: other cannot load {graph_path(bundle_of('bert'))}: no such operator"


@pytest.mark.parametrize("named", ["other", "all"])
def test_dtype_that_a_runtime_cannot_load_is_its_failure_and_others_go_on(named, two, integers_of):
    """By its own words, and by the same rules whether the runtime is named or one of all."""

    def build(path):
        if "_q4" in path.name:
            raise ValueError("four bits are too few")
        return off_by(0)(path)

    two(stand_in("other", build))
    report = verify(integers_of("gpt2"), runtime=named, reference="twin", cases="quick")
    failed = {(case.graphs, case.runtime, case.name, case.exception) for case in report.failed}
    folder = integers_of("gpt2") / "onnx"
    assert failed == {
        (f"{kind} int4", "other", ALL_CASES, f"other cannot load {folder / file}: four bits are too few")
        for kind, file in (("native", "model_static_q4.onnx"), ("hub", "model_q4.onnx"))
    }
    others = [case for case in report.cases if case.runtime == "other" and case.name == FORMAT_LOSS]
    assert {case.graphs for case in others} == {"native int8", "hub int8"}
    assert all(case.ok and case.checks for case in others)


def test_graph_that_a_runtime_refuses_to_run_is_a_failure(two, bundle_of):
    def build(path):
        def compute(feeds):
            raise ValueError("too odd")

        return compute

    two(stand_in("other", build))
    report = verify(bundle_of("bert"), runtime="other", reference="twin", cases=["one token"])
    assert [case.graphs for case in report.failed] == [NATIVE, HUB]
    assert {case.exception for case in report.failed} == {"other refused: too odd"}


MISSING = [
    (
        "openvino",
        "openvino is not installed; pip install '.[openvino]' in a checkout of txexport",
    ),
    ("node", "node is not installed"),
    *(
        (name, "Chromium is not installed; install it, or set CHROME_BIN to its path")
        for name in ("web", "webgpu")
    ),
]


@pytest.mark.parametrize(("name", "said"), MISSING, ids=[row[0] for row in MISSING])
def test_runtime_that_is_not_installed_is_said(name, said, bundle_of, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda command: None)
    monkeypatch.setattr(openvino, "find_spec", lambda package: None)
    code, output = invoke("verify", bundle_of("bert"), "--runtime", name)
    assert code == 2
    assert output == f"error: {bundle_of('bert')} cannot be tried on {name}: {said}"
    code, output = invoke("verify", bundle_of("bert"), "--runtime", "all", "--cases", "quick")
    assert code == 0
    assert f"{name}: {said}" in output
    assert f"{name} cpu" not in output


def test_package_of_npm_is_found_above_and_in_node_path(tmp_path, monkeypatch):
    folder = tmp_path / "node_modules/some-runtime"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"version": "1.2.3"}')
    (tmp_path / "below").mkdir()
    monkeypatch.delenv("NODE_PATH", raising=False)
    monkeypatch.chdir(tmp_path / "below")
    assert npm.find("some-runtime") == folder
    assert npm.version("some-runtime") == "1.2.3"
    monkeypatch.chdir("/")
    assert npm.missing("some-runtime").endswith("npm install some-runtime")
    monkeypatch.setenv("NODE_PATH", str(tmp_path / "node_modules"))
    assert npm.missing("some-runtime") is None


FORMS = [
    ({}, "OpenVINO knows no functions of a model; export with --inline --opset 23"),
    ({"opset": 23}, "OpenVINO knows no functions of a model; export with --inline"),
    (
        {"inline": True},
        "OpenVINO does not know the static cache of opset 24; export with --inline --opset 23",
    ),
    ({"cache": "dynamic"}, "OpenVINO knows no functions of a model; export with --inline"),
    ({"cache": "dynamic", "inline": True}, None),
    ({"opset": 23, "inline": True}, None),
]


@pytest.mark.parametrize(("options", "said"), FORMS, ids=[str(row[0]) for row in FORMS])
def test_form_that_openvino_takes_is_said(options, said, checkpoint_of, tmp_path):
    manifest = export(checkpoint_of("gpt2"), tmp_path / "out", **options)
    assert openvino.RUNTIME.refuses(tmp_path / "out", manifest) == said


def test_what_webgpu_cannot_compute_is_said(bundle_of, checkpoint_of, tmp_path, monkeypatch):
    rough = "WebGPU's cosines and sines are inaccurate; only graphs of export --for web do not use them"
    gpu = RUNTIMES["webgpu"]
    assert gpu.refuses(bundle_of("bert"), bundle.read(bundle_of("bert"))) == rough
    manifest = export(checkpoint_of("bert"), tmp_path / "out", client="web", dtype="float16")
    for features, reason in ((set(), "this WebGPU adapter has no shader-f16"), ({"shader-f16"}, None)):
        monkeypatch.setattr(web, "_features", lambda features=features: frozenset(features))
        assert gpu.refuses(tmp_path / "out", manifest) == reason


def test_graph_that_the_reference_cannot_evaluate_is_said(bundle_of):
    said = {
        model_type: reference.RUNTIME.refuses(bundle_of(model_type), bundle.read(bundle_of(model_type)))
        for model_type in ("longformer", "mixtral", "bert")
    }
    empty = "onnx's reference cannot flatten 0 rows, the input of an expert without tokens"
    assert said == {"longformer": None, "mixtral": empty, "bert": None}


def test_case_that_takes_the_reference_too_long_is_skipped(bundle_of, monkeypatch):
    monkeypatch.setattr(reference, "MOST", 3e6)
    report = verify(bundle_of("gpt2"), runtime="reference", reference="twin")
    assert report.ok
    skipped = {case.name: case.skipped for case in report.cases if case.skipped is not None}
    assert skipped["longest sequence in two chunks"] == (
        "9e+06 operations are too many for onnx's reference, which takes up to 3e+06"
    )
    assert "one token, then steps" not in skipped


def test_unoptimized_session_is_not_optimized(bundle_of):
    files = {"model": graph_path(bundle_of("bert"))}
    levels = {}
    for name in ("onnxruntime", "onnxruntime-unoptimized"):
        with RUNTIMES[name].open(files, "cpu", {}) as (_, sessions):
            levels[name] = sessions["model"].engine.session.get_session_options().graph_optimization_level
    assert levels["onnxruntime-unoptimized"] == ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert levels["onnxruntime"] == ort.GraphOptimizationLevel.ORT_ENABLE_ALL


@pytest.mark.parametrize(
    ("wanted", "device", "said"),
    [
        ("onnxrt", "cpu", "runtime 'onnxrt' is not known; expected all or one of onnxruntime, "),
        ([], "cpu", "no runtime is named; expected all or some of onnxruntime, "),
        ("reference", "cuda", "runtime 'reference' runs on the CPU only; leave out --device cuda"),
        ("reference", "CUDAExecutionProvider", "'reference' runs on the CPU only; leave out --device CUDA"),
        ("reference", "openvino", "runtime 'reference' runs on the CPU only; leave out --device openvino"),
    ],
)
def test_runtime_that_is_not_known_lists_the_known(wanted, device, said, bundle_of):
    with pytest.raises(InputError, match=said):
        verify(bundle_of("bert"), runtime=wanted, device=device)


def test_report_names_the_device_that_ran(bundle_of, monkeypatch):
    """One that is neither the CPU nor CUDA too: the command that repeats a case depends on it."""

    @contextmanager
    def elsewhere(files, device, options):
        assert device == "OpenVINO"
        where, sessions = open_sessions(files, "cpu", None, options)
        assert where == "cpu"
        yield "openvino", sessions

    monkeypatch.setitem(RUNTIMES, "onnxruntime", replace(RUNTIMES["onnxruntime"], open=elsewhere))
    report = verify(bundle_of("bert"), device="OpenVINO", cases=["one token"], reference="twin")
    assert (report.device, report.runtime) == ("openvino", "onnxruntime openvino")
    assert repeat_command(report, report.cases[0]).endswith(" --device openvino")


def test_layers_run_on_what_sessions_run_on(monkeypatch):
    cpu, others = "CPUExecutionProvider", ["OpenVINOExecutionProvider", "CUDAExecutionProvider"]
    monkeypatch.setattr(ort, "get_available_providers", lambda: [*others, cpu])
    assert engine.providers("cpu") == [cpu]
    assert engine.providers("openvino") == [others[0], cpu]
    assert engine.providers("cuda") == [(others[1], {"use_tf32": 0}), cpu]


def test_versions_name_whichever_build_of_onnx_runtime_is_installed(monkeypatch):
    builds = {"onnxruntime": ["onnxruntime-openvino", "onnxruntime-openvino"]}
    monkeypatch.setattr(environment, "packages_distributions", lambda: builds)
    monkeypatch.setattr(environment, "_builds", environment._builds.__wrapped__)
    monkeypatch.setattr(environment, "version", lambda name: f"{name} 1.2")
    assert environment.versions()["onnxruntime-openvino"] == "onnxruntime-openvino 1.2"
    assert "onnxruntime" not in environment.versions()


def test_help_names_every_runtime():
    _, output = invoke("verify", "--help")
    assert all(name in output for name in RUNTIMES)


def test_fixture_takes_a_runtime(bundle_of):
    with pytest.raises(pytest.fail.Exception, match="could not be tried: runtime 'tensorflow' is not known"):
        AssertParity([])(bundle_of("bert"), runtime="tensorflow")
    found: list[dict] = []
    report = AssertParity(found)(
        bundle_of("bert"), runtime=["reference"], reference="twin", cases=["one token"]
    )
    assert report.runtimes == ["reference"]
    assert found[0]["cases"][0]["runtime"] == "reference"


def test_frame_comes_back_as_it_was():
    tensors = {
        "ids": np.arange(6).reshape(2, 3) - 2**40,
        "empty": np.zeros((1, 2, 0, 4), np.float32),
        "x": np.random.default_rng(0).standard_normal((3, 5), np.float32),
        "one": np.array(7),
    }
    message, found = decode(encode({"call": "run", "session": 3, "ü": "é"}, tensors))
    assert message == {"call": "run", "session": 3, "ü": "é"}
    assert list(found) == list(tensors)
    for name, array in tensors.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert np.array_equal(found[name], array)


def test_refusal_is_passed_on():
    """Without it, the next run on WebGPU would wait for an answer that never comes."""
    errors = []
    build = builder(lambda _: encode({"error": "too odd"}, {}), lambda _: {}, errors.append)
    with pytest.raises(RuntimeError, match="too odd") as refused:
        build(Path("model.onnx"))
    assert errors == [refused.value]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_node_that_ends_says_why(bundle_of, monkeypatch, tmp_path):
    monkeypatch.setattr(node.npm, "find", lambda package: tmp_path / "nowhere")
    files = {"model": graph_path(bundle_of("bert"))}
    with (
        pytest.raises(Exception, match=r"Node ended with code 1: .*Cannot find module .*nowhere"),
        node.RUNTIME.open(files, "cpu", {}),
    ):
        pass


def ask(found: page.Page, method: str, name: str, body: bytes = b"") -> http.client.HTTPResponse:
    """The requests of the page's browser."""
    host, _, path = found.url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=10)
    connection.request(method, f"/{path}{name}", body)
    return connection.getresponse()


def test_page_gets_work_and_gives_answers_until_it_dies(tmp_path):
    with page.serve({}) as found:
        alive = ask(found, "GET", "alive")
        browser = threading.Thread(
            target=lambda: ask(found, "POST", "answer", ask(found, "GET", "work").read() + b"!")
        )
        browser.start()
        assert found.send(b"work") == b"work!"
        browser.join()
        alive.close()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="the page or its browser has crashed"):
                found.send(b"more")


@pytest.mark.skipif(RUNTIMES["web"].missing() is not None, reason="there is no onnxruntime-web")
def test_page_stays_open_from_bundle_to_bundle_until_it_fails(form_of, monkeypatch):
    opened, open_page = [], web._page

    @contextmanager
    def counted(provider):
        with open_page(provider) as page:
            opened.append(page)
            yield page

    monkeypatch.setattr(web, "_page", counted)

    def pages(cache) -> int:
        bundle = form_of("web", "gpt2", cache)
        report = verify(bundle, runtime="web", reference="twin", cases=["one token, then steps"])
        assert report.ok, facts_line(report)
        return len(opened)

    with web.pages_kept_open():
        assert [pages("static"), pages("dynamic"), pages("static")] == [1, 1, 1]
        opened[0].failure = RuntimeError("the page or its browser has crashed")
        assert pages("dynamic") == 2
    assert pages("static") > 2


def test_page_that_does_not_open_is_said(monkeypatch):
    monkeypatch.setattr(page, "START", 0.1)
    with (
        page.serve({}) as found,
        pytest.raises(RuntimeError, match=r"did not open the page within 0\.1 seconds"),
    ):
        found.send(b"work")


def test_page_that_never_answers_is_said(monkeypatch):
    monkeypatch.setattr(page, "LONGEST", 0.1)
    with page.serve({}) as found:
        found.started.set()
        for _ in range(2):  # the next call fails at once, though the first one's answer comes
            with pytest.raises(RuntimeError, match=r"has not answered for 0\.1 seconds"):
                found.send(b"")
            found.answers.put(b"late")


def test_page_shows_its_files_and_no_others(tmp_path):
    (tmp_path / "shown").write_text("shown")
    (tmp_path / "hidden").write_text("hidden")
    with page.serve({"file": tmp_path / "shown"}) as found:
        answer = ask(found, "GET", "file")
        assert answer.read() == b"shown"
        assert answer.getheader("Cross-Origin-Embedder-Policy") == "require-corp"
        for name in ("hidden", "../file", "", str(tmp_path / "hidden")):
            assert ask(found, "GET", name).status == 404
        found.url = found.url.replace(found.root, "/")
        for name in ("file", "work"):
            assert ask(found, "GET", name).status == 404


def test_output_of_another_shape_is_not_copied_to_a_cache():
    ports = [Port("present.0.key", "float", ["", ""])]
    engine = Computed([], ports, lambda feeds: {"present.0.key": np.zeros((1, 2), np.float32)})
    value = engine.value(np.zeros((2, 1), np.float32), "cpu")
    bound = engine.bind({}, {"present.0.key": value}, [], "cpu")
    with pytest.raises(ValueError, match=r"'present.0.key' is \(1, 2\), expected \(2, 1\)"):
        bound({})


def test_model_on_another_runtime_searches_with_beams(bundle_of):
    """Reordered and grown caches pass through bindings too."""
    folder = bundle_of("gpt2", "static")
    manifest = bundle.read(folder)
    found = {}
    for name in ("onnxruntime", "reference"):
        with RUNTIMES[name].open({"model": graph_path(folder)}, "cpu", {}) as (_, sessions):
            assert isinstance(sessions["model"], Session)
            model = Model(LoadedBundle(folder, manifest, "cpu", sessions))
            found[name] = model.generate_ids([[5, 6, 7], [9]], num_beams=3, max_new_tokens=9)
    assert found["reference"] == found["onnxruntime"]


def test_named_runtimes_must_all_be_there(bundle_of, monkeypatch):
    monkeypatch.setattr(openvino, "find_spec", lambda package: None)
    with pytest.raises(UnsupportedError, match="cannot be tried on openvino: openvino is not installed"):
        verify(bundle_of("bert"), runtime=["onnxruntime", "openvino"])


def test_matrix_has_an_error_a_cell():
    arguments = ["--family", "bert", "--runtime", "onnxruntime", "--runtime", "reference"]
    result = CliRunner().invoke(matrix.main, arguments)
    assert result.exit_code == 0, result.output
    assert re.search(r"^\| `bert` \| \de-0[67] \| \de-0[67] \|$", result.output, re.MULTILINE)
