"""Check of the bundle's prompts with sounds against transformers' processors."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import roles
from txexport.contracts.names import FEATURE_ATTENTION_MASK, INPUT_FEATURES, INPUT_IDS
from txexport.errors import BundleError, UnsupportedError
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.preprocessing.chat import Conversation
from txexport.runtime.preprocessing.message_sounds import without_sounds
from txexport.runtime.preprocessing.sound_prompts import Sound, SoundPrompts
from txexport.verification.checks import SkipError, TensorCheck
from txexport.verification.processors.original import differs, equal, original
from txexport.verification.processors.signals import FEATURES

# Frames of the sounds of each prompt, from the fewest that make a vector on; None is the most
ROWS = ((), (3,), (7, 6), (11,), (25, 4, 61), (None,))
PARTS = 2.3  # lengths of a spectrogram that the longest sound has, where sounds may have several


def check(folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool) -> list[TensorCheck]:
    """Compare token ids, masks and features of prompts, and of conversations. Raises SkipError.

    Conversations of Voxtral are not: without mistral-common, its processor has no form of them.
    """
    facts = next(one.facts for one in manifest.running_order if one.role == roles.AUDIO_ENCODER)
    files, token = BundleFiles(folder), manifest.image_token_id
    assert token is not None
    ours = SoundPrompts(files, token, facts.least_samples, facts.vector_stride)
    try:
        extractor = files.log_mel
    except (BundleError, UnsupportedError) as error:
        raise SkipError(str(error)) from None
    most = ours.longest if ours.least else 3 * extractor.samples
    most = min(most, int(PARTS * extractor.samples))
    rows = [_sounds(row, extractor.hop, most) for row in ROWS[: 3 if quick else None]]
    with original("AutoProcessor", checkpoint, manifest.model_type) as theirs:
        for number, sounds in enumerate(rows):
            text = "".join(f"word {ours.token} and " for _ in sounds) + "more"
            read = ours.tiles(sounds)
            ids = files.text.tokenizer.encode(ours.expanded(text, read)).ids
            _compare(f"prompt {number}", ids, read, _made(ours, theirs, text, sounds))
        if not ours.least:
            return [equal("prompts", len(rows))]
        for number, sounds in enumerate(rows):
            plain, sources = without_sounds(_messages({"type": "audio", "audio": one} for one in sounds))
            text, read, adds = ours.chat(Conversation(plain), sources)
            ids = files.text.tokenizer.encode(text, add_special_tokens=adds).ids
            messages = _messages({"type": "audio", "audio_url": "sound"} for _ in sounds)
            written = theirs.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
            _compare(f"conversation {number}", ids, read, _made(ours, theirs, written, sounds))
    return [equal("prompts", len(rows)), equal("conversations", len(rows))]


def _messages(sounds: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A conversation of one message, with sounds as its parts."""
    parts = [part for sound in sounds for part in (sound, _text("which?"))]
    return [{"role": "user", "content": [*parts, _text("and that")]}]


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _made(ours: SoundPrompts, theirs: Any, text: str, sounds: list[np.ndarray]) -> Any:
    """The inputs that transformers makes of a prompt."""
    rate = ours.files.log_mel.rate
    if not ours.least:
        return _in_parts(ours, theirs, text, sounds)
    if hasattr(theirs, "max_audio_len"):
        return _replaced(ours, theirs, text, sounds)
    heard = {"audio": sounds, "sampling_rate": rate} if sounds else {}
    return theirs(text=text, return_tensors="np", **heard)


def _replaced(ours: SoundPrompts, theirs: Any, text: str, sounds: list[np.ndarray]) -> Any:
    """The inputs by the methods of Audio Flamingo 3's processor, whose call takes one sound at most."""
    if not sounds:
        return {INPUT_IDS: theirs.tokenizer([text])[INPUT_IDS]}
    options = {"sampling_rate": ours.files.log_mel.rate, "return_attention_mask": True}
    read, texts = theirs._process_audio(sounds, return_tensors="pt", **options)
    before, *after = text.split(ours.token)
    written = before + "".join(f"{one}{following}" for one, following in zip(texts, after, strict=True))
    masks = {FEATURE_ATTENTION_MASK: read["input_features_mask"].numpy()}
    ids = theirs.tokenizer([written])[INPUT_IDS]
    return {INPUT_IDS: ids, INPUT_FEATURES: read[INPUT_FEATURES].numpy()} | masks


def _in_parts(ours: SoundPrompts, theirs: Any, text: str, sounds: list[np.ndarray]) -> Any:
    """The inputs by the methods of Voxtral's processor, which takes no prompt with sounds at once."""
    extractor, parts = ours.files.log_mel, []
    frames, (before, *after) = extractor.samples // extractor.hop, text.split(ours.token)
    options = {"sampling_rate": extractor.rate, "pad_to_multiple_of": extractor.samples, "truncation": False}
    for sound, following in zip(sounds, after, strict=True):
        features = theirs._retrieve_input_features(
            [sound], frames, padding=True, return_tensors="pt", **options
        )
        parts.append(features.numpy())
        before += ours.token * (len(features) * frames // ours.stride) + following
    ids = theirs.tokenizer([before])[INPUT_IDS]
    return {INPUT_IDS: ids} | ({INPUT_FEATURES: np.concatenate(parts)} if parts else {})


def _sounds(frames: tuple[int | None, ...], hop: int, samples: int) -> list[np.ndarray]:
    """Noise of these numbers of frames, None for the longest; the last frame is incomplete."""
    draw = np.random.default_rng(0)
    lengths = [samples if count is None else min(count * hop - hop // 3, samples) for count in frames]
    return [draw.uniform(-0.5, 0.5, length).astype(np.float32) for length in lengths]


def _compare(name: str, ids: list[int], read: list[Sound], expected: Any) -> None:
    """Raise AssertionError for other token ids, masks or features than those expected."""
    wanted = np.asarray(expected[INPUT_IDS])[0].tolist()
    if ids != wanted:
        differs("token ids", name, ids, wanted)
    if not read:
        return
    if FEATURE_ATTENTION_MASK in read[0].inputs:
        masks, real = (one.inputs[FEATURE_ATTENTION_MASK] for one in read), expected[FEATURE_ATTENTION_MASK]
        joined = np.concatenate([*masks])
        if not np.array_equal(joined, real):
            differs("frames", name, joined.sum(1).tolist(), np.sum(real, 1).tolist())
    features = np.concatenate([one.inputs[INPUT_FEATURES] for one in read])
    theirs = np.asarray(expected[INPUT_FEATURES])
    if features.shape != theirs.shape or not np.abs(features - theirs).max() <= FEATURES:
        differs("features", name, features.shape, theirs.shape)
