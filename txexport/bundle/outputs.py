"""The files and folders that commands write besides bundles: they change no bundle and no checkpoint."""

from pathlib import Path

from txexport.bundle.manifest import MANIFEST
from txexport.errors import InputError

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack")  # of a checkpoint
SETTINGS = ("config.json", ".index.json", "tokenizer.json", "special_tokens_map.json", "added_tokens.json")


def check_output(path: Path, folder: bool = False) -> None:
    """Raise InputError for a file that would change a bundle or a checkpoint, or that cannot be written.

    With `folder`, `path` may be a folder of such files. Folders that are missing are made by whoever writes
    the file.
    """
    existing = path.parent
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        raise InputError(f"{existing} is not a folder, so {path} cannot be written")
    if path.is_dir() and not folder:
        raise InputError(f"{path} is a folder, so no file can be written there; add the file's name")
    target = path.resolve()
    beside = path.parent.resolve()
    if any((one / MANIFEST).is_file() for one in (target, *target.parents, beside, *beside.parents)):
        raise InputError(f"'{path}' would be inside a bundle, and change it; write it elsewhere")
    if target.is_file() and target.name.endswith((*WEIGHTS, *SETTINGS)):
        raise InputError(f"'{path}' would replace {target.name}, a file of a checkpoint; write it elsewhere")
