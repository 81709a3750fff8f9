"""Choice of a dtype: sizes, accuracy and speed are those measured."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.project import loaded_after
from helpers.rows import ANSWER, CHOOSE, CLASSIFY, FILL, NEXT, TAG, Row

import txexport
from txexport.cli.main import main
from txexport.dtype_comparison import accuracy, speed
from txexport.dtype_comparison.texts import built_in, pairs
from txexport.errors import InputError
from txexport.runtime.preprocessing.text_file import read

DTYPES = ("int8", "float32", "int4")
ROWS = {
    "embed": "bert",
    "classify": Row("bert", "BertForSequenceClassification", CLASSIFY),
    "tag": Row("bert", "BertForTokenClassification", TAG),
    "answer": Row("bert", "BertForQuestionAnswering", ANSWER),
    "fill_mask": Row("bert", "BertForMaskedLM", FILL),
    "choose": Row("bert", "BertForMultipleChoice", CHOOSE),
    "next_sentence": Row("bert", "BertForNextSentencePrediction", NEXT),
    "generate": "gpt2",
    "translate": "marian",
    "embed_image": "vit",
    "match": "clip",
}
TEXTS = ["The cat sat on the mat.", "Where was Ada born?", "He sold three of them.", "It rains."]


@pytest.fixture(scope="module")
def bundle_in(checkpoint_of, tmp_path_factory):
    """A function from a bundle's task to the bundle in several dtypes; no test may change it."""
    made: dict[str, Path] = {}

    def get(what: str) -> Path:
        if what not in made:
            made[what] = tmp_path_factory.mktemp("dtypes") / "out"
            txexport.export(checkpoint_of(ROWS[what]), made[what], dtype=DTYPES, only="native")
        return made[what]

    return get


@pytest.mark.parametrize("what", ROWS)
def test_every_task_is_compared(what, bundle_in):
    texts = None if what == "embed_image" else TEXTS
    result = txexport.compare_dtypes(bundle_in(what), texts=texts, threads=1, rounds=1, max_new_tokens=4)
    assert result.reference == "float32"
    assert [one.dtype for one in result.dtypes] == ["float32", "int8", "int4"]
    sizes = [one.bytes for one in result.dtypes]
    files = [path.stat().st_size for path in (bundle_in(what) / "onnx").iterdir()]
    assert sum(sizes) == sum(files)  # every file is of one dtype
    assert sizes[0] > sizes[1]
    for one in result.dtypes:
        assert one.accuracy.keys() == result.measures.keys() != set()
        assert one.seconds.keys() == one.speedup.keys() == result.works.keys() != set()
        assert min(one.seconds.values()) > 0
        assert np.isfinite([*one.accuracy.values(), *one.speedup.values()]).all()
    own = result.dtypes[0]
    assert set(own.speedup.values()) == {1.0}
    for name in {*own.accuracy} - {accuracy.PERPLEXITY}:
        assert own.accuracy[name] == pytest.approx(0 if name == accuracy.CHANGE else 1)


def test_embeddings_lose_what_their_vectors_say(bundle_in):
    result = txexport.compare_dtypes(bundle_in("embed"), rounds=1)
    texts = built_in()
    truth, other = (
        txexport.load(bundle_in("embed"), dtype=dtype).embed(texts, pooling="mean", truncate=True)
        for dtype in ("float32", "int8")
    )
    cosines = (truth * other).sum(1) / np.linalg.norm(truth, axis=1) / np.linalg.norm(other, axis=1)
    found = result.dtypes[1].accuracy
    assert found[accuracy.COSINE] == pytest.approx(cosines.mean(), abs=1e-6)
    assert found[accuracy.WORST] == pytest.approx(cosines.min(), abs=1e-6)
    assert 0.9 < cosines.min() < 1
    assert 0 < found[accuracy.OVERLAP] <= 1


def test_neighbours_are_told_from_strangers():
    corners = np.eye(24, dtype=np.float32)
    truth = np.concatenate([corners[:12] + corners[12], corners[:12] + corners[13]])
    swapped = np.concatenate([truth[12:18], truth[6:12], truth[:6], truth[18:]])
    assert accuracy.vectors(truth, truth)[accuracy.OVERLAP] == 1
    # Six of twelve answers change: of eleven, five or six stay.
    assert 0.3 < accuracy.vectors(truth, swapped)[accuracy.OVERLAP] < 0.7


def test_generators_lose_perplexity_and_greedy_tokens(bundle_in):
    result = txexport.compare_dtypes(bundle_in("generate"), texts=TEXTS, rounds=1, max_new_tokens=6)
    model = txexport.load(bundle_in("generate"), dtype="int4")
    logs = np.concatenate([score.log_probs for score in model.score(TEXTS)])
    found = result.dtypes[2].accuracy
    assert found[accuracy.PERPLEXITY] == pytest.approx(np.exp(-logs.mean()), rel=1e-6)
    own = result.dtypes[0].accuracy[accuracy.PERPLEXITY]
    assert found[accuracy.CHANGE] == pytest.approx(found[accuracy.PERPLEXITY] / own - 1)


@pytest.mark.parametrize(
    ("one", "two", "common"), [([1, 2], [1, 2], 2), ([1, 2, 3], [1, 5, 3], 1), ([1, 2], [1], 1)]
)
def test_tokens_count_up_to_the_first_difference(one, two, common):
    assert accuracy._common(one, two) == common


def test_rounds_take_every_dtype_in_turn():
    order, clock = [], {"a": iter([9, 1.0, 4.0, 2.0]), "b": iter([9, 1.0, 1.0, 1.0])}

    def work(name: str) -> float:
        order.append(name)
        return next(clock[name])

    seconds, speedup = speed.timed({"a": "a", "b": "b"}, {"work": ("", work)}, 3)
    assert order == ["a", "b"] * 4
    assert seconds == {"a": {"work": 2.0}, "b": {"work": 1.0}}  # the first round warms up
    assert speedup == {"a": {"work": 1.0}, "b": {"work": 2.0}}


def test_texts_are_lines_or_pairs(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("one\n\nboth\tof them\n", encoding="utf-8")
    assert read(file) == ["one", ("both", "of them")]
    assert pairs(["a", ("b", "c"), "d"]) == [("a", "b"), ("b", "c"), ("d", "a")]
    assert built_in() == built_in()
    assert len(set(built_in())) > 60
    for content, message in (
        (b"", "has no texts"),
        (b"a\tb\tc", "has 3 parts"),
        (b"\xff", "is not UTF-8"),
    ):
        file.write_bytes(content)
        with pytest.raises(InputError, match=message):
            read(file)


def test_refusals_are_one_line(bundle_in, bundle_of):
    with pytest.raises(InputError, match="rounds is 0"):
        txexport.compare_dtypes(bundle_in("embed"), rounds=0)
    with pytest.raises(InputError, match="there are no texts"):
        txexport.compare_dtypes(bundle_in("embed"), texts=[])
    with pytest.raises(InputError, match="compared on texts or images, but the bundle is for transcribe"):
        txexport.compare_dtypes(bundle_of("whisper"))


def test_command_prints_a_table_json_and_a_plot(bundle_in, tmp_path):
    plot, texts = tmp_path / "dtypes.svg", tmp_path / "texts"
    texts.write_text("\n".join(TEXTS))
    options = [str(bundle_in("embed")), "--texts", str(texts), "--rounds", "1", "--threads", "1"]
    shown = CliRunner().invoke(
        main, ["compare-dtypes", *options, "--plot", str(plot)], catch_exceptions=False
    )
    assert shown.exit_code == 0
    assert "bert, feature-extraction, beside float32, on cpu, 1 threads, 4 texts" in " ".join(
        shown.output.split()
    )
    for word in ("int8", "int4", "size", "cosine", "batch", "(x1.00)", "8 x 96 tokens"):
        assert word in shown.output or word == "8 x 96 tokens"
    drawn = ElementTree.parse(plot).getroot()
    assert len(drawn.findall("{http://www.w3.org/2000/svg}rect")) == 6  # sizes and passes of three dtypes
    told = json.loads(CliRunner().invoke(main, ["compare-dtypes", *options, "--json"]).stdout)
    assert [one["dtype"] for one in told["dtypes"]] == ["float32", "int8", "int4"]
    wrong = CliRunner().invoke(main, ["compare-dtypes", *options, "--plot", str(tmp_path / "a.png")])
    assert (wrong.exit_code, "does not end in .svg" in wrong.output) == (2, True)


def test_needs_neither_pytorch_nor_transformers():
    loaded = loaded_after("from txexport.dtype_comparison import compare_dtypes")
    assert not loaded & {"torch", "transformers", "onnx", "onnxscript", "rich", "click"}
