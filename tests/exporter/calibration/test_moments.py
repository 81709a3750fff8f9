"""Inputs of all matrix products on calibration texts are those of the PyTorch components."""

from collections import Counter

import numpy as np
import pytest
import tiny_checkpoint
import torch
from helpers.rows import ANSWER, CHOOSE, CLASSIFY, FILL, GENERATE, Row
from txmodels.linear import Linear

from txexport import families
from txexport.bundle.form import ExportOptions
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import roles
from txexport.contracts.names import ENCODER_ATTENTION_MASK, INPUT_IDS
from txexport.errors import InputError, UnsupportedError
from txexport.exporter.bundle_plan import BundlePlan
from txexport.exporter.bundle_writing import write_float32
from txexport.exporter.calibrating import matrices_of
from txexport.exporter.calibration import Reading, check_reads, moments, sha256_of
from txexport.spec import DescribedSegmentsSpec, DualEncoderSpec, OpenVocabularySpec, VisionLanguageSpec
from txexport.verification.references.originals import Twin

TEXTS = [f"the cat sat on the mat {'and the dog ' * n}" for n in range(6)] + ["yes", "no", "maybe"]
PAIRS = [("the cat sat", "on the mat"), ("who", "the dog did, on the rug"), ("a", "b")]
SOUNDS_AND_IMAGES = ("whisper", "vit", "deit", "dinov2", "dinov2_with_registers")
SOUNDS_AND_IMAGES += "swin", "swinv2", "yolos", "depth_anything", "dpt", "segformer", "maskformer", "sam"
SOUNDS_AND_IMAGES += "blip", "donut-swin", "pix2struct"
SOUNDS_AND_IMAGES += "resnet", "convnext", "convnextv2", "hiera", "upernet"
SOUNDS_AND_IMAGES += "mask2former", "sam2", "sam2_video", "glpn", "vit_msn", "ijepa", "vit_mae", "vitpose"
SOUNDS_AND_IMAGES += "detr", "table-transformer", "rt_detr", "rt_detr_v2", "d_fine", "beit", "data2vec-vision"
SOUNDS_AND_IMAGES += "deformable_detr", "conditional_detr", "dab-detr", "lw_detr", "rf_detr"
SOUNDS_AND_IMAGES += "grounding-dino", "colpali", "colqwen2"  # whose texts are read with images
SOUNDS_AND_IMAGES += "layoutlm", "layoutlmv3", "lilt"  # whose words have boxes
SOUNDS_AND_IMAGES += "dinov3_vit", "clip_vision_model", "siglip_vision_model", "vision-encoder-decoder"
SOUNDS_AND_IMAGES += "audio-spectrogram-transformer", "wav2vec2"
SOUNDS_AND_IMAGES += ("moonshine", "speech_to_text", "speech-encoder-decoder")
SOUNDS_AND_IMAGES += "hubert", "data2vec-audio", "unispeech", "unispeech-sat", "wav2vec2-bert", "parakeet_ctc"
SOUNDS_AND_IMAGES += "wav2vec2-conformer", "wavlm", "omniasr_ctc", "sew"
WITHOUT_GRAPHS = (
    "gemma3",
    "qwen3_vl",
    "qwen3_vl_moe",
    "mllama",
    "florence2",
)  # for other clients, which are the ones that read texts
HEADS = [
    Row("bert", "BertForQuestionAnswering", ANSWER),
    Row("bert", "BertForMultipleChoice", CHOOSE),
    Row("bert", "BertForMaskedLM", FILL),
    Row("gpt2", "GPT2ForSequenceClassification", CLASSIFY, "5 labels", {"num_labels": 5}),
    Row("falcon", "FalconForCausalLM", GENERATE, "new", {"new_decoder_architecture": True}),
]
FAMILIES = [name for name in tiny_checkpoint.FAMILIES if name not in (*SOUNDS_AND_IMAGES, *WITHOUT_GRAPHS)]


class Read:
    """A checkpoint's int4 matrices, and a reading of texts."""

    def __init__(self, folder, task, items, out):
        self.checkpoint = Checkpoint(folder)
        self.resolved = families.resolve(self.checkpoint, task)
        cache = "static" if self.resolved.spec.generates else None
        plan = BundlePlan(self.checkpoint, self.resolved, ExportOptions(cache, 24, dtypes=["int4"]))
        self.keys = matrices_of(plan, ["int4"])
        self.int4 = {name: first for name, (first, _) in plan.dtypes["int4"].int4.items()}
        made = write_float32(self.checkpoint, self.resolved, out)
        self.reading = Reading(made, self.resolved.spec, items, self.keys)

    def found(self) -> dict[str, tuple[np.ndarray, int]]:
        """Moments and vectors by matrix."""
        every = self.reading.moments(lambda share: None)
        return {name: (one.numbers, one.rows) for one in every for name in one.names}

    @torch.inference_mode()
    def expected(self) -> dict[str, tuple[np.ndarray, int]]:
        """The same of modules, each text by itself."""
        twin = Twin(self.checkpoint, self.resolved)
        sums: dict[str, np.ndarray] = {}
        rows: Counter[str] = Counter()
        latest: dict[str, torch.Tensor] = {}

        def listen(name: str):
            def add(_, inputs):
                if latest.get(name) is inputs[0]:
                    return  # of two modules with one matrix, as in Zamba2: graphs have one product
                latest[name] = inputs[0]
                x = inputs[0].reshape(-1, inputs[0].shape[-1]).double().numpy()
                sums[name] = sums.get(name, 0) + x.T @ x
                rows[name] += len(x)

            return add

        for name, module in twin.model.named_modules():
            if isinstance(module, Linear) and f"{name}.weight" in self.int4:
                module.register_forward_pre_hook(listen(self.int4[f"{name}.weight"]))
        for batch in self.reading.batches:
            for row in range(len(batch[next(iter(batch))][INPUT_IDS])):
                self._one(
                    twin, {role: {k: v[row] for k, v in feeds.items()} for role, feeds in batch.items()}
                )
        return {name: (sums[name], rows[name]) for name in sums}

    def _one(self, twin: Twin, feeds: dict) -> None:
        """A text through the modules."""
        if roles.DECODER in feeds:
            tokens = feeds[roles.DECODER][INPUT_IDS].tolist()
            assert feeds[roles.DECODER][ENCODER_ATTENTION_MASK].all()
            twin.decode(tokens, feeds[roles.ENCODER][INPUT_IDS].tolist())
        elif self.resolved.spec.generates:
            [tokens] = [one[INPUT_IDS].tolist() for one in feeds.values() if INPUT_IDS in one]
            twin.decode(tokens, None)
        elif roles.TEXT in feeds:
            text = {name: torch.from_numpy(array)[None] for name, array in feeds[roles.TEXT].items()}
            twin.model.texts(**text)
        else:
            twin.encode({name: array[None] for name, array in feeds[roles.MODEL].items()})


@pytest.mark.parametrize("what", [*FAMILIES, *HEADS], ids=str)
def test_every_product_s_inputs_are_found(what, checkpoint_of, tmp_path):
    """Of every int4 matrix that texts reach, and no other vector."""
    task = what.task if isinstance(what, Row) else None
    read = Read(checkpoint_of(what), task, TEXTS, tmp_path / "float32")
    found, expected = read.found(), read.expected()
    assert found.keys() == expected.keys() != set()
    towers = isinstance(read.resolved.spec, DualEncoderSpec | OpenVocabularySpec | VisionLanguageSpec)
    described = isinstance(read.resolved.spec, DescribedSegmentsSpec)
    reached = {
        name
        for name in read.keys
        if not (
            towers and name.startswith(("vision", "connector", "merger", "audio", "objects", "descriptions"))
        )
        and (not described or name.startswith("text"))
    }
    assert found.keys() == reached
    for name, (numbers, rows) in found.items():
        assert rows == expected[name][1] > 0 or "experts" in name, name
        size = np.abs(expected[name][0]).max()
        assert np.abs(numbers - expected[name][0]).max() <= 1e-4 * size, name


def test_memory_is_bounded_by_reading_again(checkpoint_of, tmp_path, monkeypatch):
    """Moments do not depend on the memory limit or on the batches of texts."""
    read = Read(checkpoint_of("bart"), None, TEXTS, tmp_path / "float32")
    whole = read.found()
    held = []
    right = moments._groups

    def counted(*given):
        held.extend(right(*given))
        return iter(held)

    monkeypatch.setattr(moments, "_groups", counted)
    monkeypatch.setattr(moments, "BATCH_TOKENS", 1)
    monkeypatch.setattr(moments, "MEMORY", 2 * 4 * 48 * 49)
    told = []
    read = Read(checkpoint_of("bart"), None, TEXTS, tmp_path / "again")
    assert len(read.reading.batches) == len(TEXTS)
    parts = {name: one for one in read.reading.moments(told.append) for name in one.names}
    assert len(held) > 4
    assert max(len(group) for group in held) <= 2
    assert told == sorted(told)
    assert told[-1] == 1
    assert parts.keys() == whole.keys()
    for name, one in parts.items():
        assert one.rows == whole[name][1]
        assert np.abs(one.numbers - whole[name][0]).max() <= 1e-4 * np.abs(one.numbers).max()


def test_pairs_are_sources_and_targets(checkpoint_of, tmp_path):
    read = Read(checkpoint_of("bart"), None, PAIRS, tmp_path / "float32")
    found, expected = read.found(), read.expected()
    for name, (numbers, rows) in found.items():
        assert rows == expected[name][1]
        assert np.abs(numbers - expected[name][0]).max() <= 1e-4 * np.abs(numbers).max()
    counts = {rows for name, (_, rows) in found.items()}
    assert len(counts) == 2  # tokens of sources, and those of targets
    assert sum(counts) == read.reading.tokens


@pytest.mark.parametrize("what", SOUNDS_AND_IMAGES)
def test_what_reads_no_texts_is_told(what, checkpoint_of):
    checkpoint = Checkpoint(checkpoint_of(what))
    resolved = families.resolve(checkpoint)
    what_it_reads = "(texts|them without (images|boxes))"
    message = f"^texts need a model that reads {what_it_reads}; this one is for {resolved.task}$"
    with pytest.raises(InputError, match=message):
        check_reads(resolved.spec, resolved.task)


@pytest.mark.parametrize("model_type", WITHOUT_GRAPHS)
def test_attention_within_an_image_is_not_calibrated(model_type, checkpoint_of):
    resolved = families.resolve(Checkpoint(checkpoint_of(model_type)))
    with pytest.raises(UnsupportedError, match=r"^no graph reads calibration texts where tokens of an im"):
        check_reads(resolved.spec, resolved.task)


def test_a_decoder_takes_no_pairs(checkpoint_of, tmp_path):
    with pytest.raises(
        InputError, match=r"^a decoder takes one text per line, without a tab; this line has two"
    ):
        Read(checkpoint_of("gpt2"), None, PAIRS, tmp_path / "float32")


def test_the_digest_is_of_texts_in_their_order():
    assert sha256_of(["a", "b"]) == "3554d2b8a1e34099053865de8576d1460b807430ec8c6b85315c9607ba93d308"
    assert len({sha256_of(one) for one in (["a", "b"], ["b", "a"], ["ab"], [("a", "b")])}) == 4
