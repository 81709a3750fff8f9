"""The commands of tasks, for people and scripts."""

import json
import wave

import numpy as np
import pytest
import tiny_checkpoint
import tiny_tokenizers
import transformers
from click.testing import CliRunner
from PIL import Image

from txexport.cli.main import main
from txexport.exporter import export

TAGS = ["B-LOC", "O", "I-LOC", "I-PER", "B-PER"]
PIXELS = {"size": {"height": 30, "width": 30}, "do_center_crop": False}
WORDS = len(tiny_tokenizers.clip())


@pytest.fixture(scope="module")
def bundle_for(tmp_path_factory):
    """A function from an architecture and config values to its bundle."""
    made: dict = {}

    def get(model_type: str, architecture: str, *parts, **config):
        key = str((architecture, config))
        if key not in made:
            folder = tmp_path_factory.mktemp("bundle")
            tiny_checkpoint.save(folder / "in", model_type, architecture, **config)
            for part in parts or [tiny_tokenizers.wordpiece()]:
                part.save_pretrained(folder / "in")
            export(folder / "in", folder / "out")
            made[key] = folder / "out"
        return made[key]

    return get


@pytest.fixture
def classifier(bundle_for):
    return bundle_for("bert", "BertForSequenceClassification", id2label={0: "sad", 1: "glad", 2: "neither"})


@pytest.fixture
def tagger(bundle_for):
    return bundle_for("bert", "BertForTokenClassification", id2label=dict(enumerate(TAGS)))


def invoke(*arguments, standard_input: str | bytes | None = None) -> str:
    """The output of a command that succeeds."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], input=standard_input)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def records(*arguments, **options) -> list[dict]:
    """The JSON output."""
    return [json.loads(line) for line in invoke(*arguments, "--json", **options).splitlines()]


def refusal(*arguments) -> str:
    """The last line of a failing command's output."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr.splitlines()[-1]


def test_texts_come_as_arguments_or_lines(classifier, tmp_path):
    texts = ["the cat", "", "[red] Zürich"]
    expected = records("classify", classifier, *texts)
    assert [record["text"] for record in expected] == texts
    assert {label["label"] for label in expected[0]["labels"]} == {"sad", "glad", "neither"}
    (tmp_path / "texts").write_bytes("the cat\r\n\n[red] Zürich\n".encode())
    assert records("classify", classifier, "--file", tmp_path / "texts") == expected
    lines = "\n".join(texts)
    assert records("classify", classifier, "-", standard_input=lines) == expected
    assert records("classify", classifier, "--file", "-", standard_input=lines) == expected


def test_table_for_people(classifier):
    printed = invoke("classify", classifier, "the cat", "", "[red] Zürich", "--top-k", 1)
    best = [record["labels"][0] for record in records("classify", classifier, "the cat", "")]
    first, second = (line.split() for line in printed.splitlines()[3:5])
    assert first == ["the", "cat", best[0]["label"], f"{best[0]['score']:.4f}"]
    assert second == ['""', best[1]["label"], f"{best[1]['score']:.4f}"]
    assert "[red] Zürich" in printed


def test_pairs_come_two_by_two_or_with_tabs(classifier):
    expected = records("classify", classifier, "--pairs", "the cat", "sat", "a", "b")
    assert [(record["first"], record["second"]) for record in expected] == [("the cat", "sat"), ("a", "b")]
    lines = "the cat\tsat\na\tb\n"
    assert records("classify", classifier, "--pairs", "-", standard_input=lines) == expected
    assert refusal("classify", classifier, "--pairs", "a", "b", "c").startswith(
        "error: 3 texts, expected pairs: an even number; see main classify --help"
    )


def test_tag(tagger):
    [record] = records("tag", tagger, "Anna lives in Paris")
    assert record["entities"]
    for entity in record["entities"]:
        assert {"label", "score", "word", "start", "end"} == entity.keys()
        assert entity["label"] in ("PER", "LOC")
    [whole] = records("tag", tagger, "Anna lives in Paris", "--aggregation", "none")
    assert {entity["label"] for entity in whole["entities"]} <= set(TAGS) - {"O"}


def test_answer(bundle_for, tmp_path):
    bundle = bundle_for("bert", "BertForQuestionAnswering")
    question, context = "where is Anna?", "Anna lives in Paris\nand works for Siemens"
    [record] = records("answer", bundle, question, context, "--top-k", 2)
    assert len(record["answers"]) == 2
    for answer in record["answers"]:
        assert context[answer["start"] : answer["end"]] == answer["answer"]
    (tmp_path / "context").write_text(context)
    file = "--context-file", tmp_path / "context", "--top-k", 2
    first, second = records("answer", bundle, question, "who", *file)
    assert [one["answer"] for one in first["answers"]] == [one["answer"] for one in record["answers"]]
    assert second["question"] == "who"
    assert records("answer", bundle, question, "--context", context, "--top-k", 2) == [record]


def test_fill_mask(bundle_for):
    bundle = bundle_for("bert", "BertForMaskedLM")
    one, two = records("fill-mask", bundle, "the [MASK]", "[MASK] and [MASK]", "--top-k", 3)
    assert [len(one["words"]), len(two["words"]), len(two["words"][1])] == [3, 2, 3]
    assert len(invoke("fill-mask", bundle, "the [MASK]", "[MASK] and [MASK]", "--top-k", 1).splitlines()) == 7
    assert "a text has no [MASK] for a word to fill: 'the'" in refusal("fill_mask", bundle, "the")


def test_next_sentence_and_choose(bundle_for):
    bundle = bundle_for("bert", "BertForNextSentencePrediction")
    [record] = records("next-sentence", bundle, "the cat", "sat on the mat")
    assert 0 < record["probability"] < 1
    assert f"{record['probability']:.4f}" in invoke("next-sentence", bundle, "the cat", "sat on the mat")
    bundle = bundle_for("bert", "BertForMultipleChoice")
    [record] = records("choose", bundle, "where?", "in Paris", "far", "on the mat")
    assert [one["choice"] for one in record["choices"]] == ["in Paris", "far", "on the mat"]
    assert abs(sum(one["probability"] for one in record["choices"]) - 1) < 1e-5
    lines = "where?\tin Paris\tfar\ton the mat\nwho?\tAnna\tthe cat\n"
    several = records("choose", bundle, "-", standard_input=lines)
    assert several[0]["choices"] == [pytest.approx(one, abs=1e-5) for one in record["choices"]]
    assert len(several[1]["choices"]) == 2
    assert "'alone' has no choices, expected a question and its choices" in refusal("choose", bundle, "alone")


def test_sounds(bundle_for, tmp_path):
    sound = (np.sin(np.arange(3000) / 7) * 30000).astype("<i2")
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 16000, len(sound), "NONE", ""))
        file.writeframes(sound.tobytes())
    extractor = transformers.ASTFeatureExtractor(num_mel_bins=17, max_length=33)
    name = "audio-spectrogram-transformer", "ASTForAudioClassification"
    bundle = bundle_for(*name, extractor, num_labels=7)
    [record] = records("classify-audio", bundle, tmp_path / "a.wav", "--top-k", "3")
    assert (record["sound"], len(record["labels"])) == (str(tmp_path / "a.wav"), 3)
    assert "cannot be read" in refusal("classify-audio", bundle, tmp_path / "b.wav")


def test_images(bundle_for, tmp_path):
    pixels = np.random.default_rng(1).integers(0, 256, (37, 53, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    processor = transformers.ViTImageProcessorPil(**PIXELS)
    bundle = bundle_for("vit", "ViTForImageClassification", processor, num_labels=7)
    [record] = records("classify-image", bundle, tmp_path / "a.png")
    assert (record["image"], len(record["labels"])) == (str(tmp_path / "a.png"), 5)
    edges = {"shortest_edge": 48, "longest_edge": 96}
    processor = transformers.YolosImageProcessorPil(size=edges)
    bundle = bundle_for("yolos", "YolosForObjectDetection", processor)
    some = bundle, tmp_path / "a.png", "--threshold", "0.1"
    [record] = records("detect", *some, "--draw", tmp_path / "b.jpg")
    assert (record["image"], len(record["objects"])) == (str(tmp_path / "a.png"), 7)
    assert record["objects"][0].keys() == {"label", "score", "box"}
    drawing = np.asarray(Image.open(tmp_path / "b.jpg"), int)
    assert drawing.shape == pixels.shape
    assert np.abs(drawing - pixels).max() > 50
    left = round(record["objects"][0]["box"]["xmin"])
    assert f" {left}, " in invoke("detect", *some)
    invoke("detect", *some, tmp_path / "a.png", "--draw", tmp_path / "drawn")
    assert {path.name for path in (tmp_path / "drawn").iterdir()} == {"a.png", "a-2.png"}
    (tmp_path / "one").mkdir()
    invoke("detect", *some, "--draw", tmp_path / "one")
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["a.png"]
    assert "b.xyz cannot be written: unknown file extension: .xyz; expected .png, .jpg" in refusal(
        "detect", *some, "--draw", tmp_path / "b.xyz"
    )
    before = (tmp_path / "a.png").read_bytes()
    assert "would replace an input" in refusal("detect", *some, "--draw", tmp_path / "a.png")
    two = bundle, tmp_path / "a.jpg", tmp_path / "a.png"  # the first would be drawn over the second
    (tmp_path / "b.jpg").rename(tmp_path / "a.jpg")
    assert "would replace an input" in refusal("detect", *two, "--draw", tmp_path)
    assert (tmp_path / "a.png").read_bytes() == before
    assert "looks like a file" in refusal("detect", *two, "--draw", tmp_path / "several.png")
    processor = transformers.DPTImageProcessorPil(size={"height": 30, "width": 30}, ensure_multiple_of=6)
    bundle = bundle_for("depth_anything", "DepthAnythingForDepthEstimation", processor)
    some = bundle, tmp_path / "a.png"
    [record] = records("depth", *some, "--draw", tmp_path / "depths.png")
    assert np.shape(record["predicted_depth"]) == np.shape(record["depth"]) == pixels.shape[:2]
    assert np.asarray(Image.open(tmp_path / "depths.png")).shape == pixels.shape
    assert f"{np.max(record['predicted_depth']):.4f}" in invoke("depth", *some)
    processor = transformers.SegformerImageProcessorPil(size={"height": 32, "width": 32})
    bundle = bundle_for("segformer", "SegformerForSemanticSegmentation", processor)
    some = bundle, tmp_path / "a.png"
    [record] = records("segment", *some, "--draw", tmp_path / "segments.png")
    assert {*record["segments"][0]} == {"label", "score", "mask"}
    height, width = pixels.shape[:2]
    assert all(one["mask"]["size"] == [height, width] for one in record["segments"])
    assert sum(sum(one["mask"]["counts"][1::2]) for one in record["segments"]) == height * width
    drawing = np.asarray(Image.open(tmp_path / "segments.png"))
    assert drawing.shape[1] == width
    assert drawing.shape[0] > height  # a legend
    assert record["segments"][0]["label"] in invoke("segment", *some)
    processor = transformers.MaskFormerImageProcessorPil(size={"shortest_edge": 32, "longest_edge": 64})
    some = bundle_for("maskformer", "MaskFormerForInstanceSegmentation", processor), tmp_path / "a.png"
    chosen = "--kind", "instance", "--threshold", "0"
    [record] = records("segment", *some, *chosen, "--draw", tmp_path / "instances.png")
    assert len(record["segments"]) == 7
    assert all(0 <= one["score"] < 1 for one in record["segments"])
    assert np.asarray(Image.open(tmp_path / "instances.png")).shape[1] == width
    table = invoke("segment", *some, *chosen)
    assert f"{record['segments'][0]['score']:.4f}" in table
    assert "score" in table
    assert records("segment", *some) == [{"image": str(tmp_path / "a.png"), "segments": []}]
    assert "score" not in invoke("segment", *some, "--kind", "semantic")
    processor = transformers.VitPoseImageProcessorPil(size={"height": 48, "width": 36})
    bundle = bundle_for("vitpose", "VitPoseForPoseEstimation", processor, edges=[[0, 1], [1, 2]])
    some = bundle, tmp_path / "a.png", "--box", "1,2,30,31", "--box", "0,0,9,9"
    [record] = records("pose", *some, "--draw", tmp_path / "poses.png")
    assert [one["box"]["xmax"] for one in record["poses"]] == [30.0, 9.0]
    point = record["poses"][0]["keypoints"][0]
    assert {*point} == {"label", "score", "x", "y"}
    assert f"{point['score']:.4f}" in invoke("pose", *some)
    assert np.asarray(Image.open(tmp_path / "poses.png")).shape == pixels.shape
    assert len(records("pose", bundle, tmp_path / "a.png")[0]["poses"]) == 1
    sides = {"height": 60, "width": 60}
    processor = transformers.SamImageProcessorPil(size={"longest_edge": 60}, pad_size=sides)
    some = bundle_for("sam", "SamModel", processor), tmp_path / "a.png"
    prompt = "--point", "5,6", "--point", "1,2.5,0", "--box", "1,2,30,31"
    [record] = records("masks", *some, *prompt, "--draw", tmp_path / "mask.png")
    assert len(record["masks"]) == 3
    assert record["masks"][0]["mask"]["size"] == [height, width]
    assert record["masks"][0]["score"] >= record["masks"][2]["score"]
    assert np.asarray(Image.open(tmp_path / "mask.png")).shape == pixels.shape
    assert len(records("masks", *some, *prompt, "--one")[0]["masks"]) == 1
    assert f"{record['masks'][0]['score']:.4f}" in invoke("masks", *some, *prompt)
    assert "give --point X,Y or --box" in refusal("masks", *some)
    assert "--point 3: expected 2 or 3 numbers" in refusal("masks", *some, "--point", "3")
    parts = transformers.CLIPImageProcessorPil(**PIXELS), tiny_tokenizers.clip()
    sizes = {"text_config": {"vocab_size": WORDS, "eos_token_id": WORDS - 1}}
    bundle = bundle_for("clip", "CLIPModel", *parts, **sizes)
    texts = "--text", "a cat", "--text", "a dog"
    [record] = records("match", bundle, tmp_path / "a.png", *texts, "--template", "a photo of {}")
    assert sorted(one["label"] for one in record["labels"]) == ["a cat", "a dog"]
    assert records("match", bundle, tmp_path / "a.png", "--file", "-", standard_input="a cat\na dog") != [
        record
    ]
    [vector] = records("embed-image", bundle, tmp_path / "a.png")
    assert (vector["image"], len(vector["embedding"])) == (str(tmp_path / "a.png"), 36)
    assert "a.png" in invoke("embed-image", bundle, tmp_path / "a.png", tmp_path / "a.png")
    assert [len(one["embedding"]) for one in records("embed", bundle, "a cat", "a dog")] == [36, 36]
    assert "give --text TEXT for each text" in refusal("match", bundle, tmp_path / "a.png")


def test_zero_shot(bundle_for):
    names = {"contradiction": 0, "entailment": 1}
    bundle = bundle_for(
        "bert",
        "BertForSequenceClassification",
        id2label={i: name for name, i in names.items()},
        label2id=names,
    )
    labels = "--label", "animals", "--label", "towns"
    [record] = records("zero-shot", bundle, "the cat", *labels, "--template", "on {}")
    assert record["text"] == "the cat"
    assert sum(one["score"] for one in record["labels"]) == pytest.approx(1)
    both = records("zero-shot", bundle, "-", *labels, "--multi-label", standard_input="the cat\nfar\n")
    assert [sorted(one["label"] for one in record["labels"]) for record in both] == [["animals", "towns"]] * 2
    plain = records("zero-shot", bundle, "the cat", *labels)[0]
    assert plain["labels"] != record["labels"]  # by another template
    assert "Missing option '--label'" in refusal("zero-shot", bundle, "the cat")


def test_rerank(bundle_for):
    bundle = bundle_for("bert", "BertForSequenceClassification", num_labels=1)
    given = "the cat sat", "far", "Anna works"
    [record] = records(
        "rerank", bundle, "the cat", *(part for text in given for part in ("--document", text))
    )
    assert record["query"] == "the cat"
    assert {one["corpus_id"]: one["text"] for one in record["documents"]} == dict(enumerate(given))
    scores = [one["score"] for one in record["documents"]]
    assert scores == sorted(scores, reverse=True)
    both = records(
        "rerank", bundle, "the cat", "far", "--file", "-", "--top-k", "2", standard_input="far\nthe\n"
    )
    assert [len(one["documents"]) for one in both] == [2, 2]
    assert "give --document TEXT for each document" in refusal("rerank", bundle, "the cat")


def test_embed_takes_lines_too(bundle_for):
    bundle = bundle_for("bert", "BertModel")
    found = records("embed", bundle, "-", "--pooling", "cls", standard_input="the cat\nfar\n")
    assert [(record["text"], len(record["embedding"])) for record in found] == [("the cat", 48), ("far", 48)]


def test_bundle_for_another_task_is_one_line(tagger, classifier):
    said = "error: the bundle is for token-classification (use tag); classify needs an export with --task"
    assert refusal("classify", tagger, "the").startswith(said)
    said = "error: the bundle is for text-classification (use classify); answer needs an export with --task"
    assert refusal("answer", classifier, "who?", "the cat").startswith(said)


def test_what_cannot_be_read_is_one_line(classifier, tmp_path):
    (tmp_path / "image").write_bytes(b"the \x89")
    said = refusal("classify", classifier, "--file", tmp_path / "image")
    assert said.startswith(
        f"error: line 1: {tmp_path / 'image'} is not UTF-8: byte 4 is 0x89; answered 0 before it"
    )
    assert refusal("classify", classifier, "--file", tmp_path / "no").endswith("No such file or directory")
    for arguments in [[], ["the", "--file", tmp_path / "image"]]:
        assert refusal("classify", classifier, *arguments).startswith("error: give texts as arguments, --")
    assert "; shorten it, or cut it with truncate=True (--truncate): 'the" in refusal(
        "classify", classifier, "the " * 60
    )
    assert records("classify", classifier, "the " * 60, "--truncate")
    assert refusal("classify", tmp_path, "the").endswith("make one with txexport export")
