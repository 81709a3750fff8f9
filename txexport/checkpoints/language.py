"""A checkpoint in one of its languages, each of which has an adapter, as in MMS (Pratap et al. 2023).

`adapter.fra.safetensors` holds the adapters of all layers and the CTC head of French, and vocab.json has a
vocabulary for every language; transformers loads them by `target_lang="fra"`.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from txexport.checkpoints.checkpoint import Checkpoint, read_header, read_json
from txexport.checkpoints.pytorch.files import read_index
from txexport.checkpoints.stored import FLOATS, Stored, reading
from txexport.errors import CheckpointError, InputError, UnsupportedError, shown
from txexport.support.paths import sha256

READERS: dict[str, Callable[[Path], dict[str, Stored]]] = {"safetensors": read_header, "bin": read_index}
ADAPTER = re.compile(rf"adapter\.(?P<language>.+)\.({'|'.join(READERS)})")
ADAPTED, HEAD = ".adapter_layer.", "lm_head."  # parts of the names of the tensors that a language has
CONFIG, VOCABULARY, SETTINGS = "config.json", "vocab.json", "tokenizer_config.json"
MOST_LISTED = 40  # languages in a message


class InLanguage(Checkpoint):
    """The checkpoint `base` in a `language`, by the name in its adapter's file.

    `in_adapter` are the tensors of that file. Raises InputError for a language that is not there,
    UnsupportedError for a checkpoint without adapters, CheckpointError for an adapter that does not fit.
    """

    def __init__(self, base: Checkpoint, language: str):
        vars(self).update(vars(base))
        self.base, self.language = base, language
        replaced = {name for name in base.tensors if ADAPTED in name or name.startswith(HEAD)}
        if base.gguf is not None or not any(ADAPTED in name for name in replaced):
            raise UnsupportedError(
                f"language is for checkpoints with an adapter for each language, and {base.folder} has no "
                "tensors of adapters; leave it out"
            )
        with reading(base.folder):
            names = sorted(path.name for path in base.folder.iterdir())
        self.adapter_file = base.folder / adapter_of(names, language, str(base.folder))
        self.in_adapter = READERS[self.adapter_file.suffix[1:]](self.adapter_file)
        self._check(replaced)
        self.tensors = base.tensors | self.in_adapter
        self.config = base.config | {"vocab_size": self.in_adapter[f"{HEAD}weight"].shape[0]}
        self.in_safetensors = self.as_published = False

    def _check(self, replaced: set[str]) -> None:
        """Raise CheckpointError unless the adapter has the `replaced` tensors, in their shapes."""
        if self.in_adapter.keys() != replaced:
            raise CheckpointError(
                f"{self.adapter_file}: tensor {shown(min(self.in_adapter.keys() ^ replaced))} is in the "
                "adapter or in the checkpoint alone; expected the same names of adapters and head in both"
            )
        count = self.in_adapter[f"{HEAD}weight"].shape[:1] if f"{HEAD}weight" in replaced else ()
        for name, tensor in self.in_adapter.items():
            shape = self.base.tensors[name].shape
            expected = (*count, *shape[1:]) if name.startswith(HEAD) else shape
            if tensor.shape != expected or 0 in expected or tensor.dtype not in FLOATS:
                raise CheckpointError(
                    f"{self.adapter_file}: tensor {shown(name)} is {tensor.dtype} {tensor.shape}, expected "
                    f"numbers of shape {expected}"
                )
        if not count:
            raise CheckpointError(f"{self.base.folder} has no tensor {HEAD}weight, the head of a language")

    def rows(self, name: str, number: int | None = None) -> Iterator[np.ndarray]:
        """See Checkpoint."""
        adapted = self.in_adapter.get(name)
        yield from self.base.rows(name, number) if adapted is None else adapted.rows(name)

    def companions(self) -> dict[str, Path | bytes]:
        """See Checkpoint; those of the tokenizer have this language alone."""
        files = self.base.companions()
        changed: dict[str, dict[str, Any]] = {CONFIG: self.config}
        if VOCABULARY in files:
            vocabulary = _values(files[VOCABULARY]).get(self.language)
            if not isinstance(vocabulary, Mapping):
                path = self.base.folder / VOCABULARY
                raise CheckpointError(f"{path} has no vocabulary of the language {shown(self.language)}")
            settings = _values(files[SETTINGS]) if SETTINGS in files else {}
            changed |= {VOCABULARY: {self.language: vocabulary}}
            changed |= {SETTINGS: settings | {"target_lang": self.language}}
        texts = {name: json.dumps(values, indent=2, ensure_ascii=False) for name, values in changed.items()}
        return files | {name: f"{text}\n".encode() for name, text in texts.items()}

    def hashes(self) -> dict[str, str]:
        """See Checkpoint; includes the adapter's file."""
        with reading(self.adapter_file):
            return self.base.hashes() | {self.adapter_file.name: sha256(self.adapter_file)}


def adapter_of(files: Iterable[str], language: str, source: str) -> str:
    """The file of a language's adapter among the `files` of a folder or repository, which is `source`.

    Raises InputError, with the languages that are there.
    """
    adapters: dict[str, str] = {}
    for file in sorted(files):  # a .safetensors comes after a .bin, and takes precedence as in transformers
        if (match := ADAPTER.fullmatch(file)) is not None:
            adapters[match["language"]] = file
    if language in adapters:
        return adapters[language]
    names = [*adapters]
    listed = names if len(names) <= MOST_LISTED else get_close_matches(language, names, MOST_LISTED, 0.0)
    rest = f", or of {len(names) - len(listed):,} others" if len(names) > len(listed) else ""
    raise InputError(
        f"{source} has no adapter of the language {shown(language)}; expected "
        + (f"one of {', '.join(listed)}{rest}" if names else "a file such as adapter.fra.safetensors")
    )


def _values(content: Path | bytes) -> dict[str, Any]:
    """The object in a companion. Raises CheckpointError."""
    if isinstance(content, Path):
        return read_json(content)
    values: dict[str, Any] = json.loads(content)
    return values
