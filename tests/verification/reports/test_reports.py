"""Reports as files, and cases by name: what CI keeps, and what a person does with it."""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from helpers.bundle_edits import tamper
from helpers.pages import Page, check_alone
from helpers.project import ROOT
from helpers.reports import SCHEMA, check_schema, hostile, is_valid
from helpers.row import CONVERSE, Row
from rich.console import Console

from txexport import bundle
from txexport.cli.main import main
from txexport.errors import InputError
from txexport.runtime.bundle_files import BundleFiles
from txexport.spec import ModelSpec
from txexport.spec.serialization import from_dict
from txexport.verification import CaseReport, Report, TensorCheck, reports, verify
from txexport.verification.bundle_contents import CHECKS
from txexport.verification.cases.plan import QUICK, plan, select
from txexport.verification.cases.texts import plan_texts
from txexport.verification.checks import HUB, NATIVE, PROCESSORS
from txexport.verification.reports import table
from txexport.verification.reports.repeat import repeat_command
from txexport.verification.reports.views import behaviours, graph_results, reference_of, worst_outputs

WEIGHT = "decoder.layers.1.feed_forward.up.weight"


@pytest.fixture(scope="module")
def good(bundle_of) -> Report:
    return verify(bundle_of("gpt2"))


@pytest.fixture(scope="module")
def broken(bundle_of, tmp_path_factory) -> Path:
    """A GPT-2 with one changed matrix."""
    folder = tmp_path_factory.mktemp("broken") / "out"
    shutil.copytree(bundle_of("gpt2"), folder)
    tamper(folder, WEIGHT, lambda numbers: numbers + 0.1)
    return folder


@pytest.fixture(scope="module")
def bad(broken) -> Report:
    return verify(broken, cases="quick")


def written(report: Report, path: Path) -> str:
    """A report's text, without the places where a page may break a long name."""
    reports.write(report, path)
    return path.read_text(encoding="utf-8").replace("<wbr>", "")


@pytest.mark.parametrize("kind", ["good", "bad", "hostile"])
def test_json_is_as_its_schema_says_and_reads_back(kind, request, tmp_path):
    report = hostile() if kind == "hostile" else request.getfixturevalue(kind)
    values = json.loads(written(report, tmp_path / "report.json"))
    check_schema(values)
    assert Report.from_dict(values) == report
    reports.write([report, report], tmp_path / "both.json")
    both = json.loads((tmp_path / "both.json").read_text())
    check_schema(both)
    assert both["reports"] == [values, values]
    assert values["ok"] == both["ok"] == (kind == "good")


def test_a_report_follows_a_link_and_leaves_permissions(good, tmp_path):
    """/dev/stdout is a link, to a regular file where output is redirected."""
    file, link = tmp_path / "report.json", tmp_path / "link.json"
    file.write_text("an older one")
    file.chmod(0o600)
    link.symlink_to(file)
    for path in (link, file):
        file.write_text("an older one")
        reports.write(good, path)
        assert Report.from_dict(json.loads(file.read_text())) == good
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"report.json", "link.json"}


def test_own_check_of_the_schema_sees_what_is_wrong(good):
    values = good.to_dict()
    case = values["cases"][0]
    for wrong in ({"ok": "yes"}, {"format": 2}, {"more": 1}, {"selection": "some"}, {"cases": [{}]}):
        assert not is_valid(values | wrong, SCHEMA["$defs"]["report"], "")
    assert not is_valid(case | {"seconds": -1}, SCHEMA["$defs"]["case"], "")


@pytest.mark.parametrize("suffix", [".json", ".md", ".xml", ".html"])
def test_every_form_says_what_ran_on_what(suffix, good, tmp_path):
    text = written(good, tmp_path / f"report{suffix}")
    digests = [*good.checkpoint_sha256.values(), *good.bundle_sha256.values()]
    assert len(digests) >= 5
    for fact in [*good.versions.values(), *good.environment.values(), *digests, good.created]:
        assert fact in text
    assert {"python", "platform", "processor"} == good.environment.keys()
    assert {"txexport", "torch", "transformers", "numpy"} <= good.versions.keys()


@pytest.mark.parametrize("kind", ["good", "bad", "hostile"])
def test_junit_counts_agree(kind, request, tmp_path):
    report = hostile() if kind == "hostile" else request.getfixturevalue(kind)
    root = ElementTree.fromstring(written(report, tmp_path / "report.xml"))
    [suite] = root.findall("testsuite")
    cases = suite.findall("testcase")
    counts = (len(cases), len(suite.findall(".//failure")), len(suite.findall(".//skipped")))
    skipped = [case for case in report.cases if case.skipped is not None]
    assert counts == (len(report.cases), len(report.failed), len(skipped))
    for element in (root, suite):
        said = tuple(int(element.attrib[name]) for name in ("tests", "failures", "skipped"))
        assert said == counts
    assert len({(case.attrib["classname"], case.attrib["name"]) for case in cases}) == len(cases)


def test_junit_failure_has_the_numbers(bad, tmp_path):
    root = ElementTree.fromstring(written(bad, tmp_path / "report.xml"))
    failed = next(case for case in bad.failed if case.name == "one token, then steps")
    text = next(c for c in root.iter("testcase") if c.attrib["name"] == failed.name).find("failure").text
    assert re.search(r"logits: error \d\.\de[-+]\d\d, bound 1\.0e-05, 1,244 numbers", text)
    assert f"repeat: {repeat_command(bad, failed)}" in text


@pytest.mark.parametrize("kind", ["good", "bad", "hostile", "both"])
def test_page_is_well_formed_and_needs_no_other_file(kind, request, good, bad, tmp_path):
    shown = {"hostile": hostile(), "both": [good, bad], "good": good, "bad": bad}[kind]
    reports.write(shown, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    check_alone(text, page)
    names = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert {a["href"][1:] for _, a in page.tags if "href" in a} <= names


def test_page_shows_every_tensor_in_table_and_plot(good, tmp_path):
    page = Page(written(good, tmp_path / "report.html"))
    assert len([tag for tag, _ in page.tags if tag == "details"]) == len(good.cases)
    rows = sum(len(case.checks) or 0 for case in good.cases)
    facts = 1 + len(good.environment) + len(good.versions) + 1 + bool(good.reach)
    hashes = 1 + len(good.checkpoint_sha256) + len(good.bundle_sha256)
    heads = sum(bool(case.checks) for case in good.cases)
    said = len(behaviours(good))  # scores, tokens and beams
    assert said == 3
    numbers = 1 + len(good.numbers)
    about = facts + hashes + len(good.graphs) + said + numbers
    assert len([tag for tag, _ in page.tags if tag == "tr"]) == rows + heads + about
    drawn = [case for case in good.cases if case.reference != "checkpoint"]
    marks = [attributes for tag, attributes in page.tags if tag == "use" and attributes["x"].endswith("%")]
    assert len(marks) == sum(len(case.checks) for case in drawn)
    assert all(0 <= float(mark["x"][:-1]) <= 100 for mark in marks)
    *bounds, _ = page.of_class("bound")
    assert len(bounds) == len(
        {case.name for case in drawn if case.skipped is None}
    )  # one each, of all its references
    assert all(float(mark["x"][:-1]) < float(bound["x1"][:-1]) for mark in marks for bound in bounds)
    assert page.of_class("fail") == page.of_class("failed") == []


def test_page_of_a_broken_bundle_is_red(bad, tmp_path):
    page = Page(written(bad, tmp_path / "report.html"))
    assert "NOT EQUAL" in " ".join(page.words)
    wrong = sum(not check.ok for case in bad.failed for check in case.checks)
    badges = [attributes for attributes in page.of_class("fail") if "badge" in attributes["class"]]
    assert len(badges) == len(bad.failed)
    assert len(page.of_class("fail")) == wrong + len(badges) + 1
    inner = [words for words in page.words if words.endswith(" outputs within their bounds")]
    right = [sum(check.ok for check in case.checks) for case in bad.failed if case.checks]
    assert [int(words.split()[0]) for words in inner] == [count for count in right if count]
    opened = [attributes for tag, attributes in page.tags if tag == "details" and "open" in attributes]
    assert len(opened) == len(bad.failed)


def test_graphs_for_other_clients_are_told_apart(bad, tmp_path):
    page = Page(written(bad, tmp_path / "report.html"))
    told = [reference_of(case) for case in bad.cases]
    assert {*told} == {"checkpoint", "twin", "transformers", "transformers (hub)"}
    assert all(page.words.count(words) >= told.count(words) for words in {*told})
    console = Console(width=400, file=io.StringIO())
    console.print(table.render(bad))
    lines = console.file.getvalue().splitlines()
    assert sum("transformers (hub)" in line for line in lines) == told.count("transformers (hub)")


def test_every_graph_has_a_line(good, bad, tmp_path):
    for report in (good, bad):
        console = Console(width=400, file=io.StringIO())
        console.print(table.render(report))
        lines = [line.strip() for line in console.file.getvalue().splitlines()]
        page = written(report, tmp_path / "report.html")
        text = written(report, tmp_path / "report.md").splitlines()
        graphs = graph_results(report)
        assert len(graphs) == 2
        for file, words in graphs.items():
            assert f"{file}: {words}" in lines
            assert f"<td><code>{file}</code></td><td>{words}</td>" in page
            assert f"| `{file}` | `{words}` |" in text
    assert all(words.endswith(" cases failed") for words in graph_results(bad).values())


def test_a_graph_is_judged_by_what_it_gave():
    """One of several that a case runs; where it raised, that is known as well, or all are blamed."""
    right, wrong = (
        TensorCheck("y", 1, 0.0, 1e-5, graph="a.onnx"),
        TensorCheck("y", 1, 1.0, 1e-5, graph="b.onnx"),
    )
    whole = TensorCheck("tokens", 1, 0.0, 1e-5)
    cases = [
        CaseReport("both", "twin", [right, wrong], runtime="onnxruntime", graphs=HUB),
        CaseReport("together", "twin", [whole], runtime="onnxruntime", graphs=HUB),
        CaseReport("raised", "twin", [], "oh", runtime="onnxruntime", graphs=HUB, graph="c.onnx"),
        CaseReport("skipped", "twin", skipped="why", runtime="onnxruntime", graphs=HUB),
        CaseReport("ours", "twin", [whole], runtime="onnxruntime"),
        CaseReport("every weight", "checkpoint", [whole]),
    ]
    graphs = {"n.onnx": NATIVE, **dict.fromkeys(("a.onnx", "b.onnx", "c.onnx"), HUB)}
    report = Report("b", "bert", "t", "onnxruntime cpu", {}, cases, graphs=graphs)
    assert graph_results(report) == {
        "n.onnx": "equal, 1 cases",
        "a.onnx": "equal, 2 cases",
        "b.onnx": "1 of 2 cases failed",
        "c.onnx": "1 of 2 cases failed",
    }
    unknown = graph_results(replace(report, cases=[replace(cases[2], graph=None)]))
    assert unknown == {
        "n.onnx": "not tried",
        **dict.fromkeys(("a.onnx", "b.onnx", "c.onnx"), "1 of 1 cases failed"),
    }
    assert Report.from_dict(report.to_dict()) == report
    page = reports.html_page.render(report)
    assert [page.count(f"<td>y<small>{name}.onnx</small></td>") for name in "abc"] == [1, 1, 0]


@pytest.mark.parametrize("suffix", [".md", ".xml", ".html"])
def test_names_are_not_markup(suffix, tmp_path):
    text = written(hostile(), tmp_path / f"report{suffix}")
    assert not set("\x1b\x9b\u202e") & set(text)
    if suffix == ".md":
        outside = re.sub(r"(?s)(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", text)
        assert "<b>" not in outside
        rows = [re.sub(r"\\\|", "", line) for line in text.splitlines() if line.startswith("|")]
        assert {row.count("|") for row in rows} == {3, 6}  # facts, outputs by runtime
    else:
        assert "<b>" not in text
        words = Page(text).words if suffix == ".html" else ElementTree.fromstring(text).itertext()
        assert "<b>&'\"|`x`\ufffd\ufffd\ufffd\ufffd\\|[red]</b>" in " ".join(words)


@pytest.mark.parametrize("several", [True, False])
def test_names_steer_no_terminal(several):
    report = hostile()
    if not several:
        report = replace(report, cases=[replace(case, runtime=None) for case in report.cases])
    console = Console(width=400, force_terminal=True, color_system=None, file=io.StringIO())
    console.print(table.render(report))
    text = console.file.getvalue()
    assert not set("\x1b\x9b\u202e") & set(text)
    assert "[red]</b>" in text


def test_error_steers_no_terminal(tmp_path):
    result = CliRunner().invoke(main, ["inspect", str(tmp_path / "a\x1b[2J\nb")])
    assert result.exit_code == 2
    assert r"a\x1b[2J\nb" in result.output
    assert result.output.count("\n") == 1


def test_markdown_is_short_and_says_how_to_repeat(good, bad, tmp_path):
    text = written(good, tmp_path / "report.md")
    assert text.startswith(f"### ✅ `{good.bundle}`: equal\n")
    rows = re.findall(r"^\| `([a-z.* ]+)` \| (\S+) \| 1\.0e-05 \|$", text, re.MULTILINE)
    outputs = ["logits", "present.*.key", "present.*.value", "tokens", "beam scores", "beam tokens"]
    assert [name for name, _ in rows] == outputs
    worst = max(c.error for case in good.cases for c in case.checks if c.output == "logits")
    assert rows[0][1] == f"{worst:.1e}"
    assert len(text.splitlines()) < 60  # with a line for each file of the checkpoint, folded away
    assert "| numbers compared | weights | logits | caches | tokens |" in text
    [ours] = re.findall(r"^\| `transformers` \| 0 \| (\S+) \| (\S+) \| (\S+) \|$", text, re.MULTILINE)
    assert [int(count.replace(",", "")) for count in ours] == [*good.numbers["transformers"].values()]
    text = written(bad, tmp_path / "report.md")
    assert text.startswith(f"### ❌ `{bad.bundle}`: NOT EQUAL\n")
    assert f"**{len(bad.failed)} of {len(bad.cases)} cases failed**" in text
    assert f"```sh\ntxexport verify {bad.bundle} --case 'every weight'\n" in text


def invoke(*arguments) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_markdown_names_a_reference_that_was_left_out(good, tmp_path):
    """Whoever reads "equal" must see that it was not held against the original."""
    left_out = CaseReport("all cases", "transformers", skipped="it is not installed")
    report = replace(good, cases=[*good.cases, left_out])
    text = written(report, tmp_path / "report.md")
    assert "\nNot tried against `transformers`: `it is not installed`\n" in text


def test_hashes_are_those_of_the_files(good, tmp_path):
    """The bundle's were measured, whatever its txexport.json lists."""
    assert "<h3>SHA-256 of the files</h3>" in written(good, tmp_path / "report.html")


def test_every_reference_has_a_mark_of_its_own(tmp_path):
    names = "twin", "transformers", "float64", "torch.onnx", "some/model.onnx"
    check = TensorCheck("y", 1, 0.0, 1e-5)
    cases = [CaseReport("one", name, [check], runtime="onnxruntime") for name in names]
    page = written(Report("b", "bert", "t", "onnxruntime cpu", {}, cases), tmp_path / "report.html")
    marks = re.findall(r'<use href="#([^"]+)"[^>]*><title>', page)
    assert marks == ["twin", "transformers", "float64", "torch.onnx", "other"]


def test_command_writes_every_form_and_keeps_its_exit_codes(bundle_of, broken, tmp_path):
    files = [tmp_path / f"report{suffix}" for suffix in reports.FORMS]
    asked = [word for file in files for word in ("--report", file)]
    old = tmp_path / "report.old"
    assert invoke("verify", bundle_of("gpt2"), "--cases", "quick", *asked, "--json", old)[0] == 0
    assert all(file.stat().st_size > 1000 for file in files)
    assert old.read_text() == files[0].read_text()
    code, output = invoke("verify", broken, "--case", "every weight", *asked)
    assert code == 1
    named = "(only 1 by name; graphs and files were not compared)"
    assert f"NOT EQUAL to its checkpoint on onnxruntime cpu {named}" in " ".join(output.split())
    assert "NOT EQUAL" in files[3].read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--report", "report.pdf"], "report 'report.pdf' ends in '.pdf', expected one of .json, .md, .xml"),
        (["--json", "."], ". is a folder, so no file can be written there; add the file's name"),
        (
            ["--case", "one tokens, then step"],
            "no case 'one tokens, then step'; did you mean 'one token, ",
        ),
        (["--case", "#"], "no case '#'; expected some of 'exported graphs' or 'every weight' or"),
        (["--case", "left padding"], "case 'left padding' does not apply: a static cache pads on the right"),
        (["--case", "every weight", "--cases", "quick"], "give --case or --cases, not both"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_work(arguments, said, bundle_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output = invoke("verify", bundle_of("gpt2"), *arguments)
    assert code == 2
    assert said in output
    assert list(tmp_path.iterdir()) == []


def test_named_cases_are_repeated_with_the_same_numbers(good, bundle_of):
    names = ["three ragged rows in chunks", "every weight", "left padding"]
    again = verify(bundle_of("gpt2"), cases=names)
    assert again.cases == [case for case in good.cases if case.name in names]
    assert again.selection == names
    alone = verify(bundle_of("gpt2"), reference="twin", cases=names[:1]).cases
    assert [case.graphs for case in alone] == [NATIVE, HUB]  # the latter by the twin where it is alone
    assert alone[0] == again.cases[1]


def test_command_of_a_report_repeats_its_case(bad, monkeypatch):
    """On the graphs of both kinds, ours first: a case goes by its name."""
    case = bad.failed[-1]
    assert case.graphs == HUB
    first = next(one for one in bad.failed if (one.name, one.reference) == (case.name, case.reference))
    code, output = invoke(*shlex.split(repeat_command(bad, case))[1:])
    assert code == 1
    told = f"2 of 2 cases failed, first: {case.name} ({case.reference}): {first.summary}"
    assert told in " ".join(output.split())


@pytest.mark.parametrize(
    ("model_type", "cache"),
    [("bert", None), ("gpt2", "static"), ("gpt2", "dynamic"), ("bart", "static"), ("bart", "dynamic")],
)
def test_quick_covers_padding_steps_and_every_output(model_type, cache, bundle_of):
    folder = bundle_of(model_type, cache)
    full, quick = (verify(folder, reference="twin", cases=cases) for cases in ("full", "quick"))
    assert quick.ok
    assert worst_outputs(quick).keys() == worst_outputs(full).keys()
    for graphs in [NATIVE, *([HUB] if bundle.read(folder).hub else [])]:
        few, many = (
            [case for case in report.cases if case.runtime is not None and case.graphs == graphs]
            for report in (quick, full)
        )
        least, most = (4, 7) if graphs == NATIVE else (3, 5)  # greedy and beams are our runtime's own
        assert least <= len(few) <= most < len(many)
    contents = [case.name for case in quick.cases if case.runtime is None]
    assert contents[: len(CHECKS)] == [*CHECKS]
    chats = ["chat template"] if model_type != "bert" else []
    assert contents[len(CHECKS) :] == ["tokenizer", *chats]  # tried, or said why not
    names = " ".join(case.name for case in quick.cases)
    assert "ragged" in names
    assert model_type == "bert" or "steps" in names
    graphs = [case for case in quick.cases if case.name not in PROCESSORS]  # those have fewer inputs
    assert all(case in full.cases for case in graphs)


def test_quick_names_cases_that_there_are(bundle_of):
    found = set()
    kinds = [
        ("bert", None),
        ("gpt2", "static"),
        ("gpt2", "dynamic"),
        ("vit", None),
        ("dinov2", None),
        ("clip", None),
        ("clap", None),
        ("owlvit", None),
        ("clipseg", None),
        ("sam", None),
        ("detr", None),
        ("grounding-dino", None),
        ("colpali", None),
        ("layoutlm", None),
        ("lilt", None),
        ("llava", "static"),
        ("qwen2_audio", "static"),
        ("voxtral", "static"),
        ("florence2", "static"),
        ("pix2struct", "static"),
        (Row("blip", "BlipForQuestionAnswering", CONVERSE), "static"),
        ("wav2vec2", None),
        ("wav2vec2-bert", None),
        ("speech_to_text", "static"),
    ]
    for model_type, cache in kinds:
        folder = bundle_of(model_type, cache)
        manifest = bundle.read(folder)
        spec = from_dict(ModelSpec, manifest.spec)
        cases = [
            *plan(spec, static=cache == "static"),
            *plan_texts(BundleFiles(folder), manifest, spec, None),
        ]
        quick = select(cases, "quick")
        assert any(case.name in quick and case.run is not None for case in cases)
        found |= quick
    assert found == QUICK - {*PROCESSORS}


@pytest.mark.parametrize("wanted", [[], "one token", "all"])
def test_cases_are_quick_or_full_or_a_list_of_names(wanted, bundle_of):
    with pytest.raises(InputError, match="expected 'quick', 'full' or a list of names"):
        verify(bundle_of("bert"), cases=wanted)


def test_workflow_s_commands_are_ours(checkpoint_of, tmp_path, monkeypatch):
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((ROOT / "examples/ci/parity.yml").read_text(encoding="utf-8"))
    runs = [step.get("run", "") for step in workflow["jobs"]["parity"]["steps"]]
    commands = [run for run in runs if run.startswith("txexport ")]
    monkeypatch.chdir(tmp_path)
    for command in commands:
        given = command.replace("$CHECKPOINT", str(checkpoint_of("bert")))
        assert invoke(*shlex.split(given)[1:])[0] == 0
    kept = {path.name for path in tmp_path.glob("parity.*")}
    assert kept == {f"parity{suffix}" for suffix in reports.FORMS}


GH = """#!/bin/sh
echo "$@" >> calls
case "$*" in *--paginate*) printf '%s' "$KNOWN" ;; esac
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="the workflow's step is bash")
@pytest.mark.parametrize("report", ["short", "longer than a comment may be", None])
@pytest.mark.parametrize("known", ["", "71\n72\n"])
def test_workflow_keeps_one_comment(known, report, tmp_path):
    """Its last step with a `gh` that only notes what it is asked; the second comment of a search is left."""
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((ROOT / "examples/ci/parity.yml").read_text(encoding="utf-8"))
    step = workflow["jobs"]["parity"]["steps"][-1]
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    if report is not None:
        (tmp_path / "parity.md").write_text(
            "é" + report * (1 if report == "short" else 9000), encoding="utf-8"
        )
    names = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GH_REPO": "o/r", "NUMBER": "5", "KNOWN": known}
    names["MARK"] = step["env"]["MARK"]
    subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=names, check=True)
    said = (tmp_path / "calls").read_text().splitlines()[-1]
    wanted = "api --silent -X PATCH repos/o/r/issues/comments/71 -F body=@comment.md"
    assert said == (wanted if known else "pr comment 5 --body-file comment.md")
    body = (tmp_path / "comment.md").read_text(encoding="utf-8")
    assert body.endswith(f"\n{names['MARK']}\n")
    assert body.startswith("### ❌ Parity could not be tried" if report is None else f"é{report[:5]}")
    assert len(body) < 65_536
