"""Train a small wav2vec 2.0 with CTC that transcribes English number words and dates.

apt-get install espeak-ng flite
python tools/train/listener.py [FOLDER]

CTC alone (Graves et al. 2006), from the waveform, without pretraining: the first convolution starts as a bank
of band-pass filters (Zeghidour et al. 2018). The speech is synthetic, see _speech.py; every batch has its own
speeds, filters, echoes, noise and pauses, and masked spans of time (SpecAugment, Park et al. 2019).
CTC alone predicts blanks for thousands of steps before it finds an alignment. The first steps therefore have
a flat start like that of hidden Markov models: cross-entropy with the letters of each word spread evenly over
it; espeak-ng tells where words begin.
"""

import json
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import _loop
import _speech
import click
import numpy as np
import torch
import transformers
from _augmentation import augmented, faster
from _speech import RATE, Random, Utterance
from torch import Tensor
from torch.nn.functional import ctc_loss
from txmodels.training import checkpoints, metrics, objectives, optimisation

from txexport.checkpoints import transformers_loading

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "models/pretrained/listener"
RECORDINGS = ROOT / "tests/data/speech"
KIND = "Wav2Vec2ForCTC"
TOKENS = ("<pad>", "<s>", "</s>", "<unk>", "|", *"abcdefghijklmnopqrstuvwxyz")
BLANK, DELIMITER = 0, 4
WIDTH, LAYERS, HEADS, BANDS = 128, 4, 4, 40
STRIDE, FIELD = 256, 688  # samples from one vector to the next, and of which a vector is made
SECONDS = 24  # of sound in a batch
UTTERANCES, TESTED = 16000, 400
FLAT, AVERAGED = 0.1, 0.1  # the fractions of the steps: the first with a flat start, the last averaged
SHORTEST, LONGEST, FEW = 1.0, 1.8, 3  # recordings in tests/data/speech: seconds, number of each synthesiser
EXAMPLES = "The recordings are by espeak-ng and flite, whose licences do not extend to what they speak."


def config() -> dict:
    """The architecture as a config of transformers: 62.5 vectors per second."""
    return {
        "model_type": "wav2vec2",
        "vocab_size": len(TOKENS),
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 4 * WIDTH,
        "feat_extract_norm": "group",
        "conv_dim": [2 * BANDS, 96, 96, 128],
        "conv_kernel": [128, 8, 4, 3],
        "conv_stride": [16, 4, 2, 2],
        "num_feat_extract_layers": 4,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 8,
        "hidden_dropout": 0.1,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "feat_proj_dropout": 0.05,
        "final_dropout": 0.05,
        "layerdrop": 0.0,
        "mask_time_prob": 0.05,
        "mask_time_length": 5,
        "pad_token_id": BLANK,
    }


def band_pass(count: int, size: int) -> Tensor:
    """Filters (count,1,size): windowed cosines and sines at frequencies spaced on the mel scale."""
    mels = np.linspace(2595 * np.log10(1 + 80 / 700), 2595 * np.log10(1 + 7000 / 700), count // 2)
    frequencies = 700 * (10 ** (mels / 2595) - 1)
    angles = 2 * np.pi * np.outer(frequencies, np.arange(size) - size / 2) / RATE
    filters = np.concatenate([np.cos(angles), np.sin(angles)]) * np.hanning(size)
    filters /= np.linalg.norm(filters, axis=1, keepdims=True)
    return torch.from_numpy(filters[:, None].astype(np.float32))


def envelopes(count: int, bands: int, size: int) -> Tensor:
    """Filters (count,bands,size) that each sum the cosines and sines of one frequency over time."""
    window = torch.hann_window(size + 2, periodic=False)[1:-1]
    same = torch.arange(count)[:, None] % (bands // 2) == torch.arange(bands) % (bands // 2)
    return same[:, :, None] * window / window.sum()


def create(folder: Path) -> transformers.Wav2Vec2ForCTC:
    """Write an untrained checkpoint to `folder`, and load it."""
    checkpoints.create(folder, config(), KIND)
    model = transformers_loading.model_from_pretrained(KIND, folder, attn_implementation="eager")
    first, second, *_ = (layer.conv.weight for layer in model.wav2vec2.feature_extractor.conv_layers)
    with torch.no_grad():
        first.copy_(band_pass(first.shape[0], first.shape[2]))
        second.copy_(0.3 * second + envelopes(*second.shape))
    return model.train()


class Batch(NamedTuple):
    """Recordings (B,N), their texts, and where words begin and the text ends (M,2), see Utterance."""

    sounds: Tensor
    texts: list[str]
    marks: list[np.ndarray]


class Batches:
    """Batches of recordings of like lengths, so that none needs a mask."""

    def __init__(self, utterances: Sequence[Utterance]):
        self.utterances = sorted(utterances, key=lambda row: (row.samples.size, row.text))
        self.sizes = np.array([row.samples.size for row in self.utterances])

    def batch(self, random: Random) -> Batch:
        """Random recordings of about SECONDS in all."""
        centre = int(random.integers(0, self.sizes.size))
        count = max(2, round(SECONDS * RATE / self.sizes[centre] / 1.15))
        near = np.arange(max(0, centre - 4 * count), min(self.sizes.size, centre + 4 * count))
        chosen = [self.utterances[i] for i in random.choice(near, min(count, near.size), replace=False)]
        speeds = random.uniform(0.85, 1.2, len(chosen))
        sounds = [faster(row.samples / 32768, speed) for row, speed in zip(chosen, speeds, strict=True)]
        size = max(sound.size for sound in sounds) + int(random.exponential(0.15) * RATE)
        rows, starts = zip(*(augmented(random, sound, size) for sound in sounds), strict=True)
        marks = [
            row.marks / (1, speed) + (0, start)
            for row, speed, start in zip(chosen, speeds, starts, strict=True)
        ]
        return Batch(torch.from_numpy(np.stack(rows)), [row.text for row in chosen], marks)


def ids(text: str) -> list[int]:
    """The token ids of a text, which are its letters and spaces."""
    return [TOKENS.index(letter) if letter != " " else DELIMITER for letter in text]


def flat_labels(text: str, marks: np.ndarray, count: int) -> Tensor:
    """Token ids (count,) of vectors: the letters of a word spread evenly over it, blanks before and after."""
    centres = np.arange(count) * STRIDE + FIELD / 2
    positions = np.interp(centres, marks[:, 1], marks[:, 0], left=len(text), right=len(text))
    return torch.tensor([*ids(text), BLANK])[torch.from_numpy(positions).long()]


def flat_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Cross-entropy of logits (B,S,V) with the letters spread evenly over each word."""
    pairs = zip(batch.texts, batch.marks, strict=True)
    return objectives.token_loss(logits, torch.stack([flat_labels(*pair, logits.shape[1]) for pair in pairs]))


def alignment_loss(logits: Tensor, texts: Sequence[str]) -> Tensor:
    """The CTC loss of logits (B,S,V) per letter of the texts."""
    labels = [ids(text) for text in texts]
    return ctc_loss(
        logits.log_softmax(-1).transpose(0, 1),
        torch.tensor([letter for row in labels for letter in row]),
        torch.full((len(texts),), logits.shape[1]),
        torch.tensor([len(row) for row in labels]),
        blank=BLANK,
        zero_infinity=True,
    )


def loss(model: transformers.Wav2Vec2ForCTC, batches: Batches, steps: int, step: int) -> Tensor:
    """The loss of the batch of a step."""
    batch = batches.batch(np.random.default_rng([2, step]))
    np.random.seed(step)  # transformers masks time with NumPy's global generator
    torch.manual_seed(step)
    with _loop.autocast():
        logits = model(batch.sounds).logits
    logits = logits.float()
    return flat_loss(logits, batch) if step < FLAT * steps else alignment_loss(logits, batch.texts)


@torch.inference_mode()
def transcripts(folder: Path, utterances: Sequence[Utterance]) -> list[str]:
    """The transcripts by the checkpoint in `folder`, each recording alone."""
    model = transformers_loading.model_from_pretrained(KIND, folder, dtype=torch.float32).eval()
    processor = transformers_loading.from_pretrained("Wav2Vec2Processor", folder)
    result = []
    for row in utterances:
        features = processor(row.samples / 32768, sampling_rate=RATE, return_tensors="pt").input_values
        result.append(processor.decode(model(features).logits[0].argmax(-1)))
    return result


def scores(name: str, utterances: Sequence[Utterance], texts: Sequence[str]) -> dict[str, str]:
    """The word and character error rates of transcripts, as lines of the model card."""
    references = [row.text for row in utterances]
    by_word = metrics.word_error_rate(references, texts)
    by_character = metrics.character_error_rate(references, texts)
    print(f"{name}: word error rate {by_word:.2%}, character error rate {by_character:.2%}", flush=True)
    return {
        f"word error rate, {name}": f"{by_word:.2%}",
        f"character error rate, {name}": f"{by_character:.2%}",
    }


def write_processor(folder: Path) -> None:
    """Write vocab.json and the settings of the tokenizer and the feature extractor."""
    _loop.write_json(folder / "vocab.json", {token: index for index, token in enumerate(TOKENS)})
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))
    extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=RATE, return_attention_mask=False)
    transformers.Wav2Vec2Processor(extractor, tokenizer).save_pretrained(folder)
    extractor.save_pretrained(folder)


def published(utterances: Sequence[Utterance]) -> list[Utterance]:
    """The first short recordings, of different voices."""
    result: dict[str, Utterance] = {}
    for row in utterances:
        voice = row.voice.split("+")[-1]
        if SHORTEST * RATE < row.samples.size < LONGEST * RATE and voice not in result:
            result[voice] = row
    return list(result.values())[:FEW]


def write_recordings(folder: Path, utterances: Sequence[Utterance]) -> None:
    """Write the recordings and texts.json, which has the text and voice of each."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {}
    for row in utterances:
        name = "".join(c if c.isalnum() else "-" for c in row.voice.lower()) + ".wav"
        _speech.write_wave(folder / name, row.samples)
        about[name] = {"text": row.text, "voice": row.voice}
    (folder / "texts.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def evaluate(part: Path, speech: Path, recordings: Path) -> dict[str, str]:
    """The lines of the model card for the checkpoint in `part`; writes the published `recordings`."""
    espeak, flite = _speech.test_set(speech, TESTED), _speech.flite_set(speech, TESTED)
    few = published(espeak) + published(flite)
    write_recordings(recordings, few)
    result: dict[str, str] = {}
    for name, rows in (
        (f"{TESTED} texts in voices of espeak-ng", espeak),
        (f"{TESTED} texts in voices of flite", flite),
        (f"{len(few)} recordings of tests/data/speech", few),
    ):
        result |= scores(name, rows, transcripts(part, rows))
    return result


CARD = """
A wav2vec 2.0 of {layers} layers, {width} wide, {parameters:,} parameters, with a CTC head of letters. It
transcribes English number words and dates ("march the fourth nineteen eighty four") at 16 kHz.

Data: {count:,} utterances, {hours:.1f} hours, of num2words' words spoken by espeak-ng: {random} random
voices and most of its own variants, in eight dialects, with other speeds, filters, echoes, noise and
pauses in every batch. None is a person's speech: it is a model for examples and tests. The texts and
voices of the scores are in no training data. flite, whose voices are made of recorded speech, is another
synthesiser: as its score shows, the model does not generalise to it. `tests/data/speech` has recordings
of both.
"""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=FOLDER)
@click.option("--steps", default=2800, show_default=True, help="Steps of training.")
@click.option("--utterances", default=UTTERANCES, show_default=True, help="Utterances to train on.")
@click.option("--cache", type=click.Path(path_type=Path), help="Folder that keeps the speech.")
@click.option(
    "--recordings", type=click.Path(path_type=Path), default=RECORDINGS, help="Folder of recordings."
)
def main(folder: Path, steps: int, utterances: int, cache: Path | None, recordings: Path) -> None:
    """Train the listener of number words and write its checkpoint to FOLDER."""
    part = _loop.part_of(folder)
    speech = cache or part / "speech"
    speech.mkdir(parents=True, exist_ok=True)
    train = _speech.train_set(speech, utterances)
    seconds = sum(row.samples.size for row in train) / RATE
    model = create(part)
    print(f"{_loop.parameters(model):,} parameters, {seconds / 3600:.1f} hours", flush=True)
    optimizer = optimisation.adamw(model, 2e-3, beta2=0.98)
    schedule = optimisation.linear(optimizer, max(1, steps // 10), steps)
    loss_of = partial(loss, model, Batches(train), steps)
    about = [utterances, seconds, config()]
    _loop.train(model, loss_of, optimizer, schedule, steps, part, about, average_last=AVERAGED)
    model.half().save_pretrained(part)
    write_processor(part)
    results = evaluate(part, speech, recordings)
    text = CARD.format(
        layers=LAYERS,
        width=WIDTH,
        parameters=_loop.parameters(model),
        count=utterances,
        hours=seconds / 3600,
        random=_speech.RANDOM_VOICES,
    )
    title, command = "English number words and dates from speech", "python tools/train/listener.py"
    _loop.write_card(part, title, text, command, results, EXAMPLES)
    shutil.rmtree(part / "speech", ignore_errors=True)
    _loop.finish(part, folder)


if __name__ == "__main__":
    main()
