"""verify --texts: real inputs through the bundle's tokenizer are cases that can fail."""

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.bundle_edits import tamper
from helpers.reports import SCHEMA, valid
from helpers.rows import ANSWER, CHOOSE, Row
from tokenizers import Tokenizer

from txexport import bundle
from txexport.cli.main import main
from txexport.errors import InputError
from txexport.exporter import export
from txexport.runtime import load
from txexport.runtime.bundle_files import BundleFiles
from txexport.spec import ModelSpec
from txexport.spec.serialization import from_dict
from txexport.verification import verify
from txexport.verification.cases.texts import plan_texts
from txexport.verification.checks import HUB, NATIVE
from txexport.verification.reports.repeat import repeat_command

LINES = [f"the cat sat on the mat {'and the dog ' * n}" for n in range(5)]
READ = Row("bert", "BertForQuestionAnswering", ANSWER)
PICK = Row("bert", "BertForMultipleChoice", CHOOSE)


@pytest.fixture
def file(tmp_path) -> Path:
    (tmp_path / "lines.txt").write_text("\n".join([*LINES, "", *LINES]) + "\n", "utf-8")
    return tmp_path / "lines.txt"


@pytest.fixture
def pairs(tmp_path) -> Path:
    (tmp_path / "pairs.txt").write_text("the cat\ton the mat\nwho sat\tthe dog sat on the rug\n", "utf-8")
    return tmp_path / "pairs.txt"


def cases(folder: Path, file: Path | None) -> dict:
    manifest = bundle.read(folder)
    spec = from_dict(ModelSpec, manifest.spec)
    return {planned.name: planned for planned in plan_texts(BundleFiles(folder), manifest, spec, file)}


@pytest.mark.parametrize(
    ("what", "cache"),
    [("bert", None), ("roberta", None), ("gpt2", "static"), ("llama", "dynamic"), ("clip", None)]
    + [("bart", kind) for kind in ("static", "dynamic")]
    + [("longformer", None), ("esm", None)],
)
def test_texts_are_equal_to_both_originals(what, cache, bundle_of, file):
    folder = bundle_of(what, cache)
    names = [*cases(folder, file)]
    told = [name for name in names if not name.endswith(", greedy")]
    assert told == ["sentences", "lines.txt, texts 1 to 8", "lines.txt, texts 9 to 10"]
    assert (len(names) > 3) == (cache is not None)
    report = verify(folder, texts=file, cases=names)
    assert [(case.name, case.summary) for case in report.failed] == []
    tried = [(case.name, case.reference, case.graphs) for case in report.cases]
    every = [(name, reference, NATIVE) for name in names for reference in ("twin", "transformers")]
    others = told if bundle.read(folder).hub else []  # greedy is our runtime's own
    assert {*tried} == {*every, *((name, "transformers", HUB) for name in others)}
    assert not any(case.skipped for case in report.cases)


@pytest.mark.parametrize("what", [READ, PICK, "bert", "bart", "mbart"], ids=str)
def test_pairs_are_equal_to_both_originals(what, bundle_of, pairs):
    report = verify(bundle_of(what), texts=pairs, cases=["pairs.txt, texts 1 to 2"])
    assert [(case.name, case.summary) for case in report.failed] == []
    assert report.references == ["twin", "transformers"]


def test_ids_are_the_tokenizer_s(bundle_of, file, pairs):
    tokenizer = Tokenizer.from_file(str(bundle_of("bert") / "tokenizer.json"))
    expected = [encoding.ids for encoding in tokenizer.encode_batch((LINES * 2)[:8])]
    case = cases(bundle_of("bert"), file)["lines.txt, texts 1 to 8"].case
    rows = [ids[mask == 1].tolist() for ids, mask in zip(case.input_ids, case.attention_mask, strict=True)]
    assert rows == [row[:40] for row in expected]
    assert cases(bundle_of("gpt2"), file)["lines.txt, texts 1 to 8"].case.rows == [
        row[:40] for row in expected
    ]
    case = cases(bundle_of("bart"), pairs)["pairs.txt, texts 1 to 2"].case
    tokenizer = Tokenizer.from_file(str(bundle_of("bart") / "tokenizer.json"))
    sources = tokenizer.encode_batch(["the cat", "who sat"])
    targets = tokenizer.encode_batch(["on the mat", "the dog sat on the rug"])
    assert case.sources == [encoding.ids for encoding in sources]
    assert case.rows == [[2, *encoding.ids] for encoding in targets]


def test_types_of_pairs_reach_the_graph(bundle_of, pairs):
    case = cases(bundle_of(READ), pairs)["pairs.txt, texts 1 to 2"].case
    encodings = load(bundle_of(READ)).text.encode([("the cat", "on the mat")])
    assert case.token_type_ids[0, : len(encodings[0])].tolist() == encodings[0].type_ids


def test_a_word_that_only_a_text_has_is_caught(bundle_of, file, tmp_path):
    """Seeded ids read few words of a vocabulary, and not those that people write."""
    folder = shutil.copytree(bundle_of("bert"), tmp_path / "bundle")
    mat = cases(folder, file)["lines.txt, texts 1 to 8"].case.input_ids[0, 3]

    def change(numbers: np.ndarray) -> np.ndarray:
        numbers[mat] *= -1
        return numbers

    tamper(folder, "encoder.embedding.word.weight", change)
    report = verify(folder, texts=file, reference="twin", cases=["lines.txt, texts 1 to 8", "one token"])
    failed = [(case.name, case.graphs) for case in report.failed]
    assert failed == [("lines.txt, texts 1 to 8", graphs) for graphs in (NATIVE, HUB)]


def test_sentences_are_tried_wherever_there_is_a_tokenizer(bundle_of, checkpoint_of, tmp_path):
    report = verify(bundle_of("gpt2", "static"), reference="twin", cases="quick")
    tried = [case for case in report.cases if case.name == "sentences"]
    assert [case.graphs for case in tried] == [NATIVE, HUB]
    assert all(case.ok and case.checks for case in tried)
    source = shutil.copytree(checkpoint_of("gpt2"), tmp_path / "source")
    (source / "tokenizer.json").unlink()
    export(source, tmp_path / "out")
    assert "has no tokenizer.json" in cases(tmp_path / "out", None)["sentences"].skipped


def test_tokenizer_of_more_words_than_the_model_is_told(checkpoint_of, tmp_path):
    source = shutil.copytree(checkpoint_of("gpt2"), tmp_path / "source")
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["y"] = 5000
    (source / "tokenizer.json").write_text(json.dumps(tokenizer))
    export(source, tmp_path / "out")
    assert cases(tmp_path / "out", None)["sentences"].skipped.endswith("expected 0 to 310")


WRONG = [
    ("bert", b"\n \n", "has no texts; expected one a line"),
    ("bert", b"a\tb\tc\n", "has 3 parts, expected a text, or two and a tab between them"),
    ("bert", b"\xff\xfe", "lines.txt is not UTF-8: byte 0"),
    ("gpt2", b"a\tb\n", "a decoder takes one text per line, without a tab"),
    ("vit", b"a\n", "texts need a model that reads texts; this one is for image-feature-extraction"),
]


@pytest.mark.parametrize(("what", "data", "said"), WRONG, ids=[row[2] for row in WRONG])
def test_what_cannot_serve_is_said(what, data, said, bundle_of, file):
    file.write_bytes(data)
    with pytest.raises(InputError, match=said):
        verify(bundle_of(what), texts=file)


def test_command_repeats_a_text(bundle_of, file, tmp_path):
    folder = shutil.copytree(bundle_of("bert"), tmp_path / "bundle")
    tamper(folder, "encoder.layers.1.attention.v.weight", lambda numbers: 1.5 * numbers)
    arguments = ["verify", str(folder), "--texts", str(file), "--reference", "twin", "--cases", "quick"]
    result = CliRunner().invoke(main, [*arguments, "--json", str(tmp_path / "report.json")])
    assert result.exit_code == 1
    values = json.loads((tmp_path / "report.json").read_text())
    valid(values, SCHEMA)
    assert values["texts"] == str(file)
    failed = {case["name"] for case in values["cases"] if not case["ok"]}
    assert failed >= {"sentences", "lines.txt, texts 1 to 8", "lines.txt, texts 9 to 10"}
    report = verify(folder, texts=file, reference="twin", cases=["lines.txt, texts 9 to 10"])
    assert [case.graphs for case in report.failed] == [NATIVE, HUB]
    [command] = {repeat_command(report, case) for case in report.failed}
    again = CliRunner().invoke(main, shlex.split(command)[1:])
    assert again.exit_code == 1
    assert "lines.txt, texts 9 to 10" in again.output
