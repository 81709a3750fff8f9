"""An exported bundle, loaded by transformers.js in Node and in Chromium, equals transformers."""

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from helpers import hub, pictured_families, whisper_cases
from helpers.client_checkpoints import SPEECH, Checkpoint, pixels, sound
from transformers import PreTrainedTokenizerFast
from transformers.models.whisper import generation_whisper

from txexport.exporter import export
from txexport.runtime import load
from txexport.verification.clients import transformers_js
from txexport.verification.clients.transformers_js import PACKAGE, Client, ClientError, Remote
from txexport.verification.runtimes import npm

NODE, CHROMIUM = "node", "chromium"
START = {NODE: transformers_js.node, CHROMIUM: transformers_js.chromium}
MISSING = {NODE: transformers_js.missing_in_node, CHROMIUM: transformers_js.missing_in_chromium}
NEEDS = {where: pytest.mark.skipif(why() is not None, reason=str(why())) for where, why in MISSING.items()}
BOTH = [pytest.param(where, marks=NEEDS[where]) for where in START]
TOLERANCE = 1e-4
TEXTS = ["the cat sat on the mat", "a dog"]
FIVE = {"num_labels": 5}

CHECKPOINTS = [
    Checkpoint("bert", "BertModel", "wordpiece"),
    Checkpoint("roberta", "RobertaModel", "byte_level"),
    Checkpoint("bert", "BertForSequenceClassification", "wordpiece", FIVE),
    Checkpoint("roberta", "RobertaForSequenceClassification", "byte_level", FIVE),
    Checkpoint("bert", "BertForTokenClassification", "wordpiece", FIVE),
    Checkpoint("bert", "BertForQuestionAnswering", "wordpiece"),
    Checkpoint("gpt2", "GPT2LMHeadModel", "byte_level"),
    Checkpoint("llama", "LlamaForCausalLM", "byte_level"),
    Checkpoint("qwen2", "Qwen2ForCausalLM", "byte_level"),
    Checkpoint("lfm2", "Lfm2ForCausalLM", "byte_level"),
    Checkpoint("granitemoehybrid", "GraniteMoeHybridForCausalLM", "byte_level"),
    Checkpoint("nemotron_h", "NemotronHForCausalLM", "byte_level"),
    Checkpoint("qwen3_5_text", "Qwen3_5ForCausalLM", "byte_level"),
    Checkpoint("marian", "MarianMTModel", "byte_level"),
    Checkpoint("t5", "T5ForConditionalGeneration", "byte_level"),
    Checkpoint("bart", "BartForConditionalGeneration", "byte_level"),
    Checkpoint("whisper", "WhisperForConditionalGeneration", "speech"),
    Checkpoint("moonshine", "MoonshineForConditionalGeneration", "byte_level"),
    Checkpoint("vit", "ViTForImageClassification", None, FIVE),
    Checkpoint("clip", "CLIPModel", "clip"),
    Checkpoint("clap", "ClapModel", "byte_level"),
]
BY_NAME = {checkpoint.architecture: checkpoint for checkpoint in CHECKPOINTS}


TASKS = {  # of the tests whose results are in docs/'s table
    "test_features": "feature-extraction",
    "test_labels_of_texts": "text-classification",
    "test_labels_of_tokens": "token-classification",
    "test_answers": "question-answering",
    "test_texts_go_on": "text-generation",
    "test_texts_become_others": "text2text-generation",
    "test_sound_becomes_text": "automatic-speech-recognition",
    "test_a_waveform_becomes_text": "automatic-speech-recognition",
    "test_labels_of_images": "image-classification",
    "test_labels_from_words": "zero-shot-image-classification",
    "test_labels_of_sounds_from_words": "zero-shot-audio-classification",
}


@pytest.fixture(autouse=True)
def _noted(request, record_property):
    task = TASKS.get(request.node.originalname)
    if task is not None:
        given = request.node.callspec.params
        record_property("family", BY_NAME[given["name"]].model_type)
        record_property("task", task)
        record_property("what", f"pipeline in {given['where'].capitalize()}")
        record_property("versions", json.dumps({PACKAGE: npm.version(PACKAGE)}))


def on(*names: str, chromium: tuple[str, ...] = ()) -> Callable:
    """A test's rows: each architecture in Node, and those of `chromium` there too."""
    rows = [pytest.param(NODE, name, marks=NEEDS[NODE]) for name in names]
    rows += [pytest.param(CHROMIUM, name, marks=NEEDS[CHROMIUM]) for name in chromium]
    return pytest.mark.parametrize(("where", "name"), rows)


@pytest.fixture(scope="module")
def client_of():
    """A function from the name of a runtime to transformers.js there, which is started once."""
    with ExitStack() as stack:
        started: dict[str, Client] = {}

        def get(where: str) -> Client:
            if where not in started:
                started[where] = stack.enter_context(START[where]())
            return started[where]

        yield get


@pytest.fixture(scope="module")
def folders_of(tmp_path_factory):
    """A function from an architecture to its checkpoint's folder and its bundle's."""
    made: dict[str, tuple[Path, Path]] = {}

    def get(name: str) -> tuple[Path, Path]:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            checkpoint = BY_NAME[name].save(folder / "checkpoint")
            export(checkpoint, folder / "bundle")
            made[name] = checkpoint, folder / "bundle"
        return made[name]

    return get


def model_of(folder: Path, name: str) -> torch.nn.Module:
    return getattr(transformers, name).from_pretrained(folder, attn_implementation="eager").eval()


def tokenizer_of(folder: Path) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast.from_pretrained(folder)


def close(actual: object, expected: object) -> None:
    """Assert numbers within the tolerance, in arrays of one shape."""
    first, second = np.asarray(actual), np.asarray(expected)
    assert first.shape == second.shape
    np.testing.assert_allclose(first, second, rtol=0, atol=TOLERANCE)


def scored(actual: list[dict], logits: torch.Tensor, labels: dict[int, str], key: str = "label") -> None:
    """Labels with their probabilities, in descending order."""
    scores = logits.softmax(-1)
    order = scores.argsort(descending=True).tolist()
    assert [part[key] for part in actual] == [labels[i] for i in order]
    close([part["score"] for part in actual], scores[order])


DTYPES = ("int8", "int4", "float16")


@pytest.mark.parametrize("dtype", DTYPES)
@on("BertModel")
def test_features_in_other_numbers(where, name, dtype, client_of, folders_of, tmp_path):
    """config.json names the file to open; the vectors are those of the native runtime."""
    export(folders_of(name)[0], tmp_path / "out", dtype=dtype)
    settings = {"pooling": "mean", "normalize": True}
    actual = client_of(where).pipeline("feature-extraction", tmp_path / "out", TEXTS, settings)
    expected = load(tmp_path / "out", device="cpu").embed(TEXTS, pooling="mean", normalize=True)
    assert ((np.asarray(actual) * expected).sum(axis=1) > 0.9999).all()


@pytest.mark.parametrize("dtype", DTYPES)
@on("GPT2LMHeadModel", "T5ForConditionalGeneration")
def test_tokens_in_other_numbers(where, name, dtype, client_of, folders_of, tmp_path):
    """Over a cache, and in both branches of a merged decoder."""
    export(folders_of(name)[0], tmp_path / "out", dtype=dtype)
    ids, options = np.array([[5, 17, 33, 60]]), {"max_new_tokens": 4, "do_sample": False}
    kind = "AutoModelForCausalLM" if name == "GPT2LMHeadModel" else "AutoModelForSeq2SeqLM"
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    [actual] = client_of(where).generate(kind, tmp_path / "out", feeds, **options)
    [expected] = load(tmp_path / "out", device="cpu").generate_ids(ids.tolist(), max_new_tokens=4)
    assert actual[-len(expected) :] == expected


@torch.no_grad()
@on("BertModel", "RobertaModel", chromium=("BertModel",))
def test_features(where, name, client_of, folders_of):
    checkpoint, bundle = folders_of(name)
    inputs = tokenizer_of(checkpoint)(TEXTS, padding=True, return_tensors="pt")
    expected = model_of(checkpoint, name)(**inputs).last_hidden_state
    client = client_of(where)
    actual, there = client.pipeline("feature-extraction", bundle, TEXTS), inputs["attention_mask"] == 1
    close(actual[there.numpy()], expected[there])
    assert client.warnings == []
    pooled = client.pipeline("feature-extraction", bundle, TEXTS, {"pooling": "mean", "normalize": True})
    means = (expected * there[..., None]).sum(1) / there.sum(1, keepdim=True)
    close(pooled, torch.nn.functional.normalize(means))


@torch.no_grad()
@on(
    "BertForSequenceClassification",
    "RobertaForSequenceClassification",
    chromium=("RobertaForSequenceClassification",),
)
def test_labels_of_texts(where, name, client_of, folders_of):
    checkpoint, bundle = folders_of(name)
    model, tokenizer = model_of(checkpoint, name), tokenizer_of(checkpoint)
    actual = client_of(where).pipeline("text-classification", bundle, TEXTS, {"top_k": 5})
    logits = model(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits
    for row, expected in zip(actual, logits, strict=True):
        scored(row, expected, model.config.id2label)


@torch.no_grad()
@on("BertForTokenClassification", chromium=("BertForTokenClassification",))
def test_labels_of_tokens(where, name, client_of, folders_of):
    checkpoint, bundle = folders_of(name)
    model, tokenizer = model_of(checkpoint, name), tokenizer_of(checkpoint)
    actual = client_of(where).pipeline("token-classification", bundle, TEXTS[0], {"ignore_labels": []})
    inputs = tokenizer(TEXTS[0], return_tensors="pt")
    scores, labels = model(**inputs).logits[0, 1:-1].softmax(-1).max(-1)
    assert [part["entity"] for part in actual] == [model.config.id2label[label] for label in labels.tolist()]
    assert [part["word"] for part in actual] == TEXTS[0].split()
    close([part["score"] for part in actual], scores)


@torch.no_grad()
@on("BertForQuestionAnswering", chromium=("BertForQuestionAnswering",))
def test_answers(where, name, client_of, folders_of):
    checkpoint, bundle = folders_of(name)
    tokenizer, question = tokenizer_of(checkpoint), "anna lives in paris"
    inputs = tokenizer(question, TEXTS[0], return_tensors="pt")
    outputs, client = model_of(checkpoint, name)(**inputs), client_of(where)
    ports = client.forward("AutoModelForQuestionAnswering", bundle, {k: v.numpy() for k, v in inputs.items()})
    for port in ("start_logits", "end_logits"):
        close(ports[port], outputs[port])
    # Of the second text, as transformers.js computes it: the first token is part of the softmax.
    inside = (inputs["token_type_ids"][0] == 1) & (inputs["input_ids"][0] != tokenizer.sep_token_id)
    counted = inside | (torch.arange(len(inside)) == 0)
    starts, ends = (
        outputs[port][0].masked_fill(~counted, -torch.inf).softmax(-1) * inside
        for port in ("start_logits", "end_logits")
    )
    spans = (starts[:, None] * ends[None]).triu()
    first, last = divmod(int(spans.argmax()), len(inside))
    actual = client.pipeline("question-answering", bundle, question, TEXTS[0])
    assert actual["answer"] == tokenizer.decode(inputs["input_ids"][0, first : last + 1])
    close(actual["score"], spans.max())


@torch.no_grad()
@on(
    *("GPT2LMHeadModel", "LlamaForCausalLM", "Qwen2ForCausalLM"),
    *("Lfm2ForCausalLM", "GraniteMoeHybridForCausalLM", "NemotronHForCausalLM", "Qwen3_5ForCausalLM"),
    chromium=("LlamaForCausalLM", "Qwen3_5ForCausalLM"),
)
def test_texts_go_on(where, name, client_of, folders_of):
    checkpoint, bundle = folders_of(name)
    model, tokenizer = model_of(checkpoint, name), tokenizer_of(checkpoint)
    client, options = client_of(where), {"max_new_tokens": 8, "do_sample": False}
    tokenizer.padding_side = "left"
    inputs = tokenizer(TEXTS, padding=True, add_special_tokens=False, return_tensors="pt")
    tokens = model.generate(**inputs, **options)
    actual = client.pipeline("text-generation", bundle, TEXTS, options)
    assert [text["generated_text"] for [text] in actual] == tokenizer.batch_decode(tokens, True)
    assert client.warnings == []
    single = tokenizer(TEXTS[0], return_tensors="pt")
    feeds = {key: single[key].numpy() for key in ("input_ids", "attention_mask")}
    close(client.forward("AutoModelForCausalLM", bundle, feeds)["logits"], model(**single).logits)
    assert client.generate("AutoModelForCausalLM", bundle, feeds, **options) == (
        model.generate(**single, **options).tolist()
    )


@torch.no_grad()
@NEEDS[NODE]
@pytest.mark.parametrize("family", ["qwen2_vl", "qwen3_5"])
def test_a_model_that_reads_images_goes_on_with_texts(family, client_of, tmp_path_factory):
    """transformers.js opens embed_tokens and the decoder only, and passes steps too large positions."""
    checkpoint = pictured_families.saved(family, tmp_path_factory)
    export(checkpoint, checkpoint / "bundle", only="hub")
    processor, model = pictured_families.original_of(checkpoint, family)
    client, options = client_of(NODE), {"max_new_tokens": 8, "do_sample": False}
    for text in TEXTS:
        inputs = processor.tokenizer(text, add_special_tokens=False, return_tensors="pt")
        feeds = {key: inputs[key] for key in ("input_ids", "attention_mask")}
        arrays = {key: tensor.numpy() for key, tensor in feeds.items()}
        tokens = client.generate("AutoModelForCausalLM", checkpoint / "bundle", arrays, **options)
        assert tokens == model.generate(**feeds, **options).tolist()


@torch.no_grad()
@on(
    "MarianMTModel",
    "T5ForConditionalGeneration",
    "BartForConditionalGeneration",
    chromium=("MarianMTModel", "T5ForConditionalGeneration"),
)
def test_texts_become_others(where, name, client_of, folders_of):
    checkpoint, bundle = folders_of(name)
    model, tokenizer = model_of(checkpoint, name), tokenizer_of(checkpoint)
    client, options = client_of(where), {"max_new_tokens": 8}
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    expected = tokenizer.batch_decode(model.generate(**inputs, **options, num_beams=1), True)
    marian = name == "MarianMTModel"
    task, key = ("translation", "translation_text") if marian else ("text2text-generation", "generated_text")
    actual = client.pipeline(task, bundle, TEXTS, options)
    assert [row[key] for row in actual] == expected
    assert client.warnings == []
    feeds = {key: inputs[key] for key in ("input_ids", "attention_mask")}
    feeds["decoder_input_ids"] = torch.tensor([[model.config.decoder_start_token_id, 5, 6, 7]] * 2)
    actual = client.forward("AutoModelForSeq2SeqLM", bundle, {k: v.numpy() for k, v in feeds.items()})
    close(actual["logits"], model(**feeds).logits)


@torch.no_grad()
@on("WhisperForConditionalGeneration", chromium=("WhisperForConditionalGeneration",))
def test_sound_becomes_text(where, name, client_of, folders_of):
    checkpoint, bundle = folders_of(name)
    model, tokenizer = model_of(checkpoint, name), tokenizer_of(checkpoint)
    client, options = client_of(where), {"max_new_tokens": 8}
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(checkpoint)
    features = extractor(sound(0), sampling_rate=16_000, return_tensors="pt").input_features
    start = tokenizer.convert_tokens_to_ids(SPEECH[1:3])
    feeds = {"input_features": features, "decoder_input_ids": torch.tensor([start])}
    arrays = {key: value.numpy() for key, value in feeds.items()}
    close(client.forward("WhisperForConditionalGeneration", bundle, arrays)["logits"], model(**feeds).logits)
    tokens = greedy(model, feeds, options["max_new_tokens"])
    actual = client.pipeline("automatic-speech-recognition", bundle, transformers_js.audio(sound(0)), options)
    assert actual["text"] == tokenizer.decode(tokens, skip_special_tokens=True)


NO_RULES = {  # transformers.js knows no biases of sequences and suppresses tokens at the beginning alone
    "sequence_bias": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "max_initial_timestamp_index": None,
}


@pytest.mark.parametrize("where", BOTH)
def test_words_have_times(where, client_of, tmp_path):
    """Of a sound of 30 s: of a shorter one, transformers.js reads the silence after it too."""
    folder, options = tmp_path / "in", {"language": "fr", "task": "transcribe", "max_new_tokens": 25}
    whisper_cases.save(folder, seconds=30, settings=NO_RULES)
    whisper_cases.write_words_only(folder)
    export(folder, tmp_path / "out")
    judge = transformers.pipeline("automatic-speech-recognition", model=str(folder), device="cpu")
    for seed in range(3):
        samples = whisper_cases.sound(30.0, seed)
        actual = client_of(where).pipeline(
            "automatic-speech-recognition",
            tmp_path / "out",
            transformers_js.audio(samples),
            options | {"return_timestamps": "word"},
        )
        theirs = judge(samples.copy(), return_timestamps="word", generate_kwargs=options | {"num_beams": 1})
        assert actual["text"] == theirs["text"]
        chunks = [(word["text"], *word["timestamp"]) for word in actual["chunks"]]
        tokens = judge.tokenizer(theirs["text"], add_special_tokens=False).input_ids
        expected = times_as_in_javascript(folder, samples, tokens)
        assert [word[0] for word in chunks] == [word["text"] for word in theirs["chunks"]]
        assert len(chunks) == len(tokens) > 20
        np.testing.assert_allclose([word[1] for word in chunks], expected, atol=0.005)
        np.testing.assert_allclose([word[2] for word in chunks[:-1]], expected[1:], atol=0.005)
        assert len(set(expected)) > 10


@torch.no_grad()
def times_as_in_javascript(folder: Path, samples: np.ndarray, tokens: list[int]) -> list[float]:
    """The times at which tokens start, by transformers' attention.

    transformers.js normalises over the prompt too, and lets a word start at the time of its own token, where
    transformers takes that of the token before it.
    """
    original = whisper_cases.Original(folder)
    original.model.set_attn_implementation("eager")
    features = original.features(samples)
    prompt = [whisper_cases.START, whisper_cases.FRENCH, whisper_cases.TRANSCRIBE]
    ids = original.model.generate(
        features, language="fr", task="transcribe", return_timestamps=True, max_new_tokens=25
    )
    rows = [*prompt, *ids[0].tolist()][:-1]
    outputs = original.model(features, decoder_input_ids=torch.tensor([rows]), output_attentions=True)
    heads = original.model.generation_config.alignment_heads
    weights = torch.stack([outputs.cross_attentions[layer][:, head] for layer, head in heads], dim=1)
    deviation = weights.std(dim=-2, keepdim=True, unbiased=False)
    weights = (weights - weights.mean(dim=-2, keepdim=True)) / deviation
    matrix = generation_whisper._median_filter(weights, 7)[0, :, len(prompt) :].mean(dim=0)
    rows_of, columns = generation_whisper._dynamic_time_warping(-matrix.double().numpy())
    starts = columns[np.flatnonzero(np.diff(rows_of, prepend=-1))] * 0.02
    return [*starts[1:], starts[-1]]  # without the timestamp before them


@torch.no_grad()
@on("MoonshineForConditionalGeneration", chromium=("MoonshineForConditionalGeneration",))
def test_a_waveform_becomes_text(where, name, client_of, folders_of):
    checkpoint, bundle = folders_of(name)
    model, tokenizer = model_of(checkpoint, name), tokenizer_of(checkpoint)
    client, options = client_of(where), {"max_new_tokens": 8}
    samples = torch.from_numpy(sound(0))[None]
    feeds = {"input_values": samples, "decoder_input_ids": torch.tensor([[1, 9, 7]])}
    arrays = {key: value.numpy() for key, value in feeds.items()}
    close(client.forward(name, bundle, arrays)["logits"], model(**feeds).logits)
    tokens = model.generate(samples, do_sample=False, **options)[0]
    actual = client.pipeline("automatic-speech-recognition", bundle, transformers_js.audio(sound(0)), options)
    assert actual["text"] == tokenizer.decode(tokens, skip_special_tokens=True)
    assert actual["text"]


def greedy(model: torch.nn.Module, feeds: dict[str, torch.Tensor], count: int) -> list[int]:
    """The `count` most likely tokens, greedily, without a cache and up to EOS."""
    ids = feeds["decoder_input_ids"]
    suppressed = model.generation_config.begin_suppress_tokens or []
    for step in range(count):
        logits = model(**feeds | {"decoder_input_ids": ids}).logits[:, -1]
        if step == 0:
            logits[:, suppressed] = -torch.inf
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
        if ids[0, -1] == model.generation_config.eos_token_id:
            break
    return ids[0, feeds["decoder_input_ids"].shape[1] :].tolist()


@torch.no_grad()
@on("ViTForImageClassification", chromium=("ViTForImageClassification",))
def test_labels_of_images(where, name, client_of, folders_of):
    checkpoint, bundle = folders_of(name)
    model = model_of(checkpoint, name)
    processor = transformers.AutoImageProcessor.from_pretrained(checkpoint)
    images = [pixels(0), pixels(1)]
    given = [transformers_js.image(image) for image in images]
    actual = client_of(where).pipeline("image-classification", bundle, given, {"top_k": 5})
    logits = model(**processor(images, return_tensors="pt", input_data_format="channels_last")).logits
    for row, expected in zip(actual, logits, strict=True):
        scored(row, expected, model.config.id2label)


@torch.no_grad()
@on("CLIPModel", chromium=("CLIPModel",))
def test_labels_from_words(where, name, client_of, folders_of):
    checkpoint, bundle = folders_of(name)
    model, tokenizer = model_of(checkpoint, name), transformers.AutoTokenizer.from_pretrained(checkpoint)
    processor = transformers.AutoImageProcessor.from_pretrained(checkpoint)
    labels, client = ["cat", "umbrella far on the mat", "dog"], client_of(where)
    inputs = dict(
        tokenizer([f"This is a photo of {label}" for label in labels], padding=True, return_tensors="pt")
    )
    inputs |= processor([pixels(0)], return_tensors="pt", input_data_format="channels_last")
    outputs = model(**inputs)
    given = [transformers_js.image(pixels(0)), labels]
    actual = client.pipeline("zero-shot-image-classification", bundle, *given)
    scored(actual, outputs.logits_per_image[0], dict(enumerate(labels)))
    ports = client.forward("CLIPModel", bundle, {key: value.numpy() for key, value in inputs.items()})
    for port in ("logits_per_image", "logits_per_text", "text_embeds", "image_embeds"):
        close(ports[port], outputs[port])


@torch.no_grad()
@on("ClapModel", chromium=("ClapModel",))
def test_labels_of_sounds_from_words(where, name, client_of, folders_of):
    """A sound as long as the model reads: transformers.js repeats shorter ones less often."""
    checkpoint, bundle = folders_of(name)
    model, tokenizer = model_of(checkpoint, name), tokenizer_of(checkpoint)
    extractor = transformers.AutoFeatureExtractor.from_pretrained(checkpoint)
    labels, client = ["cat", "umbrella far on the mat", "dog"], client_of(where)
    texts = [f"This is a sound of {label}." for label in labels]
    inputs = dict(tokenizer(texts, padding=True, return_tensors="pt"))
    sounds = extractor(sound(0), sampling_rate=extractor.sampling_rate, return_tensors="pt")
    inputs["input_features"] = sounds["input_features"]
    outputs = model(**inputs)
    arguments = transformers_js.audio(sound(0)), labels
    actual = client.pipeline("zero-shot-audio-classification", bundle, *arguments)  # in the order of labels
    scored(
        sorted(actual, key=lambda one: -one["score"]), outputs.logits_per_audio[0], dict(enumerate(labels))
    )
    ports = client.forward("ClapModel", bundle, {key: value.numpy() for key, value in inputs.items()})
    for port in ("logits_per_audio", "logits_per_text", "text_embeds", "audio_embeds"):
        close(ports[port], outputs[port])


@NEEDS[NODE]
@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("BertModel", "feature-extraction"),
        ("LlamaForCausalLM", "text-generation"),
        ("MarianMTModel", "translation"),
        ("WhisperForConditionalGeneration", "automatic-speech-recognition"),
    ],
)
def test_files_that_it_wants_are_there(name, task, client_of, folders_of):
    _, bundle = folders_of(name)
    wanted = client_of(NODE).files(task, bundle)
    assert [path for path in wanted if not (bundle / path).is_file()] == []
    graphs = [path for path in wanted if path.endswith(".onnx")]
    assert graphs
    assert {f"{path}_data" for path in graphs} <= set(wanted)


@pytest.mark.parametrize("where", BOTH)
@pytest.mark.parametrize(
    ("name", "task"), [("LlamaForCausalLM", "text-generation"), ("MarianMTModel", "translation")]
)
def test_bundle_of_a_hub_is_loaded(name, task, where, client_of, folders_of):
    _, bundle = folders_of(name)
    client, options = client_of(where), {"max_new_tokens": 8, "do_sample": False}
    with hub.serve({f"org/{name}": bundle}) as served:
        remote = Remote(f"{served.url}/", f"org/{name}")
        assert client.pipeline(task, remote, TEXTS, options) == client.pipeline(task, bundle, TEXTS, options)
        wanted = [path for path in client.files(task, bundle) if (bundle / path).is_file()]
        assert served.fetched(f"org/{name}") == sorted(wanted)
        assert {request.status for request in served.requests} <= {200, 204, 206}


@NEEDS[NODE]
@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("WhisperForConditionalGeneration", "automatic-speech-recognition"),
        ("CLIPModel", "zero-shot-image-classification"),
    ],
)
def test_processors_saved_in_one_file_are_found(name, task, client_of, folders_of, tmp_path):
    """transformers 5 writes processor_config.json alone, which transformers.js does not read."""
    checkpoint = replace(BY_NAME[name], together=True).save(tmp_path / "checkpoint")
    assert not (checkpoint / "preprocessor_config.json").exists()
    export(checkpoint, tmp_path / "bundle")
    given = [transformers_js.audio(sound(0)), {"max_new_tokens": 8}]
    if name == "CLIPModel":
        given = [transformers_js.image(pixels(0)), ["cat", "dog"]]
    client, (_, bundle) = client_of(NODE), folders_of(name)
    assert client.pipeline(task, tmp_path / "bundle", *given) == client.pipeline(task, bundle, *given)


@pytest.mark.parametrize("where", BOTH)
def test_bundle_without_its_weights_is_refused(where, client_of, folders_of, tmp_path):
    _, bundle = folders_of("BertModel")
    shutil.copytree(bundle, tmp_path / "bundle")
    (tmp_path / "bundle/onnx/model.onnx_data").unlink()
    with pytest.raises(ClientError, match=r"model\.onnx_data"):
        client_of(where).pipeline("feature-extraction", tmp_path / "bundle", TEXTS)


def test_arrays_survive_the_way():
    arrays = {
        "ids": np.array([[2**53 - 1, -3]]),
        "scores": np.float32([[0.1], [-1e-30]]),
        "none": np.zeros((0, 3)),
    }
    again = transformers_js.decoded(transformers_js.encoded(arrays))
    for name, array in arrays.items():
        assert again[name].shape == array.shape
        assert (again[name] == array).all()
