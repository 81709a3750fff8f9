"""The originals that a bundle is held against."""

import inspect
from typing import Protocol

import numpy as np
import torch
from txmodels.model import Model
from txmodels.towers import Towers
from txmodels.training.checkpoints import build

from txexport.checkpoint import Checkpoint
from txexport.errors import UnsupportedError
from txexport.families import Resolved

Arrays = dict[str, np.ndarray]
Source = list[int] | np.ndarray | None  # tokens, or a spectrogram (bands,frames)


class Reference(Protocol):
    """A model in PyTorch, float32, that knows nothing of the bundle."""

    name: str
    caches: bool  # whether `decode` gives keys and values

    def encode(self, inputs: Arrays) -> Arrays:
        """A padded batch -> outputs by the names of an encoder graph."""
        ...

    def decode(self, tokens: list[int], source: Source) -> Arrays:
        """One row in one pass, without padding or past -> outputs by the names of a dynamic decoder graph.

        No batch axis. With a source, the encoder's outputs too: last_hidden_state and cross caches.
        """
        ...


class Twin:
    """The PyTorch components of txmodels, filled from the checkpoint."""

    name = "twin"
    caches = True

    def __init__(self, checkpoint: Checkpoint, resolved: Resolved):
        self.model = build(checkpoint, resolved).eval()

    @torch.inference_mode()
    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
        if isinstance(self.model, Towers):
            outputs = self.model.compare(**tensors)
        elif "input_ids" in tensors:
            outputs = self.model.encode(**tensors)
        else:
            outputs = self.model.encode_signal(*tensors.values())
        return {name: value.numpy() for name, value in outputs.items()}

    @torch.inference_mode()
    def decode(self, tokens: list[int], source: Source) -> Arrays:
        """See Reference."""
        inputs: dict = {}
        found, own = {}, ""
        assert isinstance(self.model, Model)
        if source is not None:
            if isinstance(source, np.ndarray):
                encoded = self.model.encode_signal(torch.from_numpy(source[None]))
            else:
                ids = torch.tensor([source])
                encoded = self.model.encode(ids, torch.ones_like(ids))
                inputs["encoder_attention_mask"] = torch.ones_like(ids)
            found = {name: value[0].numpy() for name, value in encoded.items()}
            layers = range(len(self.model.cross))
            inputs["cross"] = [
                (encoded[f"present.{i}.encoder.key"], encoded[f"present.{i}.encoder.value"]) for i in layers
            ]
            own = ".decoder"
        logits, present = self.model.decode(torch.tensor([tokens]), self.model.empty_past(1), **inputs)
        for i, (key, value) in enumerate(present):
            found |= {f"present.{i}{own}.key": key[0].numpy(), f"present.{i}{own}.value": value[0].numpy()}
        return found | {"logits": logits[0].numpy()}


AUTO_CLASSES = {
    "feature-extraction": "AutoModel",
    "fill-mask": "AutoModelForMaskedLM",
    "pretraining": "AutoModelForPreTraining",
    "multiple-choice": "AutoModelForMultipleChoice",
    "next-sentence-prediction": "AutoModelForNextSentencePrediction",
    "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "image-feature-extraction": "AutoModel",
    "image-classification": "AutoModelForImageClassification",
    "zero-shot-image-classification": "AutoModelForZeroShotImageClassification",
    "automatic-speech-recognition": "AutoModelForSpeechSeq2Seq",
    "text-generation": "AutoModelForCausalLM",
    "text2text-generation": "AutoModelForSeq2SeqLM",
}


class Transformers:
    """The unpatched original in the transformers library."""

    name = "transformers"

    def __init__(self, checkpoint: Checkpoint, resolved: Resolved):
        try:
            import transformers
        except ImportError:
            raise UnsupportedError(
                "the reference 'transformers' is not installed; pip install 'txexport[torch]'"
            ) from None
        self.pooler = resolved.spec.pooler
        decoder = resolved.spec.decoder
        self.kv_heads = [block.dense.num_kv_heads for block in decoder.layers] if decoder else []
        self.new_cache = transformers.DynamicCache
        auto = getattr(transformers, AUTO_CLASSES[resolved.task])
        self.model = auto.from_pretrained(
            checkpoint.folder, local_files_only=True, dtype=torch.float32
        ).eval()
        self.caches = "past_key_values" in inspect.signature(self.model.forward).parameters

    @torch.inference_mode()
    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        outputs = self.model(**{name: torch.from_numpy(array) for name, array in inputs.items()})
        named = {name: value for name, value in outputs.items() if isinstance(value, torch.Tensor)}
        if not self.pooler:
            named.pop("pooler_output", None)  # a layer that the checkpoint lacks, made up by the library
        return {name: value.numpy() for name, value in named.items()}

    @torch.inference_mode()
    def decode(self, tokens: list[int], source: Source) -> Arrays:
        """See Reference."""
        ids = torch.tensor([tokens])
        if source is None:
            # A cache made without the config keeps every token, where a window would drop the older ones.
            cached = {"past_key_values": self.new_cache(), "use_cache": True}
            inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            outputs = self.model(**inputs, **(cached if self.caches else {}))
            past = self._own_heads(_cache(outputs.past_key_values, "")) if self.caches else {}
            return {"logits": outputs.logits[0].numpy(), **past}
        if isinstance(source, np.ndarray):
            given = {"input_features": torch.from_numpy(source[None])}
        else:
            sources = torch.tensor([source])
            given = {"input_ids": sources, "attention_mask": torch.ones_like(sources)}
        outputs = self.model(**given, decoder_input_ids=ids, use_cache=True)
        cache = outputs.past_key_values
        return {
            "logits": outputs.logits[0].numpy(),
            "last_hidden_state": outputs.encoder_last_hidden_state[0].numpy(),
            **_cache(cache.self_attention_cache, ".decoder"),
            **_cache(cache.cross_attention_cache, ".encoder"),
        }

    def _own_heads(self, caches: Arrays) -> Arrays:
        """Caches (K,T,H) without the copies of key heads that some models make before they store them."""
        own = {}
        for name, array in caches.items():
            heads = self.kv_heads[int(name.split(".")[1])]
            own[name] = array[:: len(array) // heads]
        return own


def _cache(cache, part: str) -> Arrays:
    """A transformers cache as arrays (K,T,H) by output name, in its present form and that of version 4."""
    if hasattr(cache, "layers"):
        pairs = [(layer.keys, layer.values) for layer in cache.layers]
    else:
        pairs = list(zip(cache.key_cache, cache.value_cache, strict=True))
    return {
        f"present.{i}{part}.{kind}": tensor[0].numpy()
        for i, pair in enumerate(pairs)
        for kind, tensor in zip(("key", "value"), pair, strict=True)
    }


REFERENCES = {"twin": Twin, "transformers": Transformers}
