"""MMS: bundles of one of its languages, beside transformers with the same target_lang."""

import json
from itertools import pairwise

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from click.testing import CliRunner
from helpers.mms import ADAPTERS, LANGUAGES, save_mms
from helpers.speech import recordings
from safetensors.torch import load_file, save_file

import txexport
from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.language import InLanguage, adapter_of
from txexport.cli.main import main
from txexport.errors import BundleError, CheckpointError, InputError, UnsupportedError
from txexport.verification.references.transformers_reference import Transformers


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mms") / "mms"
    save_mms(folder)
    return folder


@pytest.fixture(scope="module", params=LANGUAGES)
def case(request, source, tmp_path_factory):
    """A language, its bundle, and transformers' pipeline; English is the default."""
    language, out = request.param, tmp_path_factory.mktemp("bundle") / "out"
    target = None if language == "eng" else language
    txexport.export(source, out, language=target)
    original = transformers.Wav2Vec2ForCTC.from_pretrained(
        source, target_lang=target, ignore_mismatched_sizes=True
    ).eval()
    processor = transformers.AutoProcessor.from_pretrained(source, target_lang=language)
    judge = transformers.pipeline(
        "automatic-speech-recognition",
        model=original,
        tokenizer=processor.tokenizer,
        feature_extractor=processor.feature_extractor,
        device="cpu",
    )
    return language, out, judge


def test_texts_and_times_of_a_language_equal_the_pipeline(case):
    language, out, judge = case
    model = txexport.load(out, device="cpu")
    transcripts = model.transcribe(recordings(), timestamps="word")
    answers = [judge(sound, return_timestamps="word") for sound in recordings()]
    assert [transcript.text for transcript in transcripts] == [answer["text"] for answer in answers]
    assert len({transcript.text for transcript in transcripts}) > 5
    for transcript, answer in zip(transcripts, answers, strict=True):
        times = [(*chunk["timestamp"], chunk["text"]) for chunk in answer["chunks"]]
        assert [(word.start, word.end, word.text) for word in transcript.words] == times
    assert model.run(**model.audio.inputs(recordings()))["logits"].shape[2] == judge.model.config.vocab_size
    assert judge.model.config.vocab_size == max(len(LANGUAGES[language]), 32)


def test_the_bundle_has_one_vocabulary(case):
    language, out, _ = case
    manifest = json.loads((out / "txexport.json").read_text())
    assert manifest["form"].get("language") == (None if language == "eng" else language)
    assert json.loads((out / "tokenizer_config.json").read_text())["target_lang"] == language
    vocabularies = json.loads((out / "vocab.json").read_text())
    assert len(vocabularies[language]) == len(LANGUAGES[language])
    assert {*vocabularies} == ({*LANGUAGES} if language == "eng" else {language})
    assert manifest["source"]["sha256"].keys() & {*ADAPTERS.values()} == {*ADAPTERS.values()} & {
        ADAPTERS.get(language)
    }


def test_languages_differ(source, tmp_path):
    """Texts of one sound by two languages, with letters that the other lacks."""
    texts = []
    for language in ADAPTERS:
        txexport.export(source, tmp_path / language, language=language, only="native")
        texts.append("".join(txexport.load(tmp_path / language, device="cpu").transcribe(recordings())))
    assert all(a != b for a, b in pairwise(texts))


def test_verify_proves_the_language(case):
    """Against the original with the same target_lang, and its tokenizer."""
    language, out, _ = case
    report = txexport.verify(out, cases="quick")
    assert report.ok
    assert {"twin", "transformers"} <= {*report.references}
    assert ("read in the language fra" in report.notes) == (language == "fra")
    tokenizer = next(one for one in report.cases if "CTC" in one.name)
    assert tokenizer.ok
    assert not tokenizer.skipped


def test_the_reference_is_the_original_in_the_language(case, source):
    """Also for an adapter in a file of torch.save, which the library is not given."""
    language, _, judge = case
    checkpoint = Checkpoint(source)
    english = Transformers(checkpoint, families.resolve(checkpoint, None))
    if language != "eng":
        checkpoint = InLanguage(checkpoint, language)
    reference = Transformers(checkpoint, families.resolve(checkpoint, None))
    values = np.random.default_rng(0).standard_normal((2, 2001), np.float32)
    inputs = {"input_values": values, "attention_mask": np.ones(values.shape, np.int64)}
    logits = reference.encode(inputs)["logits"]
    with torch.inference_mode():
        expected = judge.model(**{name: torch.from_numpy(array) for name, array in inputs.items()}).logits
    np.testing.assert_array_equal(logits, expected.numpy())
    assert np.array_equal(logits, english.encode(inputs)["logits"]) == (language == "eng")


def test_the_command_takes_a_language(source, tmp_path):
    command = ["export", str(source), str(tmp_path / "out"), "--only", "native", "--json"]
    result = CliRunner().invoke(main, [*command, "--language", "fra"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["form"]["language"] == "fra"
    result = CliRunner().invoke(main, [*command, "--force", "--language", "deu"])
    assert result.exit_code == 2
    assert "has no adapter of the language 'deu'; expected one of azj-script_latin, fra" in result.output


def test_languages_that_are_refused(source, tmp_path):
    save_mms(folder := tmp_path / "mms")
    weights = load_file(folder / ADAPTERS["fra"])
    adapter = min(name for name in weights if ".adapter_layer." in name)
    damaged = {
        "is in the adapter or in the checkpoint alone": {n: t for n, t in weights.items() if n != adapter},
        "expected numbers of shape": weights | {adapter: torch.zeros(5)},
        r"lm_head.bias' is F32 \(5,\), expected numbers of shape \(36,\)": weights
        | {"lm_head.bias": torch.zeros(5)},
    }
    for message, tensors in damaged.items():
        save_file(tensors, folder / ADAPTERS["fra"])
        with pytest.raises(CheckpointError, match=message):
            txexport.export(folder, tmp_path / "out", language="fra")
    save_file(weights, folder / ADAPTERS["fra"])
    (folder / "vocab.json").write_text(json.dumps({"eng": {"a": 1}}))
    with pytest.raises(CheckpointError, match=r"vocab\.json has no vocabulary of the language 'fra'"):
        txexport.export(folder, tmp_path / "out", language="fra")
    with pytest.raises(InputError, match="language is 3, expected a text or None"):
        txexport.export(folder, tmp_path / "out", language=3)
    tiny_checkpoint.save(tmp_path / "plain", "wav2vec2")
    with pytest.raises(UnsupportedError, match="plain has no tensors of adapters; leave it out"):
        txexport.export(tmp_path / "plain", tmp_path / "out", language="fra")


def test_a_vocabulary_without_a_language_is_named(source, tmp_path):
    save_mms(folder := tmp_path / "mms")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"target_lang": None}))
    txexport.export(folder, tmp_path / "out", only="native")
    with pytest.raises(BundleError, match="no target_lang; choose one, such as 'azj"):
        txexport.load(tmp_path / "out", device="cpu").transcribe(np.zeros(2000, np.float32))


def test_the_nearest_of_many_languages_are_listed():
    files = [f"adapter.{a}{b}{c}.safetensors" for a in "abcdefghij" for b in "xyz" for c in "uvw"]
    assert adapter_of([*files, "adapter.axu.bin"], "axu", "org/mms") == "adapter.axu.safetensors"
    with pytest.raises(InputError, match=r"^org/mms has no adapter of the language 'bxx'; exp") as caught:
        adapter_of(files, "bxx", "org/mms")
    assert "bxu" in str(caught.value)
    assert ", or of 50 others" in str(caught.value)
    assert len(str(caught.value)) < 400
    with pytest.raises(InputError, match=r"expected a file such as adapter\.fra\.safetensors"):
        adapter_of(["model.safetensors"], "fra", "org/mms")
