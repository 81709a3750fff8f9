"""A Predictor returns the results of the Model's method, for any layout of columns."""

import io
import pickle

import numpy as np
import pytest
import tiny_checkpoint
import tiny_tokenizers
import transformers
from helpers import page_families
from PIL import Image

import txexport
from txexport.batch import Predictor, cores
from txexport.errors import BundleError, InputError
from txexport.runtime.run_lengths import run_lengths
from txexport.tasks import METHODS, ROWS

TEXTS = ["the cat sat on the mat", "Anna lives in Paris [MASK]", "a dog [MASK] [MASK]", "the"]
PAIRS = [TEXTS, ["far away", "the", "Anna", "on the rug"]]
YOLOS = {"shortest_edge": 32, "longest_edge": 64}
MASKED = [f"{text} [MASK]" for text in TEXTS]
CHOICES = [["away", "the dog"], ["a", "the mat", "on"], ["far", "the"], ["Anna", "a"]]
LABELLED = {
    "id2label": {0: "contradiction", 1: "entailment"},
    "label2id": {"contradiction": 0, "entailment": 1},
}
CLASSIFIER, CLIP = "BertForSequenceClassification", {"eos_token_id": len(tiny_tokenizers.clip()) - 1}
CLIP |= {"vocab_size": len(tiny_tokenizers.clip())}

TIME_DELAYS = {"tdnn_dim": [8, 9], "tdnn_kernel": [3, 2], "tdnn_dilation": [1, 2], "xvector_output_dim": 7}
SOUNDS = [[np.sin(np.arange(3000 + 100 * i) / (5 + i)) for i in range(4)]]
PAGES = [np.full((20 + 9 * i, 33, 3), 40 * i, np.uint8) for i in range(3)]
OCR = [
    {"words": text.split(), "boxes": [[9 * i, 40, 9 * i + 8, 50] for i, _ in enumerate(text.split())]}
    for text in TEXTS
]

# Method -> its model's type and architecture, its tokenizer, values of config.json, rows of each argument,
# and options.
ASKED = {
    "embed": ("bert", "BertModel", "wordpiece", {}, [TEXTS], {"pooling": "mean"}),
    "fill_mask": ("bert", "BertForMaskedLM", "wordpiece", {}, [MASKED], {"top_k": 2}),
    "classify": ("bert", CLASSIFIER, "wordpiece", {}, [TEXTS], {}),
    "zero_shot": ("bert", CLASSIFIER, "wordpiece", LABELLED, [TEXTS], {"candidate_labels": ["cat", "dog"]}),
    "rerank": ("bert", CLASSIFIER, "wordpiece", {"num_labels": 1}, [TEXTS], {"documents": TEXTS[:2]}),
    "tag": ("bert", "BertForTokenClassification", "wordpiece", {}, [TEXTS], {"ignore": ["LABEL_0"]}),
    "answer": ("bert", "BertForQuestionAnswering", "wordpiece", {}, PAIRS, {"top_k": 2}),
    "choose": ("bert", "BertForMultipleChoice", "wordpiece", {}, [TEXTS, CHOICES], {}),
    "next_sentence": ("bert", "BertForNextSentencePrediction", "wordpiece", {}, PAIRS, {}),
    "generate": ("gpt2", "GPT2LMHeadModel", "byte_level", {}, [TEXTS], {"do_sample": True, "seed": 3}),
    "image_to_text": ("vision-encoder-decoder", "VisionEncoderDecoderModel", "byte_level", {}, None, {}),
    "embed_image": ("vit", "ViTModel", None, {}, None, {}),
    "classify_audio": ("audio-spectrogram-transformer", "ASTForAudioClassification", None, {}, SOUNDS, {}),
    "diarize": ("wav2vec2", "Wav2Vec2ForAudioFrameClassification", None, {"num_labels": 3}, SOUNDS, {}),
    "embed_speaker": ("wav2vec2", "Wav2Vec2ForXVector", None, TIME_DELAYS, SOUNDS, {}),
    "embed_audio": ("clap", "ClapModel", "byte_level", {}, SOUNDS, {}),
    "match_audio": ("clap", "ClapModel", "byte_level", {}, SOUNDS, {"texts": ["a", "b"]}),
    "classify_image": ("vit", "ViTForImageClassification", None, {}, None, {"top_k": 2}),
    "detect": ("yolos", "YolosForObjectDetection", None, {}, None, {"threshold": 0.1}),
    "depth": ("depth_anything", "DepthAnythingForDepthEstimation", None, {}, None, {}),
    "segment": ("segformer", "SegformerForSemanticSegmentation", None, {}, None, {}),
    "pose": ("vitpose", "VitPoseForPoseEstimation", None, {}, None, {"threshold": -9.0}),
    "masks": ("sam", "SamModel", None, {}, None, {}),
    "all_masks": (
        "sam",
        "SamModel",
        None,
        {},
        None,
        {"points_per_side": 2, "min_score": 0.1, "min_stability": 0.0},
    ),
    "find": (
        "owlvit",
        "OwlViTForObjectDetection",
        "clip",
        {"text_config": {"vocab_size": CLIP["vocab_size"]}},
        None,
        {"texts": ["Anna", "a cat"], "threshold": 0.3},
    ),
    **{
        method: ("colqwen2", "ColQwen2ForRetrieval", None, {}, rows, options)
        for method, rows, options in [
            ("embed_pages", None, {}),
            ("embed_queries", [TEXTS], {}),
            ("rank_pages", [TEXTS], {"images": PAGES}),
        ]
    },
    **{
        method: ("layoutlm", f"LayoutLM{head}", "wordpiece", {"type_vocab_size": 2}, rows, options)
        for method, head, rows, options in [
            ("embed_words", "Model", [OCR], {}),
            ("tag_words", "ForTokenClassification", [OCR], {"stride": 4}),
            ("classify_page", "ForSequenceClassification", [OCR], {"top_k": 1}),
            ("answer_page", "ForQuestionAnswering", [TEXTS, OCR], {"top_k": 2}),
        ]
    },
    "match": ("clip", "CLIPModel", "clip", {"text_config": CLIP}, None, {"texts": ["Anna", "the cat"]}),
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A function from a method to its bundle and its rows."""
    made = {}

    def get(method: str):
        model_type, architecture, kind, config, rows, options = ASKED[method]
        key = str((architecture, config))
        if key not in made:
            folder = tmp_path_factory.mktemp("batch")
            if model_type in page_families.FAMILIES:
                page_families.save(folder / "in", model_type)
            else:
                tiny_checkpoint.save(folder / "in", model_type, architecture, **config)
            if kind is not None:
                getattr(tiny_tokenizers, kind)().save_pretrained(folder / "in")
            if model_type in ("vit", "clip", "vision-encoder-decoder"):
                size = {"size": {"height": 30, "width": 30}, "do_center_crop": False}
                kinds = {"vit": transformers.ViTImageProcessorPil, "clip": transformers.CLIPImageProcessorPil}
                kinds.get(model_type, kinds["vit"])(**size).save_pretrained(folder / "in")
            if model_type == "depth_anything":
                size = {"height": 30, "width": 30}
                transformers.DPTImageProcessorPil(size=size).save_pretrained(folder / "in")
            if model_type == "sam":
                sides = {"height": 60, "width": 60}
                transformers.SamImageProcessorPil(size={"longest_edge": 60}, pad_size=sides).save_pretrained(
                    folder / "in"
                )
            if model_type == "vitpose":
                size = {"height": 48, "width": 36}
                transformers.VitPoseImageProcessorPil(size=size).save_pretrained(folder / "in")
            if model_type == "segformer":
                size = {"height": 32, "width": 32}
                transformers.SegformerImageProcessorPil(size=size).save_pretrained(folder / "in")
            if model_type == "yolos":
                transformers.YolosImageProcessorPil(size=YOLOS).save_pretrained(folder / "in")
            if model_type == "audio-spectrogram-transformer":
                extractor = transformers.ASTFeatureExtractor(num_mel_bins=17, max_length=33)
                extractor.save_pretrained(folder / "in")
            if model_type == "owlvit":
                size = {"height": 30, "width": 30}
                transformers.OwlViTImageProcessorPil(size=size).save_pretrained(folder / "in")
            if model_type == "clap":
                settings = tiny_checkpoint.CLAP_SOUNDS
                transformers.ClapFeatureExtractor(**settings).save_pretrained(folder / "in")
            if model_type == "wav2vec2":
                transformers.Wav2Vec2FeatureExtractor().save_pretrained(folder / "in")
            txexport.export(folder / "in", folder / "out", only="native")
            made[key] = folder / "out"
        if method == "masks":
            rows = [*pictures(), [[{"points": [[3.0, 4.0], [20.0, 30.0]]}]] * 4]
        if method == "pose":
            of_two, of_one = [[1.0, 2.0, 30.0, 31.0], [0.0, 0.0, 9.0, 9.0]], [[5.0, 5.0, 20.0, 30.0]]
            rows = [*pictures(), [of_two, None, of_one, None]]
        return made[key], pictures() if rows is None else rows, options

    return get


def pictures() -> list[list]:
    rng = np.random.default_rng(5)
    return [[rng.integers(0, 256, (37 + i, 53 - i, 3), np.uint8) for i in range(4)]]


def column(values: list) -> np.ndarray:
    result = np.empty(len(values), object)
    result[:] = values
    return result


def plain(value):
    """A row's result in Arrow's types."""
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {
            name: run_lengths(part) if name == "mask" and isinstance(part, np.ndarray) else plain(part)
            for name, part in value.items()
        }
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_every_method_of_a_task_has_a_row():
    assert set(METHODS) == {method for task in ROWS for method in task.methods}
    assert set(METHODS) - set(ASKED) == {"transcribe", "ask_image"}  # of sounds, and of images beside texts


@pytest.mark.parametrize("method", ASKED)
def test_a_column_of_answers_is_what_the_method_gives(method, bundle):
    folder, rows, options = bundle(method)
    with txexport.load(folder, device="cpu") as model:
        expected = list(getattr(model, method)(*rows, **options))
    names = METHODS[method].inputs
    batch = {name: column(values) for name, values in zip(names, rows, strict=True)} | {"id": np.arange(4)}
    found = Predictor(folder, method, device="cpu", **options)(batch)
    assert list(found) == [*names, "id", METHODS[method].answer]
    if method == "fill_mask":  # a list for each mask, also where there is one
        expected = [answer if isinstance(answer[0], list) else [answer] for answer in expected]
    assert [plain(one) for one in found[METHODS[method].answer]] == [plain(one) for one in expected]


@pytest.mark.parametrize("method", ASKED)
def test_arrow_gets_the_type_that_the_table_says(method, bundle):
    """Also where no row has an entity: all files of one data set have the same type."""
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    folder, rows, options = bundle(method)
    own = METHODS[method]
    if own.inputs == ("image",):
        rows = [[png(image) for image in rows[0]]]
    predictor = Predictor(folder, method, device="cpu", on_error="null", **options)
    table = pyarrow.table(rows, list(own.inputs))
    found, empty = predictor(table)[own.answer], predictor(table.slice(0, 0))[own.answer]
    assert found.type == empty.type
    assert sql(found.type) == own.sql_type
    assert any(found.to_pylist())
    by_name = predictor({name: column(values) for name, values in zip(own.inputs, rows, strict=True)})
    same = [plain(one) for one in by_name[own.answer]]
    if own.sql_type != "array<struct<corpus_id:bigint,score:double,text:string>>":  # no text unless requested
        assert found.to_pylist() == same


def png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def sql(kind) -> str:
    """A type of Arrow in SQL's spelling."""
    text = str(kind).replace("list<item: ", "array<").replace("int64", "bigint").replace(": ", ":")
    return text.replace(", ", ",")


def test_a_pair_of_columns_is_classified_together(bundle):
    folder, _, _ = bundle("classify")
    batch = {"premise": column(PAIRS[0]), "said": np.array(PAIRS[1])}
    found = Predictor(folder, "classify", inputs=["premise", "said"], output="found", device="cpu")(batch)
    with txexport.load(folder, device="cpu") as model:
        assert list(found["found"]) == model.classify(list(zip(*PAIRS, strict=True)))


def test_an_argument_of_rows_may_be_the_same_for_all(bundle):
    folder, _, _ = bundle("answer")
    found = Predictor(folder, "answer", inputs="q", context=TEXTS[0], device="cpu")({"q": column(TEXTS)})
    with txexport.load(folder, device="cpu") as model:
        assert list(found["answers"]) == model.answer(TEXTS, TEXTS[0])


def test_images_may_be_files_in_a_column(bundle):
    folder, [images], _ = bundle("embed_image")
    predict = Predictor(folder, "embed_image", device="cpu")
    from_files = predict({"image": column([png(image) for image in images])})
    np.testing.assert_array_equal(from_files["embedding"], predict({"image": column(images)})["embedding"])
    with pytest.raises(InputError, match=r"row 1 of 1 in its batch, b'no image': image of 8 bytes cannot be"):
        predict({"image": column([b"no image"])})


def test_a_row_that_cannot_be_answered_is_named_or_null(bundle):
    folder, _, _ = bundle("embed")
    texts = column([TEXTS[0], None, "the " * 90, TEXTS[3]])
    options = {"pooling": "mean", "device": "cpu"}
    with pytest.raises(InputError) as error:
        Predictor(folder, "embed", **options)({"text": texts})
    assert str(error.value) == (
        "row 2 of 4 in its batch, None: a text is NoneType, expected str; "
        "on_error='null' leaves such rows unanswered"
    )
    found = Predictor(folder, "embed", on_error="null", output="v", **options)({"text": texts})
    good = Predictor(folder, "embed", **options)({"text": texts[[0, 3]]})["embedding"]
    assert [found["v"][i] is None for i in range(4)] == [False, True, True, False]
    np.testing.assert_allclose([found["v"][0], found["v"][3]], good, rtol=0, atol=1e-6)
    assert [error is None for error in found["v_error"]] == [True, False, False, True]
    assert found["v_error"][2].startswith("a text of 9")


def test_a_wrong_option_is_no_rows_fault(bundle):
    folder, _, _ = bundle("embed")
    with pytest.raises(InputError, match=r"^pooling 'median' is not known"):
        Predictor(folder, "embed", pooling="median", on_error="null")({"text": column(TEXTS)})


def test_an_engine_may_be_chosen(tmp_path):
    """As `txexport bench` recommends one. OpenVINO runs only bundles with graphs for other clients."""
    pytest.importorskip("openvino")
    tiny_checkpoint.save(tmp_path / "in", "bert", "BertModel")
    tiny_tokenizers.wordpiece().save_pretrained(tmp_path / "in")
    vectors = []
    for only, engine in ((None, "openvino"), (None, "onnxruntime"), ("native", "openvino")):
        txexport.export(tmp_path / "in", tmp_path / f"{only}", only=only, force=True)
        predictor = Predictor(tmp_path / f"{only}", "embed", engine=engine, pooling="mean", threads=1)
        if only == "native":
            with pytest.raises(BundleError, match="lacks graphs for other clients that OpenVINO runs"):
                predictor({"text": np.array(TEXTS)})
        else:
            vectors.append(np.stack(predictor({"text": np.array(TEXTS)})["embedding"]))
    np.testing.assert_allclose(*vectors, rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"method": "chat"}, "method is 'chat', expected one of embed, classify, zero_shot, rerank"),
        ({"method": "embed", "on_error": "skip"}, "on_error is 'skip', expected stop or null"),
        (
            {"method": "answer", "inputs": "q"},
            r"inputs are \['q'\], expected 2 \(question, context\) for answer",
        ),
        ({"method": "classify", "inputs": list("abc")}, r"expected 1 \(text\), or 2 for pairs for classify"),
        ({"method": "answer", "context": "a", "inputs": list("ab")}, r"expected 1 \(question\) for answer"),
        ({"method": "embed", "text": "a"}, "embed has no column to read; give text as one, not as an option"),
    ],
)
def test_arguments_that_cannot_be(arguments, said):
    with pytest.raises(InputError, match=said):
        Predictor("bundle", **arguments)


def test_a_column_that_is_not_there(bundle):
    folder, _, _ = bundle("embed")
    with pytest.raises(
        InputError, match="no column is 'text' among id, body; choose with inputs= which to read"
    ):
        Predictor(folder, "embed", pooling="mean")({"id": np.arange(2), "body": column(TEXTS[:2])})


def test_several_answers_a_row_are_refused(bundle):
    folder, _, _ = bundle("generate")
    predict = Predictor(folder, "generate", device="cpu", do_sample=True, num_return_sequences=2)
    with pytest.raises(InputError, match=r"generate gives a row \[.*expected one string"):
        predict({"text": column(TEXTS)})


def test_pickles_are_arguments_alone(bundle, tmp_path, monkeypatch):
    """A worker opens the bundle, wherever it is started, and once."""
    folder, [texts], options = bundle("embed")
    monkeypatch.chdir(folder.parent)
    predict = Predictor(folder.name, "embed", device="cpu", **options)
    first = predict({"text": column(texts)})["embedding"]
    pickled = pickle.dumps(predict)
    assert len(pickled) < 1000
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(pickled)
    np.testing.assert_array_equal(again({"text": column(texts)})["embedding"], first)
    assert again._model() is predict._model()


def test_sampling_draws_by_the_place_in_the_batch(bundle):
    """A refused row does not change the samples of the rows after it, though the batch is split."""
    folder, [texts], options = bundle("generate")
    predict = Predictor(folder, "generate", device="cpu", on_error="null", **options)
    whole = predict({"text": column(texts)})["generated"]
    assert list(predict({"text": column([texts[0], None, *texts[2:]])})["generated"][2:]) == list(whole[2:])


def test_outside_a_worker_all_cores_are_its_own():
    assert cores.share_of_cores() is None
