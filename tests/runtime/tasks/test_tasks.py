"""Results of every task, compared with transformers' pipelines over the same weights."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import tiny_checkpoint
import tiny_tokenizers
import torch
import transformers
from helpers.bundle_edits import relist
from PIL import Image
from transformers.pipelines.document_question_answering import select_starts_ends

import txexport
from txexport.errors import BundleError, InputError
from txexport.runtime import Model
from txexport.runtime.preprocessing.text import Text

TEXTS = [
    "Anna Lindqvist lives in Paris and works for Siemens",
    "Jörg bought 3 umbrellas in München, didn't he?",
    "",
    "東京 🙂  far... [MASK]ed e\u0301",
    "the",
    "the cat sat on the mat while the dog lay on the rug",
]
TAGS = ["B-LOC", "O", "I-LOC", "I-PER", "B-PER"]
TOLERANCE = 1e-5


def named(*labels: str) -> dict:
    """The labels in config.json."""
    return {"id2label": dict(enumerate(labels)), "label2id": {name: i for i, name in enumerate(labels)}}


@dataclass
class Case:
    """A checkpoint with its tokenizer, and its bundle."""

    folder: Path
    tokenizer: transformers.PreTrainedTokenizerFast | None
    model: Model

    def pipeline(self, task: str, **options):
        """The judge."""
        return transformers.pipeline(task, model=str(self.folder), tokenizer=self.tokenizer, **options)

    def original(self, auto: str):
        """The model in PyTorch."""
        return getattr(transformers, auto).from_pretrained(self.folder).eval()


@pytest.fixture(scope="module")
def case_of(tmp_path_factory):
    """A function from an architecture, a kind of tokenizer and config values to a Case."""
    made: dict[str, Case] = {}
    transformers.utils.logging.set_verbosity_error()

    def get(architecture: str, kind: str | None = "wordpiece", processor=None, **config) -> Case:
        key = str((architecture, kind, processor, config))
        if key not in made:
            folder = tmp_path_factory.mktemp("task")
            model_type = next(
                name
                for name in sorted(tiny_checkpoint.FAMILIES, key=len, reverse=True)
                if architecture.lower().startswith(re.sub("[-_]", "", name))
            )
            tiny_checkpoint.save(folder / "in", model_type, architecture, **config)
            tokenizer = getattr(tiny_tokenizers, kind)() if kind else None
            for part in (tokenizer, processor):
                if part is not None:
                    part.save_pretrained(folder / "in")
            txexport.export(folder / "in", folder / "out")
            made[key] = Case(folder / "in", tokenizer, txexport.load(folder / "out", device="cpu"))
        return made[key]

    return get


def same(found: list[dict], expected: list[dict], *keys: str) -> None:
    """Assert equal scores within the tolerance, and all else equal."""
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert abs(ours["score"] - theirs["score"]) < TOLERANCE
        for key in keys:
            assert ours[key] == theirs[key]


FIVE = named("joy", "anger", "fear", "love", "none of these")
CLASSIFIERS = [
    ("BertForSequenceClassification", "wordpiece", FIVE),
    ("BertForSequenceClassification", "wordpiece", {"problem_type": "multi_label_classification"} | FIVE),
    ("BertForSequenceClassification", "wordpiece", {"problem_type": "regression", "num_labels": 1}),
    ("BertForSequenceClassification", "wordpiece", {"num_labels": 1}),
    ("RobertaForSequenceClassification", "byte_level", {"num_labels": 2}),
    ("GPT2ForSequenceClassification", "byte_level", {"num_labels": 3}),
    ("LongformerForSequenceClassification", "byte_level", FIVE),
    ("BartForSequenceClassification", "byte_level", {"num_labels": 3}),
]


@pytest.mark.parametrize(("architecture", "kind", "config"), CLASSIFIERS, ids=str)
def test_classify_equals_the_pipeline(architecture, kind, config, case_of):
    case = case_of(architecture, kind, **config)
    found = case.model.classify(TEXTS)
    expected = case.pipeline("text-classification")(TEXTS, top_k=None)
    for ours, theirs in zip(found, expected, strict=True):
        same(ours, theirs, "label")
    assert case.model.classify(TEXTS[0], top_k=1) == found[0][:1]


@pytest.mark.parametrize("row", [CLASSIFIERS[place] for place in (3, 4, 7)], ids=str)
def test_classify_pairs(row, case_of):
    case = case_of(row[0], row[1], **row[2])
    pairs = [("the cat", "Jörg is 東京"), ("", "away"), ("works for Siemens", "the")]
    judge = case.pipeline("text-classification")
    expected = judge([{"text": a, "text_pair": b} for a, b in pairs], top_k=None)
    for ours, theirs in zip(case.model.classify([*pairs, "alone"]), expected, strict=False):
        same(ours, theirs, "label")


SHORT = {"max_position_embeddings": 38}  # what the tokenizer cuts to
NLI = [
    ("BartForSequenceClassification", named("contradiction", "neutral", "entailment") | SHORT),
    ("RobertaForSequenceClassification", named("ENTAILMENT", "neutral", "contradiction")),
    ("RobertaForSequenceClassification", named("not_entailment", "entailed")),
]


@pytest.mark.parametrize(
    "settings", [{}, {"multi_label": True, "hypothesis_template": "{} is away"}], ids=str
)
@pytest.mark.parametrize(("architecture", "config"), NLI, ids=str)
def test_zero_shot_equals_the_pipeline(architecture, config, settings, case_of):
    case = case_of(architecture, "byte_level", **config)
    judge, texts = case.pipeline("zero-shot-classification"), [text for text in TEXTS if text]
    options, settings = settings, settings | {"truncate": True}  # as the pipeline does
    for labels in (["Anna", "the cat sat", "東京"], ["Anna"]):
        expected = judge(texts, labels, **options)
        for ours, theirs in zip(case.model.zero_shot(texts, labels, **settings), expected, strict=True):
            same(
                ours,
                [{"label": a, "score": b} for a, b in zip(theirs["labels"], theirs["scores"], strict=True)],
                "label",
            )
    assert case.model.zero_shot(TEXTS[0], ["away"], **settings)[0].keys() == {"label", "score"}
    assert case.model.zero_shot([], ["away"], **settings) == []


def test_zero_shot_needs_entailment(case_of):
    model = case_of("BertForSequenceClassification", "wordpiece", **FIVE).model
    with pytest.raises(InputError, match=r"labels are joy, anger, .*, none of which is entailment"):
        model.zero_shot("the cat", ["animal"])
    for labels, template in (("animal", "{}"), ([], "{}"), (["animal"], "no place")):
        with pytest.raises(InputError, match=r"expected a list of labels, and \{\} for each"):
            model.zero_shot("the cat", labels, hypothesis_template=template)


def test_a_hypothesis_as_long_as_the_model_reads(case_of):
    case = case_of(NLI[1][0], "byte_level", **NLI[1][1])
    for settings in ({}, {"truncate": True}):
        with pytest.raises(
            InputError, match=r"a hypothesis of \d+ tokens leaves no room for a text: 'This ex"
        ):
            case.model.zero_shot("the cat", ["far " * 20], **settings)


def test_a_text_without_the_mark_that_the_head_reads(case_of, tmp_path):
    """The original refuses it too; its token 0 would have been scored."""
    case = case_of("BartForSequenceClassification", "byte_level", num_labels=3)
    folder = shutil.copytree(case.model.folder, tmp_path / "copy")
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer | {"post_processor": None}), encoding="utf-8")
    with pytest.raises(
        BundleError, match="adds no end-of-sequence token 2 to a text, which the model's head reads"
    ):
        txexport.load(relist(folder), device="cpu").classify("the cat")


def many(count: int) -> list[str]:
    rng = np.random.default_rng(3)
    words = " ".join(TEXTS).split()
    return [" ".join(rng.choice(words, rng.integers(0, 8))) for _ in range(count)]


def test_many_texts_are_answered_in_order_whatever_the_batches(case_of):
    model = case_of(*CLASSIFIERS[0][:2], **FIVE).model
    texts, told = many(50), []
    found = model.classify(texts, batch_tokens=64, progress=lambda *counts: told.append(counts))
    assert told[-1] == (50, 50)
    assert len(told) > 5
    for text, labels in zip(texts, found, strict=True):
        same(sorted(labels, key=str), sorted(model.classify(text), key=str), "label")
    assert model.classify(text for text in texts[:3]) == model.classify(texts[:3])
    assert model.classify([]) == []


def test_a_batch_keeps_to_its_budget(case_of, monkeypatch):
    model = case_of(*CLASSIFIERS[0][:2], **FIVE).model
    shapes = []
    session = model.sessions["model"]
    run = session.run
    monkeypatch.setattr(
        session, "run", lambda inputs: shapes.append(inputs["input_ids"].shape) or run(inputs)
    )
    texts = many(50)
    model.classify(texts, batch_tokens=64)
    sizes = [len(encoding.ids) for encoding in model.text.encode(texts)]
    assert sum(rows for rows, _ in shapes) == 50
    assert all(rows * length <= 64 for rows, length in shapes)
    assert sum(rows * length for rows, length in shapes) < 1.2 * sum(sizes)  # like lengths lie together


LONG = "the cat sat on the mat " * 10


def test_long_text_is_an_error_or_cut_on_request(case_of):
    case = case_of(*CLASSIFIERS[0][:2], **FIVE)
    judge = case.pipeline("text-classification")
    with pytest.raises(InputError, match="a text of 62 tokens is longer than 40; shorten it, or cut it"):
        case.model.classify(["the", LONG])
    cut = {"truncation": True, "max_length": 40}
    same(case.model.classify(LONG, truncate=True), judge(LONG, top_k=None, **cut), "label")
    pair = case.model.classify([("the dog " * 9, LONG)], truncate=True)[0]
    same(pair, judge({"text": "the dog " * 9, "text_pair": LONG}, top_k=None, **cut), "label")


def kinds(name: str) -> list:
    return [
        pytest.param(f"Bert{name}", "wordpiece", id="bert"),
        pytest.param(f"Roberta{name}", "byte_level", id="roberta"),
    ]


@pytest.mark.parametrize("aggregation", ["none", "simple", "first", "average", "max"])
@pytest.mark.parametrize(("architecture", "kind"), kinds("ForTokenClassification"))
@pytest.mark.filterwarnings("ignore:Tokenizer does not support real words")
def test_tag_equals_the_pipeline(architecture, kind, aggregation, case_of):
    case = case_of(architecture, kind, **named(*TAGS))
    judge = case.pipeline("token-classification", aggregation_strategy=aggregation)
    found = case.model.tag(TEXTS, aggregation=aggregation)
    for ours, theirs in zip(found, judge(TEXTS), strict=True):
        renamed = [one | {"label": one.get("entity_group", one.get("entity"))} for one in theirs]
        same(ours, renamed, "label", "word", "start", "end")
    assert case.model.tag(TEXTS[0], aggregation=aggregation) == found[0]
    everything = case.model.tag(TEXTS, aggregation=aggregation, ignore=())
    assert sum(map(len, everything)) > sum(map(len, found)) > 0
    assert "O" in {entity["label"] for entities in everything for entity in entities}


@pytest.mark.parametrize(("architecture", "kind"), kinds("ForTokenClassification"))
def test_tag_reads_a_long_text_in_windows(architecture, kind, case_of):
    case = case_of(architecture, kind, **named(*TAGS))
    long = " ".join(TEXTS) * 3
    judge = case.pipeline("token-classification", aggregation_strategy="simple", stride=9)
    found = case.model.tag([TEXTS[0], long], stride=9)
    assert found[0] == case.model.tag(TEXTS[0])
    same(found[1], judge(long), "word", "start", "end")
    with pytest.raises(InputError, match="is longer than"):
        case.model.tag(long)
    with pytest.raises(InputError, match=r"windows of .. tokens leave .. for the text that they cut"):
        case.model.tag(long, stride=38)
    with pytest.raises(InputError, match="aggregation 'mean' is not known; expected simple, first"):
        case.model.tag("the", aggregation="mean")


def spans(case: Case, question: str, context: str, **settings) -> list[dict]:
    """The answers of transformers 4's question-answering pipeline, of which transformers 5 has parts."""
    size, stride, longest, top_k, aligned = (
        settings[name] for name in ("size", "stride", "longest", "top_k", "aligned")
    )
    batch = case.tokenizer(
        question,
        context,
        truncation="only_second",
        max_length=size,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    original, answers, null = case.original("AutoModelForQuestionAnswering"), [], 1000000
    for i, ids in enumerate(batch["input_ids"]):
        mask = [part != 1 for part in batch.sequence_ids(i)]
        mask = np.array(
            [part and token != case.tokenizer.cls_token_id for part, token in zip(mask, ids, strict=True)]
        )
        names = [name for name in case.tokenizer.model_input_names if name in batch]
        with torch.no_grad():
            output = original(**{name: torch.tensor([batch[name][i]]) for name in names})
        starts, ends, scores, null = select_starts_ends(
            output.start_logits.numpy(),
            output.end_logits.numpy(),
            mask,
            np.ones((1, len(ids)), int),
            null,
            2 * top_k + 10 if aligned else top_k,
            True,
            longest,
        )
        encoding = batch[i]
        for s, e, score in zip(starts.tolist(), ends.tolist(), scores.tolist(), strict=True):
            if score == 0:  # a window may have fewer spans than are asked for
                continue
            first, last = encoding.offsets[s][0], encoding.offsets[e][1]
            if aligned:
                first = encoding.word_to_chars(encoding.token_to_word(s), 1)[0]
                last = encoding.word_to_chars(encoding.token_to_word(e), 1)[1]
            text = context[first:last]
            known = [answer for answer in answers if answer["answer"].lower() == text.lower()]
            if known:
                known[0]["score"] += score
            else:
                answers.append({"score": score, "start": first, "end": last, "answer": text})
    answers.append({"score": null, "start": 0, "end": 0, "answer": ""})
    return sorted(answers, key=lambda answer: -answer["score"])[:top_k]


QUESTION, CONTEXT = "where is Anna?", " ".join([*TEXTS[:2], *TEXTS[3:], "anna Lives in"])


@pytest.mark.parametrize(
    "settings", [{}, {"longest": 3, "top_k": 7}, {"size": 20, "stride": 5}, {"aligned": False}], ids=str
)
@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        *kinds("ForQuestionAnswering"),
        pytest.param("LongformerForQuestionAnswering", "byte_level", id="longformer"),
        pytest.param("BartForQuestionAnswering", "byte_level", id="bart"),
    ],
)
def test_answer_equals_the_pipeline_of_transformers_4(architecture, kind, settings, case_of):
    case = case_of(architecture, kind, **(SHORT if architecture.startswith("Bart") else {}))
    limit = case.tokenizer.model_max_length
    asked = {"size": limit, "stride": limit // 2, "longest": 15, "top_k": 4, "aligned": True} | settings
    options = {
        "top_k": asked["top_k"],
        "max_answer_len": asked["longest"],
        "align_to_words": asked["aligned"],
    }
    if "size" in settings:
        options |= {"max_seq_len": asked["size"], "doc_stride": asked["stride"]}
    found = case.model.answer(QUESTION, CONTEXT, handle_impossible_answer=True, **options)
    same(found, spans(case, QUESTION, CONTEXT, **asked), "start", "end", "answer")
    assert len(found) == asked["top_k"]
    assert all(CONTEXT[answer["start"] : answer["end"]] == answer["answer"] for answer in found)


def test_every_answer_and_none_of_all_windows(case_of):
    """Scores of what stands in several windows or cases are added; no answer is as likely as it is least."""
    case = case_of("BertForQuestionAnswering")
    found = case.model.answer(QUESTION, CONTEXT, top_k=999, handle_impossible_answer=True)
    expected = spans(case, QUESTION, CONTEXT, size=40, stride=20, longest=15, top_k=999, aligned=True)
    scores = {answer["answer"].lower(): answer["score"] for answer in expected}
    assert {answer["answer"].lower(): answer["score"] for answer in found} == approximately(scores)
    assert "" in scores


def test_answers_of_several_questions(case_of):
    model = case_of("BertForQuestionAnswering").model
    questions = [QUESTION, "the cat?", "who"]
    found = model.answer(questions, CONTEXT, top_k=2)
    assert [model.answer(question, CONTEXT, top_k=2) for question in questions] == approximately(found)
    contexts = [CONTEXT, "in Paris", "東京 is far away"]
    found = model.answer(questions, contexts)
    assert [model.answer(*pair) for pair in zip(questions, contexts, strict=True)] == approximately(found)
    assert model.answer(QUESTION, contexts)[1] == approximately(model.answer(QUESTION, contexts[1]))


def approximately(value):
    """`value` with its numbers within the tolerance."""
    if isinstance(value, list):
        return [approximately(item) for item in value]
    if isinstance(value, dict):
        return {key: approximately(item) for key, item in value.items()}
    return pytest.approx(value, abs=TOLERANCE) if isinstance(value, float) else value


MASKED = ["Anna [MASK] in Paris", "[MASK] is 東京 and [MASK]!", "unbelievable [MASK]"]


@pytest.mark.parametrize(("architecture", "kind"), kinds("ForMaskedLM"))
def test_fill_mask_equals_the_pipeline(architecture, kind, case_of):
    case = case_of(architecture, kind)
    texts = [text.replace("[MASK]", case.tokenizer.mask_token) for text in MASKED]
    found, expected = case.model.fill_mask(texts), case.pipeline("fill-mask")(texts)
    keys = ("token", "token_str", "sequence")
    same(found[0], expected[0], *keys)
    same(found[1][0] + found[1][1], expected[1][0] + expected[1][1], *keys)
    assert case.model.fill_mask(texts[2], top_k=2) == approximately(found[2][:2])
    with pytest.raises(InputError, match=f"a text has no {case.tokenizer.mask_token.replace('[', '.')[:-1]}"):
        case.model.fill_mask([texts[0], "the cat"])


def test_bundle_of_pretraining_does_both(case_of):
    case = case_of("BertForPreTraining")
    original, first, second = case.original("BertForPreTraining"), "Anna [MASK]", "in München"
    with torch.no_grad():
        output = original(**case.tokenizer(first, second, return_tensors="pt"))
        words = original(**case.tokenizer(first, return_tensors="pt")).prediction_logits[0, -2]
    assert case.model.fill_mask(first, top_k=1)[0]["token"] == int(words.argmax())
    expected = output.seq_relationship_logits.softmax(-1)[0, 0].item()
    assert abs(case.model.next_sentence(first, second) - expected) < TOLERANCE


def test_next_sentence_equals_the_original(case_of):
    case = case_of("BertForNextSentencePrediction")
    original = case.original("BertForNextSentencePrediction")
    found = case.model.next_sentence("the cat", TEXTS)
    for text, probability in zip(TEXTS, found, strict=True):
        with torch.no_grad():
            logits = original(**case.tokenizer(["the cat"], [text], return_tensors="pt")).logits
        assert abs(logits.softmax(-1)[0, 0].item() - probability) < TOLERANCE
    assert abs(case.model.next_sentence("the cat", TEXTS[1]) - found[1]) < TOLERANCE
    with pytest.raises(InputError, match="2 texts and 3 make no pairs; give as many of each"):
        case.model.next_sentence(["a", "b"], ["c", "d", "e"])


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [*kinds("ForMultipleChoice"), pytest.param("LongformerForMultipleChoice", "byte_level", id="longformer")],
)
def test_choose_equals_the_original(architecture, kind, case_of):
    case = case_of(architecture, kind)
    original = case.original("AutoModelForMultipleChoice")
    questions, sets = ["where is Anna?", "the cat"], [["in Paris", "東京", ""], ["sat", "lay on the rug"]]
    found = case.model.choose(questions, sets)
    for question, choices, ours in zip(questions, sets, found, strict=True):
        batch = case.tokenizer([question] * len(choices), choices, padding=True, return_tensors="pt")
        with torch.no_grad():
            logits = original(**{name: tensor[None] for name, tensor in batch.items()}).logits
        assert np.abs(logits.softmax(-1).numpy()[0] - ours).max() < TOLERANCE
    assert np.abs(np.subtract(case.model.choose(questions[0], sets[0]), found[0])).max() < TOLERANCE
    with pytest.raises(InputError, match="2 questions and 1 lists of choices; give each its own"):
        case.model.choose(questions, sets[:1])


SETTINGS = {"size": {"height": 30, "width": 30}, "do_center_crop": False}


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Image files of several sizes."""
    rng, folder = np.random.default_rng(5), tmp_path_factory.mktemp("images")
    paths = [folder / f"{i}.png" for i in range(5)]
    for i, path in enumerate(paths):
        Image.fromarray(rng.integers(0, 256, (37 + i, 53 - 2 * i, 3), np.uint8)).save(path)
    return [str(path) for path in paths]


def test_classify_image_equals_the_pipeline(case_of, photographs):
    processor = transformers.ViTImageProcessorPil(**SETTINGS)
    labels = named(*(f"kind of cat {i}" for i in range(7)))
    case = case_of("ViTForImageClassification", None, processor, **labels)
    told: list = []
    found = case.model.classify_image(photographs, batch_size=2, progress=lambda *counts: told.append(counts))
    expected = case.pipeline("image-classification", image_processor=processor)(photographs)
    for ours, theirs in zip(found, expected, strict=True):
        same(ours, theirs, "label")
    assert told == [(2, 5), (4, 5), (5, 5)]
    assert case.model.classify_image(Path(photographs[0]), top_k=None)[:5] == approximately(found[0])


@pytest.mark.parametrize(
    ("crop", "batch_size"), [({"crop_size": {"height": 20, "width": 20}}, 3), ({"do_center_crop": False}, 1)]
)
def test_images_of_other_sizes_than_the_table_s(crop, batch_size, case_of, photographs):
    """As published DINOv2 models have it: positions for 518 pixels, and images of 224."""
    processor = transformers.BitImageProcessorPil(size={"shortest_edge": 24}, **crop)
    labels = named(*(f"kind of cat {i}" for i in range(7)))
    case = case_of("Dinov2ForImageClassification", None, processor, **labels)
    found = case.model.classify_image(photographs, batch_size=batch_size)
    expected = case.pipeline("image-classification", image_processor=processor)(photographs)
    for ours, theirs in zip(found, expected, strict=True):
        same(ours, theirs, "label")


@pytest.mark.parametrize("architecture", ["ViTModel", "Dinov2Model", "DeiTModel"])
def test_vectors_of_images(architecture, case_of, photographs):
    case = case_of(architecture, None, transformers.ViTImageProcessorPil(**SETTINGS))
    pixels = torch.from_numpy(case.model.images.pixels(photographs))
    with torch.no_grad():
        wanted = case.original("AutoModel")(pixel_values=pixels)
    states, learned = wanted.last_hidden_state, 2 if architecture == "DeiTModel" else 1
    expected = {"cls": states[:, 0], "mean": states[:, learned:].mean(dim=1)}
    if architecture != "Dinov2Model":  # whose pooler_output is the first token's vector
        expected["pooler"] = wanted.pooler_output
    for pooling, vectors in expected.items():
        found = case.model.embed_image(photographs, pooling=pooling, batch_size=2)
        assert np.abs(found - vectors.numpy()).max() < TOLERANCE
    units = case.model.embed_image(photographs, normalize=True)
    assert np.abs(units - torch.nn.functional.normalize(states[:, 0]).numpy()).max() < TOLERANCE
    assert case.model.embed_image([]).shape == (0, 48)
    with pytest.raises(InputError, match="pooling is 'max', expected cls or mean"):
        case.model.embed_image(photographs, pooling="max")


@pytest.mark.parametrize(
    ("architecture", "output"),
    [("CLIPTextModel", "pooler_output"), ("CLIPTextModelWithProjection", "text_embeds")],
)
def test_vectors_of_a_tower_of_texts(architecture, output, case_of):
    words = len(tiny_tokenizers.clip())
    case = case_of(architecture, "clip", None, vocab_size=words, eos_token_id=words - 1, projection_dim=36)
    texts = ["Anna", "the cat sat on the mat"]
    with torch.no_grad():
        wanted = case.original(architecture)(**case.tokenizer(texts, return_tensors="pt", padding=True))
    assert np.abs(case.model.embed(texts) - wanted[output].numpy()).max() < TOLERANCE
    units = torch.nn.functional.normalize(wanted[output])
    assert np.abs(case.model.embed(texts, normalize=True) - units.numpy()).max() < TOLERANCE
    first = wanted.last_hidden_state[:, 0]
    assert np.abs(case.model.embed(texts, pooling="cls") - first.numpy()).max() < TOLERANCE


@pytest.mark.parametrize("kind", ["siglip", "clip"])
def test_vectors_of_a_tower_of_texts_that_reads_padding(kind, case_of):
    """Whatever else is read together with it, a text has the vector of its length at most."""
    case = case_of("SiglipTextModel", kind, vocab_size=len(tiny_tokenizers.clip()))
    texts = ["Anna", "the cat sat on the mat"]
    batch = case.tokenizer(texts, return_tensors="pt", padding="max_length", max_length=40)
    with torch.no_grad():
        wanted = case.original("SiglipTextModel")(**batch).pooler_output.numpy()
    assert np.abs(case.model.embed(texts) - wanted).max() < TOLERANCE
    assert np.abs(case.model.embed(texts[0]) - wanted[0]).max() < TOLERANCE


@pytest.mark.parametrize(
    ("architecture", "output"),
    [
        ("CLIPVisionModel", "pooler_output"),
        ("CLIPVisionModelWithProjection", "image_embeds"),
        ("SiglipVisionModel", "pooler_output"),
    ],
)
def test_vectors_of_a_tower_of_images(architecture, output, case_of, photographs):
    case = case_of(architecture, None, transformers.CLIPImageProcessorPil(**SETTINGS), projection_dim=36)
    with torch.no_grad():
        pixels = torch.from_numpy(case.model.images.pixels(photographs))
        wanted = case.original(architecture)(pixel_values=pixels)
    assert np.abs(case.model.embed_image(photographs) - wanted[output].numpy()).max() < TOLERANCE
    first = wanted.last_hidden_state[:, 0]
    found = case.model.embed_image(photographs, pooling="cls")
    assert np.abs(found - first.numpy()).max() < TOLERANCE


def test_vectors_of_texts_and_images(case_of, photographs):
    words, processor = len(tiny_tokenizers.clip()), transformers.CLIPImageProcessorPil(**SETTINGS)
    case = case_of(
        "CLIPModel", "clip", processor, text_config={"vocab_size": words, "eos_token_id": words - 1}
    )
    texts = ["Anna", "the cat sat on the mat"]
    batch = case.tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        pixels = torch.from_numpy(case.model.images.pixels(photographs))
        wanted = case.original("CLIPModel")(**batch, pixel_values=pixels)
    assert np.abs(case.model.embed(texts) - wanted.text_embeds.numpy()).max() < TOLERANCE
    assert np.abs(case.model.embed_image(photographs) - wanted.image_embeds.numpy()).max() < TOLERANCE
    assert np.array_equal(case.model.embed_image(photographs[0]), case.model.embed_image(photographs[:1])[0])
    with pytest.raises(InputError, match="pooling is 'mean', expected none"):
        case.model.embed_image(photographs, pooling="mean")
    for option in ({"pooling": "cls"}, {"normalize": False}):
        with pytest.raises(InputError, match="a model of texts and images has its own pooling, normalized"):
            case.model.embed(texts, **option)
    assert np.array_equal(case.model.embed(texts, normalize=True), case.model.embed(texts))


def test_match_equals_the_pipeline(case_of, photographs):
    processor = transformers.CLIPImageProcessorPil(**SETTINGS)
    words = len(tiny_tokenizers.clip())
    case = case_of(
        "CLIPModel", "clip", processor, text_config={"vocab_size": words, "eos_token_id": words - 1}
    )
    texts, template = ["Anna", "the cat sat on the mat", "東京 {}"], "a photograph of {}, far away"
    judge = case.pipeline("zero-shot-image-classification", image_processor=processor)
    found = case.model.match(photographs, texts, template=template, batch_size=2)
    expected = judge(photographs, candidate_labels=texts, hypothesis_template=template)
    for ours, theirs in zip(found, expected, strict=True):
        same(ours, theirs, "label")
    alone = case.model.match(photographs[0], texts)
    same(alone, judge(photographs[0], candidate_labels=texts, hypothesis_template="{}"), "label")
    with pytest.raises(InputError, match="template 'a cat', expected texts"):
        case.model.match(photographs, texts, template="a cat")
    with pytest.raises(InputError, match="is longer than 40"):
        case.model.match(photographs, [LONG])


@pytest.mark.parametrize("kind", ["siglip", "clip"])
def test_match_pads_texts_to_one_length_and_scores_each_alone(kind, case_of, photographs):
    """Where padding is read, a text's vector depends on its length; a mask hides padding if there is one."""
    words, processor = (
        len(tiny_tokenizers.clip()),
        transformers.SiglipImageProcessorPil(size=SETTINGS["size"]),
    )
    text = {"vocab_size": words, "max_position_embeddings": 64}  # the length that the pipeline pads to
    case = case_of("SiglipModel", kind, processor, text_config=text)
    texts = ["Anna", "the cat sat on the mat", "東京"]
    judge = case.pipeline("zero-shot-image-classification", image_processor=processor)
    found = case.model.match(photographs, texts)
    expected = judge(photographs, candidate_labels=texts, hypothesis_template="{}")
    for ours, theirs in zip(found, expected, strict=True):
        same(ours, theirs, "label")
    assert sum(label["score"] for label in found[0]) != pytest.approx(1, abs=TOLERANCE)
    alone = [case.model.embed(text) for text in texts]
    assert np.abs(case.model.embed(texts) - alone).max() < TOLERANCE


def test_bundle_for_another_task_says_what_it_is_for(case_of):
    model = case_of("BertForTokenClassification", **named(*TAGS)).model
    said = r"the bundle is for token-classification \(use tag\); classify needs an export with --task text-"
    with pytest.raises(InputError, match=said):
        model.classify("the")
    with pytest.raises(InputError, match="answer needs an export with --task question-answering"):
        model.answer("the", "cat")


WRONG = [
    ("classify", ["the", 3], {}, "a text is int, expected str"),
    ("classify", b"the", {}, "a text is bytes, expected str"),
    ("classify", {"the", "cat"}, {}, "the inputs are a set, expected a list, whose order is known"),
    ("classify", {"the": 1}, {}, "the inputs are a dict, expected a list, whose order is known"),
    ("classify", [("a", "b", "c")], {}, "a pair is 3 texts, expected 2"),
    ("classify", "the", {"top_k": 0}, "top_k is 0, expected a whole number of at least 1"),
    ("classify", "the", {"batch_tokens": 0}, "batch_tokens is 0, expected at least 1"),
]


@pytest.mark.parametrize(("method", "texts", "options", "said"), WRONG, ids=[row[3] for row in WRONG])
def test_what_is_no_input_is_one_line(method, texts, options, said, case_of):
    with pytest.raises(InputError, match=said):
        getattr(case_of(*CLASSIFIERS[0][:2], **FIVE).model, method)(texts, **options)


EMPTY = [("", CONTEXT), (QUESTION, " ")]


@pytest.mark.parametrize("pair", EMPTY, ids=["question", "context"])
def test_answer_needs_text(pair, case_of):
    with pytest.raises(InputError, match="a question or its context is empty"):
        case_of("BertForQuestionAnswering").model.answer(*pair)


def test_question_must_leave_room_for_its_context(case_of):
    model = case_of("BertForQuestionAnswering").model
    question = "the cat " * 16
    with pytest.raises(InputError, match=r"windows of 40 tokens leave 5 for the text that they cut"):
        model.answer(question, LONG, doc_stride=20)
    assert model.answer(question, LONG, top_k=9) == model.answer(question, LONG, top_k=9, doc_stride=2)
    questions, contexts = [question, QUESTION], [LONG, LONG]
    assert model.answer(questions, contexts) == [model.answer(one, LONG) for one in questions]
    with pytest.raises(InputError, match=r"windows of 40 tokens leave 0 for the text that they cut"):
        model.answer("the cat " * 19, LONG)
    with pytest.raises(InputError, match="max_seq_len is 41, the model reads at most 40 tokens"):
        model.answer(QUESTION, LONG, max_seq_len=41)
    with pytest.raises(InputError, match="doc_stride is -1, expected a whole number of at least 0"):
        model.answer(QUESTION, LONG, doc_stride=-1)


def test_decoded_words_lose_the_spaces_that_a_checkpoint_tidies(case_of, tmp_path):
    case = case_of("BertForMaskedLM")
    tokens = case.tokenizer("it ' s the cat , is n't", add_special_tokens=False)["input_ids"]
    tokenizer = tiny_tokenizers.wordpiece()
    tokenizer.save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps(settings | {"clean_up_tokenization_spaces": True})
    )
    tokenizer.clean_up_tokenization_spaces = True
    text = Text(tmp_path)
    assert text.decode([tokens]) == [tokenizer.decode(tokens)] != [case.tokenizer.decode(tokens)]
