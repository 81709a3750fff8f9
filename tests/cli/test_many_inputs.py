"""Files of many inputs are processed as they are read, and a bad line does not end the rest."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.rows import CLASSIFY, ROWS, TAG

from txexport.cli.main import main
from txexport.errors import InputError
from txexport.runtime import load

LONG = "the " * 60  # more tokens than the tiny models read


@pytest.fixture(scope="module")
def classifier(bundle_of):
    return bundle_of(next(row for row in ROWS if (row.model_type, row.task) == ("bert", CLASSIFY)))


def invoke(*arguments) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def written(path, *lines: str):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("window", [1, 2, 3, 1024])
def test_a_bad_line_ends_it_after_those_before(window, classifier, tmp_path):
    file = written(tmp_path / "texts", "the cat", "a dog", LONG, "far")
    code, output, noise = invoke("classify", classifier, "--file", file, "--json", "--window", window)
    assert code == 2
    assert [json.loads(line)["text"] for line in output.splitlines()] == ["the cat", "a dog"]
    assert noise.startswith(
        "error: line 3: a text of 61 tokens is longer than 40; shorten it, or cut it with "
    )
    assert noise.endswith("; answered 2 before it; --on-error skip skips such inputs\n")
    assert noise.count("\n") == 1


@pytest.mark.parametrize("window", [1, 2, 1024])
def test_a_bad_line_is_skipped_and_said(window, classifier, tmp_path):
    good = ["the cat", "a dog", "far", "the"]
    file = tmp_path / "texts"
    file.write_bytes("\n".join([good[0], LONG, good[1], good[2]]).encode() + b"\n\xff\n" + good[3].encode())
    skip = "--on-error", "skip", "--window", window
    code, output, noise = invoke("classify", classifier, "--file", file, "--json", *skip)
    records = [json.loads(line) for line in output.splitlines()]
    assert (code, noise) == (1, "error: skipped 2 of 6\n")
    assert [record.get("line") for record in records] == [None, 2, None, None, 5, None]
    assert records[1]["error"].startswith("a text of 61 tokens is longer than 40")
    assert records[4]["error"].endswith("is not UTF-8: byte 0 is 0xff")
    expected = load(classifier, device="cpu").classify(good)
    for record, labels in zip([records[i] for i in (0, 2, 3, 5)], expected, strict=True):
        assert {one["label"]: one["score"] for one in record["labels"]} == pytest.approx(
            {one["label"]: one["score"] for one in labels}, abs=1e-6
        )
    code, table, noise = invoke("classify", classifier, "--file", file, *skip, "--top-k", 1)
    assert code == 1
    assert [word in table for word in ("the cat", "a dog", "far")] == [True] * 3
    assert [line.split(":")[1] for line in noise.splitlines()] == [" line 2", " line 5", " skipped 2 of 6"]


def test_a_wrong_option_is_told_of_no_line(bundle_of, tmp_path):
    file = written(tmp_path / "texts", "the cat", "a dog")
    code, output, noise = invoke("embed", bundle_of("bert"), "--file", file, "--pooling", "x", "--json")
    assert (code, output) == (2, "")
    assert noise.startswith("error: pooling 'x' is not known")


def test_stride_is_advised_where_it_helps(bundle_of):
    tagger = bundle_of(next(row for row in ROWS if (row.model_type, row.task) == ("bert", TAG)))
    _, _, noise = invoke("tag", tagger, LONG)
    assert "or read it in windows with stride=16 (--stride 16)" in noise
    assert invoke("tag", tagger, LONG, "--stride", 16)[0] == 0


@pytest.mark.parametrize("limit", [4, 6, 16])
def test_the_stride_that_is_advised_leaves_room(limit, bundle_of, tmp_path):
    """For a tokenizer_config.json that truncates texts so short that windows could not share 16 tokens."""
    tagger = shutil.copytree(
        bundle_of(next(row for row in ROWS if (row.model_type, row.task) == ("bert", TAG))), tmp_path / "b"
    )
    settings = json.loads((tagger / "tokenizer_config.json").read_text())
    (tagger / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": limit}))
    model = load(tagger, device="cpu", check=False)
    with pytest.raises(InputError, match=rf"longer than {limit};") as refused:
        model.tag(LONG)
    [stride] = re.findall(r"stride=(\d+)", str(refused.value))
    assert isinstance(model.tag(LONG, stride=int(stride)), list)


def test_an_answer_comes_before_the_next_question(classifier):
    """A program can interact with the command line by line."""
    command = [sys.executable, "-m", "txexport", "classify", classifier, "-", "--json", "--window", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in ("the cat", "a dog"):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == text
        process.stdin.close()
        assert process.wait(60) == 0


def test_an_empty_file_is_named(bundle_of, tmp_path):
    file = tmp_path / "texts"
    file.touch()
    code, output, noise = invoke("embed", bundle_of("bert"), "--file", file, "--pooling", "mean")
    assert (code, output, noise) == (0, "", f"warning: {file} is empty\n")


def test_vectors_go_into_a_file(bundle_of, tmp_path):
    texts = ["the cat", "a dog", "far", "the", "a"]
    file, output = written(tmp_path / "texts", *texts), tmp_path / "new/folder/vectors.npy"
    given = "embed", bundle_of("bert"), "--file", file, "--pooling", "mean", "--output", output
    assert invoke(*given, "--window", 2) == (0, "", "")
    vectors = np.load(output)
    assert (vectors.dtype, vectors.shape) == (np.float32, (5, 48))
    expected = load(bundle_of("bert"), device="cpu").embed(texts, pooling="mean")
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    written(file, LONG, *texts[:2], LONG, texts[2])
    code, _, noise = invoke(*given, "--window", 2)
    assert code == 2
    assert "line 1: " in noise
    assert [path.name for path in output.parent.iterdir()] == ["vectors.npy"]
    assert np.load(output).shape == (5, 48)  # the one before
    assert invoke(*given, "--window", 2, "--on-error", "skip")[0] == 1
    vectors = np.load(output)
    assert np.isnan(vectors).all(axis=1).tolist() == [True, False, False, True, False]
    np.testing.assert_allclose(vectors[[1, 2, 4]], expected[:3], atol=1e-5)
    assert [path.name for path in output.parent.iterdir()] == ["vectors.npy"]
    for path, message in ((file, "would replace an input"), (tmp_path / "a.csv", "expected .npy")):
        before = file.read_bytes()
        code, _, noise = invoke(*given[:-1], path)
        assert (code, file.read_bytes()) == (2, before)
        assert message in noise


def test_too_many_are_not_compared_with_each_other(bundle_of, tmp_path):
    file = written(tmp_path / "texts", *["the"] * 1025)
    code, output, noise = invoke("embed", bundle_of("bert"), "--file", file, "--pooling", "mean")
    assert (code, output) == (2, "")
    assert (
        "more than 1,024 vectors, the most that the table of similarities compares; write the vectors with "
        in noise
    )


def test_texts_of_many_prompts_are_told_apart(bundle_of):
    prompts, few = ["the cat", "a dog"], ("--max-new-tokens", 3)
    texts = load(bundle_of("gpt2"), device="cpu").generate(prompts, max_new_tokens=3)
    _, output, _ = invoke("generate", bundle_of("gpt2"), *prompts, *few)
    assert output == f"==> the cat <==\n{texts[0]}\n==> a dog <==\n{texts[1]}\n"
    several = "--num-beams", 2, "--set", "num_return_sequences=2"
    _, output, _ = invoke("generate", bundle_of("gpt2"), prompts[0], *few, *several)
    assert [line for line in output.splitlines() if line.startswith("==>")] == [
        "==> the cat (1 of 2) <==",
        "==> the cat (2 of 2) <==",
    ]


def test_samples_do_not_depend_on_the_window(bundle_of, tmp_path):
    file = written(tmp_path / "prompts", *["the cat", "a dog", "the", "far"])
    sample = "--do-sample", "--seed", 3, "--max-new-tokens", 6, "--json"
    given = "generate", bundle_of("gpt2"), "--file", file, *sample
    whole = invoke(*given)
    assert whole[0] == 0
    assert len(whole[1].splitlines()) == 4
    assert invoke(*given, "--window", 1) == whole
    assert invoke(*given, "--window", 3) == whole


PEAK = """
import resource, sys
from txexport.cli.main import main
from txexport.errors import InputError
try:
    main(sys.argv[1:])
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(bundle_of, tmp_path):
    peaks = []
    for count in (2_000, 60_000):
        file = written(tmp_path / "texts", *(f"the cat {i}" for i in range(count)))
        given = "embed", bundle_of("bert"), "--file", file, "--pooling", "mean", "--threads", 1, "--output"
        command = [sys.executable, "-c", PEAK, *map(str, [*given, tmp_path / "out.npy"])]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert np.load(tmp_path / "out.npy", mmap_mode="r").shape == (count, 48)
        peaks.append(int(done.stderr))
    assert peaks[1] < peaks[0] + 16 * 1024  # kilobytes; the vectors alone are 11 megabytes


def test_a_name_of_a_file_is_a_text_and_this_is_noted(classifier, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "cat", "the cat")
    code, output, noise = invoke("classify", classifier, "cat", "dog", "--json")
    assert (code, len(output.splitlines())) == (0, 2)
    assert noise == "note: cat is read as a text; --file reads each line of a file\n"
    assert invoke("classify", classifier, "--file", "cat")[2] == ""
    (tmp_path / "cats").mkdir()
    for text, start in (
        ("cats", "the folder cats is read as a text"),
        ("none.txt", "none.txt is read as a text, since there is no such file"),
    ):
        noise = invoke("classify", classifier, text)[2]
        assert noise == f"note: {start}; --file reads each line of a file\n"
    assert invoke("classify", classifier, "see none.txt")[2] == ""


@pytest.mark.parametrize("command", ["classify", "generate"])
def test_several_names_of_files_are_no_texts(command, classifier, tmp_path, monkeypatch):
    """As of `classify BUNDLE *.txt`, whose answers would be about the names."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        written(tmp_path / name, "the cat")
    code, output, noise = invoke(command, classifier, "a.txt", "b.txt")
    message = "the 2 texts are names of files, such as a.txt; --file reads the"
    assert (code, output, noise.count("\n")) == (2, "", 1)
    assert message in noise


def test_a_folder_is_no_file_of_inputs(classifier, tmp_path):
    code, _, noise = invoke("classify", classifier, "--file", tmp_path)
    assert code == 2
    assert noise == f"error: {tmp_path} is a folder; --file needs a file with one input on each line\n"
