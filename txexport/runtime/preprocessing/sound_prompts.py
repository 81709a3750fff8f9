"""Prompts with sounds: their texts, and the spectrograms of the sounds in them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from txexport.bundle import read_json
from txexport.contracts.names import FEATURE_ATTENTION_MASK, INPUT_FEATURES
from txexport.errors import BundleError, InputError, counted, shown
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.preprocessing import chat
from txexport.runtime.preprocessing.audio import read_sound
from txexport.runtime.preprocessing.chat import Conversation
from txexport.runtime.preprocessing.chat_templates import templates_of
from txexport.runtime.preprocessing.special_tokens import special_tokens

# The template of Qwen2AudioProcessor, for conversations of texts and sounds
QWEN2_AUDIO = """
{%- set sounds = namespace(count=0) %}
{%- for message in messages %}
    {%- if loop.first and message['role'] != 'system' %}
        {{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\n' }}
    {%- if message['content'] is string %}
        {{- message['content'] }}
    {%- else %}
        {%- for content in message['content'] %}
            {%- if content['type'] == 'audio' %}
                {%- set sounds.count = sounds.count + 1 %}
                {{- 'Audio ' ~ sounds.count ~ ': <|audio_bos|><|AUDIO|><|audio_eos|>\n' }}
            {%- elif 'text' in content %}
                {{- content['text'] }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}"""

# Mistral's prompts from version 7 of its tokenizers on, whose files have no template.
VOXTRAL = """<s>
{%- for message in messages %}
    {%- set open, close = '[INST]', '[/INST]' %}
    {%- if message['role'] in ('system', 'developer') %}
        {%- set open, close = '[SYSTEM_PROMPT]', '[/SYSTEM_PROMPT]' %}
    {%- elif message['role'] == 'assistant' %}
        {%- set open, close = '', '</s>' %}
    {%- elif message['role'] != 'user' %}
        {{- raise_exception('a message is of ' ~ message['role'] ~ ', expected system, user or assistant') }}
    {%- endif %}
    {%- if message['tool_calls'] %}
        {{- raise_exception('calls of tools are not read') }}
    {%- endif %}
    {{- open }}
    {%- if message['content'] is string %}
        {{- message['content'] }}
    {%- else %}
        {%- for content in message['content'] %}
            {%- if content['type'] == 'audio' %}
                {{- '[BEGIN_AUDIO][AUDIO]' }}
            {%- elif 'text' in content %}
                {{- content['text'] }}
            {%- else %}
                {{- raise_exception('a part is ' ~ content['type'] ~ ', expected text or audio') }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- close }}
{%- endfor %}"""
TEMPLATES = {"<|AUDIO|>": QWEN2_AUDIO, "[AUDIO]": VOXTRAL}  # by the token of sounds
LONGEST = 86_400  # seconds


@dataclass(frozen=True)
class Sound:
    """A sound as a processor reads it: the encoder's inputs, and the number of its vectors."""

    inputs: dict[str, np.ndarray]
    vectors: int


@dataclass(frozen=True)
class SoundPrompts:
    """The files of a bundle whose prompts have sounds, and the id of their token.

    A sound has `least` frames or more, and a vector for every `stride` of them. Where `least` is 0, it is
    padded to one or several spectrograms, whose padding has vectors too.
    """

    files: BundleFiles
    token_id: int
    least: int
    stride: int

    adds_tokens: ClassVar[bool] = True
    rewrites: ClassVar[bool] = False

    @property
    def token(self) -> str:
        """The text that stands for a sound. Raises BundleError where the tokenizer has none."""
        token: str | None = self.files.text.tokenizer.id_to_token(self.token_id)
        if token is None:
            raise BundleError(
                f"{self.files.folder}: tokenizer.json has no token {self.token_id}, which stands for sounds"
            )
        return token

    def tiles(self, sounds: Sequence[Any]) -> list[Sound]:
        """The sounds of a prompt as the processor reads them.

        Raises InputError for an invalid one, for one that is too short or too long, and for more than fit in
        memory.
        """
        self.files.log_mel.check_count(len(sounds))
        return [self._sound(sound) for sound in sounds]

    def _sound(self, source: Any) -> Sound:
        extractor = self.files.log_mel
        if not self.least:
            return self._padded(extractor.read(source))
        samples = read_sound(source, extractor.rate, None, self.longest)
        expected = (self.least - 1) * extractor.hop + 1
        if len(samples) < expected:
            raise InputError(f"a sound has {len(samples):,} samples, expected {expected:,} or more")
        parts = np.split(samples, range(extractor.samples, len(samples), extractor.samples))
        parts = [part for part in parts if len(part) >= expected]  # the last one may have no vector
        features = np.stack([extractor.spectrogram(part) for part in parts])
        frames = [math.ceil(len(part) / extractor.hop) for part in parts]
        mask = (np.arange(features.shape[2]) < np.array(frames)[:, None]).astype(np.int64)
        vectors = sum(vectors_of_sound(count, self.least, self.stride) for count in frames)
        return Sound({INPUT_FEATURES: features, FEATURE_ATTENTION_MASK: mask}, vectors)

    @property
    def longest(self) -> int:
        """The most samples of a sound: those of a spectrogram, or of the parts that a processor makes of it.

        Raises BundleError for a damaged setting of that processor, Audio Flamingo 3's.
        """
        most, rate = self.files.log_mel.samples, self.files.log_mel.rate
        settings = read_json(self.files.folder / "processor_config.json", missing={})
        if settings.get("processor_class") != "AudioFlamingo3Processor":
            return most
        seconds = settings.get("max_audio_len", 600)
        if type(seconds) is not int or not most <= seconds * rate <= LONGEST * rate:
            raise BundleError(
                f"processor_config.json: max_audio_len is {shown(seconds)}, expected whole seconds, as "
                f"many as a spectrogram has or more, up to {LONGEST:,}"
            )
        return seconds * rate // most * most

    def _padded(self, samples: np.ndarray) -> Sound:
        """Samples of any length as spectrograms (parts,bands,frames), whose floor is that of all of them."""
        extractor = self.files.log_mel
        count = max(math.ceil(len(samples) / extractor.samples), 1)
        padded = np.full(count * extractor.samples, extractor.silence, np.float32)
        padded[: len(samples)] = samples
        features = np.stack(np.split(extractor.spectrogram(padded), count, axis=1))
        return Sound({INPUT_FEATURES: features}, count * features.shape[2] // self.stride)

    def expanded(self, text: str, sounds: Sequence[Sound]) -> str:
        """A prompt's text with as many tokens for each sound as it has vectors.

        Raises InputError unless the text has one token for each sound.
        """
        first, *parts = text.split(self.token)
        if len(parts) != len(sounds):
            times = counted(len(parts), "time")
            raise InputError(f"a prompt has {self.token} {times}, expected {len(sounds)}, one for each sound")
        texts = [self.token * one.vectors for one in sounds]
        return first + "".join(f"{one}{part}" for one, part in zip(texts, parts, strict=True))

    def chat(self, conversation: Conversation, sounds: Sequence[Any]) -> tuple[str, list[Sound], bool]:
        """The text of a conversation, its sounds, and True if the tokenizer adds a first token.

        It does unless the template has written it, as in transformers' processors. Where the checkpoint has
        no file of a template, Qwen2-Audio has theirs, and Voxtral Mistral's; the tokenizer's own is for
        texts.
        """
        read, folder = self.tiles(sounds), self.files.folder
        stored = templates_of(folder, {}) or conversation.template is not None
        usual = None if stored else TEMPLATES.get(self.token)
        text = chat.prompt(folder, conversation, usual)
        first = special_tokens(folder).get("bos_token")
        return self.expanded(text, read), read, not (first and text.startswith(first))


def vectors_of_sound(frames: int, least: int, stride: int) -> int:
    """The number of vectors of a sound: one of `least` frames, and one for each `stride` more."""
    return 1 + (frames - least) // stride
