"""A checkpoint or an adapter by its name on a model hub: org/name or org/name@revision.

Files are downloaded to huggingface_hub's cache, which resumes interrupted downloads: only those that are
read, in one format of weights.
"""

import glob
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from txexport.checkpoints import adapter_config, adapters
from txexport.checkpoints.checkpoint import COMPANIONS, READERS, Checkpoint
from txexport.checkpoints.colbert import METADATA
from txexport.checkpoints.language import adapter_of
from txexport.errors import CheckpointError, first_line, needed_for
from txexport.support.near_names import near_paths
from txexport.support.paths import ALPHABET, CHAT_TEMPLATES, OF_LANGUAGE_MODEL

NAME = re.compile(r"(?P<name>[\w-][\w.-]*/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")
MODULE = re.compile(r"\d+_\w+")  # a folder of sentence-transformers
MAIN = "main"


def opened(source: str | Path, language: str | None = None) -> Checkpoint:
    """The checkpoint in a folder, or of that name on the hub, with the file of a language's adapter.

    Raises CheckpointError if there is none, MissingLibraryError without huggingface_hub, InputError for a
    language that a repository does not have.
    """
    named = _named(source)
    if named is None:
        return Checkpoint(source)
    name, revision = named

    def choose(files: list[str], name: str) -> list[str]:
        return wanted(files, name) + ([] if language is None else [adapter_of(files, language, name)])

    checkpoint = Checkpoint(_fetched(name, revision, "config.json", choose))
    checkpoint.repository, checkpoint.revision = name, checkpoint.folder.name
    return checkpoint


def check_local(source: str | Path) -> None:
    """Raise CheckpointError for a path that is no checkpoint; a name on a hub is not looked up.

    The files of a checkpoint are not read.
    """
    path = Path(source)
    if _named(source) is None and not path.is_file() and not (path / "config.json").is_file():
        Checkpoint(source)


def adapter_at(source: str | Path) -> tuple[Path, str | None]:
    """The folder of an adapter; for one on the hub also its name and commit, as "org/name@commit".

    Raises as `opened` does.
    """
    named = _named(source)
    if named is None:
        return Path(source), None
    name, revision = named
    folder = _fetched(name, revision, adapter_config.CONFIG, wanted_of_adapter)
    return folder, f"{name}@{folder.name}"


def _named(source: str | Path) -> tuple[str, str] | None:
    """The name and revision on a hub; None for a path. Raises CheckpointError."""
    text = str(source) if isinstance(source, str) else source.as_posix()
    named, path = NAME.fullmatch(text), Path(source)
    if named is None or path.exists():
        return None
    if Path(path.parts[0]).exists():
        expected = "expected a folder, or a name from another working directory"
        raise CheckpointError(
            f"{source} is not a folder, and not a name on a model hub, since there is a "
            f"'{path.parts[0]}' here{near_paths(path, otherwise=expected)}"
        )
    return named["name"], named["revision"] or MAIN


def _fetched(name: str, revision: str, config: str, choose: Callable[[list[str], str], list[str]]) -> Path:
    """The folder of a commit in the cache, with the files that `choose` selects, and `config`."""
    with needed_for(f"'{name}' is no folder here: to take it from a model hub"):
        import huggingface_hub as hub
        from huggingface_hub import errors
    try:
        about = hub.HfApi(library_name="txexport").model_info(name, revision=revision)
    except errors.GatedRepoError:
        raise CheckpointError(
            f"{name} is gated: accept its terms on its page, then run hf auth login"
        ) from None
    except errors.RepositoryNotFoundError:
        raise CheckpointError(
            f"'{name}' is not a folder, and not a visible model on the hub (if it is private: hf auth login)"
        ) from None
    except errors.RevisionNotFoundError:
        raise CheckpointError(f"{name} has no revision '{revision}' on the model hub") from None
    except Exception as error:  # the exceptions depend on the library that uses the network
        return _cached(name, revision, config, error)
    files = choose([one.rfilename for one in about.siblings or []], name)
    try:
        patterns = [glob.escape(file) for file in files]
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=patterns))
    except Exception as error:
        raise CheckpointError(
            f"{name} was not downloaded completely: {first_line(error)}; run it again to resume"
        ) from None


def _cached(name: str, revision: str, config: str, why: Exception) -> Path:
    """The cached answer, if the hub cannot be reached."""
    import huggingface_hub as hub

    cached = hub.try_to_load_from_cache(name, config, revision=revision)
    if not isinstance(cached, str):
        raise CheckpointError(
            f"'{name}' is not a folder, and the model hub cannot be reached ({first_line(why)}); "
            f"with a network, run hf download {name} --local-dir FOLDER"
        )
    return Path(cached).parent


def wanted(files: list[str], name: str) -> list[str]:
    """The files of a repository that a checkpoint is read from. Raises CheckpointError if there are none."""
    top = [file for file in files if "/" not in file]
    single, weights = next(((one, found) for one in READERS if (found := _weights(one, top))), ("", []))
    if not weights:
        others = {PurePosixPath(file).suffix for file in top} - {"", ".md", *COMPANIONS}
        raise CheckpointError(
            f"{name} has no {' or '.join(READERS)}, only {', '.join(sorted(others)[:5]) or 'other files'}"
        )
    indices = {f"{one}.index.json" for one in READERS if one != single}
    beside = [file for file in top if file.endswith((*COMPANIONS, METADATA)) and file not in indices]
    modules = [file for file in files if "/" in file and MODULE.fullmatch(file.partition("/")[0])]
    read = [file for file in modules if file.endswith(COMPANIONS) or PurePosixPath(file).name in READERS]
    templates = [file for file in files if PurePosixPath(file).match(f"{CHAT_TEMPLATES}/*.jinja")]
    language_model = [file for file in files if ALPHABET in top and OF_LANGUAGE_MODEL.fullmatch(file)]
    return [*beside, *weights, *read, *templates, *language_model]


def wanted_of_adapter(files: list[str], name: str) -> list[str]:
    """The files of a repository that an adapter is read from. Raises CheckpointError if there are none."""
    weights = next((file for file in adapters.READERS if file in files), None)
    if weights is None or adapter_config.CONFIG not in files:
        needed = f"{adapter_config.CONFIG} with {' or '.join(adapters.READERS)}"
        raise CheckpointError(f"{name} is not an adapter: it lacks {needed}")
    return [adapter_config.CONFIG, weights]


def _weights(single: str, files: list[str]) -> list[str]:
    """The file of weights of that name, or its shards."""
    stem, suffix = single.split(".")
    shard = re.compile(rf"{stem}-\d+-of-\d+\.{suffix}")
    return [file for file in files if file == single] or [file for file in files if shard.fullmatch(file)]
