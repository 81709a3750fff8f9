"""Words in their boxes on pages: labels, vectors and answers against transformers' classes."""

import base64
import io
import json
import shutil

import httpx
import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers import document_families
from helpers.pictured import picture
from helpers.serving import running

import txexport
from txexport.cli.main import main
from txexport.errors import InputError
from txexport.runtime.batches import longest_text

FAMILIES, READS_IMAGES = document_families.FAMILIES, document_families.READS_IMAGES
WORDS = ["Anna", "works", "in", "Paris,", "total:", "3.50", "the", "cat", "東京", "[SEP]", "a/b", "lives"]
SAME = 2e-6


def page(count, image=True, start=0):
    """A page of `count` words in seeded boxes."""
    draw = np.random.default_rng(count)
    texts = [WORDS[(start + number) % len(WORDS)] for number in range(count)]
    boxes = np.sort(draw.integers(0, 1001, (count, 2, 2)), axis=1).reshape(-1, 4).tolist()
    return {"words": texts, "boxes": boxes} | ({"image": picture(30 + count, 41)} if image else {})


def pages_of(family, *counts):
    return [page(count, family in READS_IMAGES) for count in counts]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The checkpoint and the model of a family and a head, each written once."""
    known = {}

    def get(family, head):
        if (family, head) not in known:
            folder = tmp_path_factory.mktemp(f"{family}-{head}")
            document_families.save(folder / "ck", family, head)
            txexport.export(folder / "ck", folder / "out", only="native")
            known[family, head] = folder / "ck", txexport.load(folder / "out", device="cpu", threads=1)
        return known[family, head]

    return get


def inputs_of(checkpoint, family, value, question=None):
    """The library's inputs of a page alone, by its own tokenizer and image processor."""
    reader = transformers.AutoTokenizer.from_pretrained(checkpoint)
    texts, boxes = value["words"], value["boxes"]
    if family != "layoutlm":
        read = (texts,) if question is None else (question, texts)
        inputs = reader(*read, boxes=boxes, return_tensors="pt")
        if family not in READS_IMAGES:
            return inputs
        images = transformers.AutoImageProcessor.from_pretrained(checkpoint, backend="pil", apply_ocr=False)
        return inputs | {"pixel_values": images(value["image"], return_tensors="pt")["pixel_values"]}
    read = (texts,) if question is None else (question.split(), texts)
    inputs = reader(*read, is_split_into_words=True, return_tensors="pt")
    parts = zip(inputs["input_ids"][0].tolist(), inputs.word_ids(), inputs.sequence_ids(), strict=True)
    rows = [
        boxes[word]
        if word is not None and text == len(read) - 1
        else [1000 * (token == reader.sep_token_id)] * 4
        for token, word, text in parts
    ]
    return inputs | {"bbox": torch.tensor([rows])}


@torch.no_grad()
def outputs_of(checkpoint, kind, inputs):
    network = getattr(transformers, kind).from_pretrained(checkpoint).eval()
    return network(**inputs)


def first_tokens(checkpoint, family, value):
    """The places of the words' first tokens."""
    reader = transformers.AutoTokenizer.from_pretrained(checkpoint)
    texts = value["words"]
    if family == "layoutlm":
        ids = reader(texts, is_split_into_words=True).word_ids()
    else:
        ids = reader(texts, boxes=value["boxes"]).word_ids()
    return [ids.index(word) for word in range(len(texts))]


def test_labels_of_words_are_the_librarys(models, family):
    checkpoint, model = models(family, "tag")
    pages = pages_of(family, 5, 1, 9, 12)
    for value, ours in zip(pages, model.tag_words(pages), strict=True):
        inputs = inputs_of(checkpoint, family, value)
        logits = outputs_of(checkpoint, "AutoModelForTokenClassification", inputs).logits
        shares = logits.softmax(2)[0, first_tokens(checkpoint, family, value)]
        assert [one["word"] for one in ours] == value["words"]
        assert [one["label"] for one in ours] == [document_families.LABELS[best] for best in shares.argmax(1)]
        np.testing.assert_allclose([one["score"] for one in ours], shares.amax(1), atol=SAME)
    single = model.tag_words(pages[2])
    assert [one["label"] for one in single] == [one["label"] for one in model.tag_words(pages)[2]]
    assert model.tag_words([]) == []


def test_vectors_of_words_are_those_of_their_first_tokens(models, family):
    checkpoint, model = models(family, "embed")
    pages = pages_of(family, 7, 3)
    for value, ours in zip(pages, model.embed_words(pages), strict=True):
        states = outputs_of(checkpoint, "AutoModel", inputs_of(checkpoint, family, value)).last_hidden_state
        expected = states[0, first_tokens(checkpoint, family, value)]
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_labels_of_pages_are_the_librarys(models, family):
    checkpoint, model = models(family, "classify")
    pages = pages_of(family, 4, 11, 0)
    for value, ours in zip(pages, model.classify_page(pages), strict=True):
        inputs = inputs_of(checkpoint, family, value) if value["words"] else None
        assert sum(one["score"] for one in ours) == pytest.approx(1)
        if inputs is not None:
            logits = outputs_of(checkpoint, "AutoModelForSequenceClassification", inputs).logits[0]
            order = logits.argsort(descending=True).tolist()
            assert [one["label"] for one in ours] == [document_families.LABELS[one] for one in order]
            np.testing.assert_allclose([one["score"] for one in ours], logits.softmax(0)[order], atol=SAME)
    assert model.classify_page(pages[0], top_k=1) == model.classify_page(pages[0])[:1]


def test_pixels_are_as_boxes_of_their_share_of_the_page(models):
    """As `normalize_box` of the library, which rounds down."""
    _, model = models("layoutlm", "tag")
    wide = {"words": ["a", "b"], "boxes": [[3, 5, 100.5, 20], [0, 0, 641, 333]], "size": [641, 333]}
    same = {"words": ["a", "b"], "boxes": [[4, 15, 156, 60], [0, 0, 1000, 1000]]}
    assert model.tag_words(wide) == model.tag_words(same)


def test_long_pages_are_read_in_windows_as_by_the_librarys_tokenizer(models, family):
    checkpoint, model = models(family, "tag")
    [value] = pages_of(family, 60)
    with pytest.raises(InputError, match=r"is longer than 72; read it in windows with stride=34"):
        model.tag_words(value)
    ours = model.tag_words(value, stride=20)
    assert [one["word"] for one in ours] == value["words"]
    reader = transformers.AutoTokenizer.from_pretrained(checkpoint)
    options = {"truncation": True, "max_length": 72, "stride": 20, "return_overflowing_tokens": True}
    named = {"boxes": [value["boxes"]]} if family != "layoutlm" else {"is_split_into_words": True}
    windows = reader([value["words"]], **named, **options)
    best = {}
    for row in range(len(windows["input_ids"])):
        owners = windows.word_ids(row)
        for word in dict.fromkeys(one for one in owners if one is not None):
            place = owners.index(word)
            depth = min(place, len(owners) - 1 - place)
            if depth > best.get(word, (-1,))[0]:
                best[word] = depth, row, place
    rows = {row for _, row, _ in best.values()}
    assert len(rows) > 1
    logits = {}
    for row in rows:
        ids = torch.tensor([windows["input_ids"][row]])
        boxes = boxes_of(reader, family, windows, row, value)
        inputs = {"input_ids": ids, "bbox": torch.tensor([boxes])}
        if family in READS_IMAGES:
            short = page(2) | {"image": value["image"]}
            inputs["pixel_values"] = inputs_of(checkpoint, family, short)["pixel_values"]
        logits[row] = outputs_of(checkpoint, "AutoModelForTokenClassification", inputs).logits[0]
    expected = [logits[row][place].softmax(0).max().item() for _, row, place in (best[i] for i in range(60))]
    np.testing.assert_allclose([one["score"] for one in ours], expected, atol=SAME)


def boxes_of(reader, family, windows, row, value):
    """The boxes of a window's tokens."""
    if family != "layoutlm":
        return windows["bbox"][row]
    parts = zip(windows["input_ids"][row], windows.word_ids(row), strict=True)
    return [
        value["boxes"][word] if word is not None else [1000 * (token == reader.sep_token_id)] * 4
        for token, word in parts
    ]


def test_answers_are_those_of_the_librarys_pipeline(models):
    """Of LayoutLM, the only one of its family that the pipeline runs."""
    checkpoint, model = models("layoutlm", "answer")
    pipeline = transformers.pipeline("document-question-answering", model=str(checkpoint))
    for count, question in ((12, "who works in paris?"), (3, "total"), (60, "the cat")):
        [value] = pages_of("layoutlm", count)
        boxes = list(zip(value["words"], value["boxes"], strict=True))
        expected = pipeline(question=question, image=None, word_boxes=boxes, top_k=4)
        ours = model.answer_page(question, value, top_k=4)
        for one, other in zip(ours, expected, strict=True):
            assert (one["answer"], one["start"], one["end"] - 1) == tuple(
                other[name] for name in ("answer", "start", "end")
            )
            assert one["score"] == pytest.approx(other["score"], abs=SAME)


def test_answers_of_pages_with_images(models):
    """The pipeline gives LayoutLMv3's image to LayoutLMv2's argument: this is its rule over the model."""
    checkpoint, model = models("layoutlmv3", "answer")
    [value] = pages_of("layoutlmv3", 9)
    inputs = inputs_of(checkpoint, "layoutlmv3", value, "where does anna work?")
    reader = transformers.AutoTokenizer.from_pretrained(checkpoint)
    parts = reader(["where does anna work?"], [value["words"]], boxes=[value["boxes"]])
    outputs = outputs_of(checkpoint, "AutoModelForQuestionAnswering", inputs)
    seen = np.array([one == 1 for one in parts.sequence_ids(0)])
    seen[0] = True
    length = len(seen)
    starts, ends = (
        np.where(seen, one[0, :length].numpy(), -1e4) for one in (outputs.start_logits, outputs.end_logits)
    )
    starts, ends = (np.exp(one - one.max()) / np.exp(one - one.max()).sum() for one in (starts, ends))
    inside = [place for place in range(1, length) if seen[place]]
    best = max((starts[i] * ends[j], i, j) for i in inside for j in inside if 0 <= j - i < 15)
    [ours] = model.answer_page("where does anna work?", value)
    assert ours["score"] == pytest.approx(best[0], abs=SAME)
    assert (ours["start"], ours["end"] - 1) == (parts.word_ids(0)[best[1]], parts.word_ids(0)[best[2]])
    several = model.answer_page(["where does anna work?", "total"], value)
    assert [one[0]["start"] for one in several] == [ours["start"], several[1][0]["start"]]
    every = model.answer_page("where does anna work?", value, top_k=500, handle_impossible_answer=True)
    [none] = [one["score"] for one in every if one["answer"] == ""]
    assert none == pytest.approx(starts[0] * ends[0], abs=SAME)


REFUSED = [
    ("a page", r"a page is 'a page', expected \{\"words\""),
    ({"words": ["a"]}, r"a page is .*, expected \{\"words\""),
    ({"words": ["a"], "boxes": [[0, 0, 1, 1]], "text": "a"}, r"a page has 'text', expected words, boxes"),
    ({"words": "a", "boxes": [[0, 0, 1, 1]]}, r"a page's words are 'a', expected a list of texts"),
    ({"words": ["a", 3], "boxes": [[0, 0, 1, 1]] * 2}, r"a text is int, expected str"),
    ({"words": ["a"], "boxes": []}, r"the boxes of 1 words are \[\]; expected four numbers"),
    ({"words": [], "boxes": None}, r"the boxes of 0 words are None; expected four numbers"),
    ({"words": ["a"], "boxes": [[10**400, 0, 1, 1]]}, r"expected four numbers for each word"),
    ({"words": ["a"], "boxes": [[True, False, True, True]]}, r"expected four numbers for each word"),
    ({"words": ["a"], "boxes": [["0", "1", "2", "3"]]}, r"expected four numbers for each word"),
    ({"words": ["a"], "boxes": [[0, 0, 5, 1]], "size": [10**400, 1]}, r"a page's size is .*, expected its"),
    ({"words": ["a"], "boxes": [[0, 0, 5, 1]], "size": "99"}, r"a page's size is '99', expected its"),
    ({"words": ["a"], "boxes": [[0, 0, 1]]}, r"expected four numbers for each word"),
    ({"words": ["a"], "boxes": [[0, 0, 1, float("nan")]]}, r"expected four numbers for each word"),
    ({"words": ["a"], "boxes": [[0, 0, 1, 1001]]}, r"the box of word 1, 'a', is .*; expected left, top"),
    ({"words": ["b", "a"], "boxes": [[0, 0, 1, 1], [5, 0, 4, 1]]}, r"the box of word 2, 'a', is"),
    ({"words": ["a"], "boxes": [[0, 0, 0.5, 1]]}, r"as whole numbers of 0 to 1000"),
    ({"words": ["a"], "boxes": [[0, 0, 5, 1]], "size": [0, 4]}, r"a page's size is \[0, 4\], expected its"),
    ({"words": ["a", " "], "boxes": [[0, 0, 1, 1]] * 2}, r"word 2 of a page, ' ', has no tokens; leave it"),
    (
        {"words": ["a"], "boxes": [[0, 0, 1, 1]], "image": "a.png"},
        r"the page of 'a' has an image, and the model reads no",
    ),
]


@pytest.mark.parametrize(("value", "message"), REFUSED)
def test_what_is_no_page_is_refused(models, value, message):
    _, model = models("layoutlm", "tag")
    with pytest.raises(InputError, match=message):
        model.tag_words(value)


def test_a_word_is_read_at_its_first_token_wherever_windows_begin(models, tmp_path):
    """Also where a window begins within a word, as those that are cut on the left do."""
    checkpoint, _ = models("layoutlm", "embed")
    copy = shutil.copytree(checkpoint, tmp_path / "ck")
    file = copy / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"truncation_side": "left"}))
    txexport.export(copy, tmp_path / "out", only="native")
    model = txexport.load(tmp_path / "out", device="cpu", threads=1)
    limit = longest_text(model.bundle)
    long = "a/b/a/b/a/b"
    texts = [long, *["the"] * (limit - 6)]
    value = {"words": texts, "boxes": [[1, 2, 3, 4]] * len(texts)}
    [encoding] = model.bundle.files.text.split([texts])
    assert limit < len(encoding) < 2 * limit - 8
    windows = model.bundle.files.text.windows([texts], limit, 2, split=True)
    parts = [windows[0], *windows[0].overflowing]
    begun = [part for part in parts if 0 in part.word_ids]
    assert len(begun) == 2  # one of them within the long word
    first = next(part for part in begun if part.ids[1] == encoding.ids[1] and part.word_ids[1] == 0)
    boxes = np.zeros((1, len(first), 4), np.int64)
    boxes[0, 1:-1], boxes[0, -1] = [1, 2, 3, 4], 1000
    original = transformers.AutoModel.from_pretrained(checkpoint).eval()
    with torch.no_grad():
        expected = original(input_ids=torch.tensor([first.ids]), bbox=torch.from_numpy(boxes))
    np.testing.assert_allclose(
        model.embed_words(value, stride=2)[0], expected.last_hidden_state[0, 1], atol=SAME
    )


def test_a_page_without_the_image_that_a_model_reads_is_refused(models):
    _, model = models("layoutlmv3", "tag")
    message = r"the page of 'Anna works in' has no image, and the model reads the image of each page"
    with pytest.raises(InputError, match=message):
        model.tag_words([page(2), page(3, image=False)])


def test_a_method_of_other_models_for_the_same_task_is_refused(models):
    _, model = models("layoutlm", "tag")
    message = r"for token-classification \(use tag_words\); tag is for other models of this task"
    with pytest.raises(InputError, match=message):
        model.tag("a text")


def test_bundles_are_verified_with_their_tokenizers_and_image_processors(models, family):
    checkpoint, model = models(family, "tag")
    result = txexport.verify(model.bundle.folder, source=checkpoint, cases="quick")
    assert result.ok
    checked = {case.name for case in result.cases if not case.skipped}
    assert {"tokenizer"} | ({"image processor"} if family in READS_IMAGES else set()) <= checked


def test_a_tokenizer_is_built_as_its_class_builds_it(tmp_path):
    """LayoutLMv3Tokenizer takes the vocabulary alone from tokenizer.json, and puts a space before a word."""
    document_families.save(tmp_path / "ck", "layoutlmv3")
    file = tmp_path / "ck/tokenizer.json"
    values = json.loads(file.read_text())
    values["pre_tokenizer"]["add_prefix_space"] = False
    file.write_text(json.dumps(values))
    txexport.export(tmp_path / "ck", tmp_path / "out", only="native")
    ours = txexport.load(tmp_path / "out").bundle.files.text.split([["the", "cat"]])[0].ids
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "ck")
    assert ours == reader(["the", "cat"], boxes=[[0, 0, 1, 1]] * 2)["input_ids"]


def test_command(models, tmp_path):
    _, model = models("layoutlmv3", "tag")
    picture(50, 40).save(tmp_path / "page.png")
    pages = [page(count, False) | {"image": str(tmp_path / "page.png")} for count in (3, 6)]
    file = tmp_path / "pages.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in pages) + "[1]\n")
    arguments = ["tag-words", str(model.bundle.folder), "--json", "--on-error", "skip"]
    result = CliRunner().invoke(main, [*arguments, "--file", str(file)])
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    for line, expected in zip(lines[:2], model.tag_words(pages), strict=True):
        assert [one["label"] for one in line["words"]] == [one["label"] for one in expected]
    assert "is no page" in lines[2]["error"]
    result = CliRunner().invoke(main, ["tag-words", str(model.bundle.folder), json.dumps(pages[0])])
    assert result.exit_code == 0
    assert "Anna works in" in result.stdout


def test_commands_of_the_other_tasks(models, tmp_path):
    value = page(4, False)
    for head, command, more, key in (
        ("embed", "embed-words", [], "embeddings"),
        ("classify", "classify-page", ["--top-k", "2"], "labels"),
        ("answer", "answer-page", ["--question", "total?"], "answers"),
    ):
        _, model = models("layoutlm", head)
        arguments = [command, str(model.bundle.folder), json.dumps(value), "--json", *more]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        ours = json.loads(result.stdout)[key]
        if head == "embed":
            np.testing.assert_allclose(ours, model.embed_words(value), atol=1e-6)
        elif head == "classify":
            assert ours == model.classify_page(value, top_k=2)
        else:
            assert ours == model.answer_page("total?", value)


def test_server(models):
    _, tagger = models("layoutlmv3", "tag")
    _, answerer = models("layoutlm", "answer")
    value, image = page(5, False), picture(33, 44)
    content = io.BytesIO()
    image.save(content, "PNG")
    sent = value | {"image": base64.b64encode(content.getvalue()).decode()}
    with running({"tagger": tagger.bundle.folder, "answerer": answerer.bundle.folder}) as (address, _):
        url = f"{address}/v1/tasks/tag_words"
        body = {"model": "tagger", "pages": sent}
        answer = httpx.post(url, json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        expected = tagger.tag_words(value | {"image": image})
        assert [one["label"] for one in answer.json()] == [one["label"] for one in expected]
        path = httpx.post(url, json=body | {"pages": value | {"image": "/etc/hostname"}}, timeout=60)
        assert path.status_code == 400
        assert "base64" in path.text
        body = {"model": "answerer", "question": "total?", "pages": [value, page(3, False)]}
        answer = httpx.post(f"{address}/v1/tasks/answer_page", json=body, timeout=60)
        assert answer.json() == answerer.answer_page("total?", [value, page(3, False)])


@pytest.mark.parametrize("command", ["bench", "tag"])
def test_commands_that_read_texts_name_the_one_for_pages(models, command):
    _, model = models("layoutlm", "tag")
    texts = ["the cat"] if command == "tag" else []
    result = CliRunner().invoke(main, [command, str(model.bundle.folder), *texts])
    assert result.exit_code == 2
    assert "tag_words" in result.stderr


def test_lilt_over_roberta_has_the_tokenizer_of_layoutlmv3(tmp_path):
    reader = document_families.tokenizer("layoutlmv3")
    sizes = {"vocab_size": len(reader), "pad_token_id": reader.pad_token_id}
    document_families.save(tmp_path / "ck", "lilt", **sizes, type_vocab_size=1)
    reader.save_pretrained(tmp_path / "ck")
    txexport.export(tmp_path / "ck", tmp_path / "out", only="native")
    model = txexport.load(tmp_path / "out", device="cpu", threads=1)
    value = page(9, False)
    inputs = inputs_of(tmp_path / "ck", "lilt", value)
    logits = outputs_of(tmp_path / "ck", "AutoModelForTokenClassification", inputs).logits
    shares = logits.softmax(2)[0, first_tokens(tmp_path / "ck", "lilt", value)]
    np.testing.assert_allclose([one["score"] for one in model.tag_words(value)], shares.amax(1), atol=SAME)
    result = txexport.verify(tmp_path / "out", cases="quick")
    assert "tokenizer" in {case.name for case in result.cases if case.ok and not case.skipped}
