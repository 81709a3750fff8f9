"""The bundles that are served, each with its threads."""

import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from txexport.errors import InputError, NotEqualError, TxexportError, shown
from txexport.runtime import Model, load
from txexport.runtime.generation.prompts import chat_inputs
from txexport.runtime.preprocessing.chat import Conversation
from txexport.server.refusals import unknown_model
from txexport.server.tool_calls import CallFormat, call_format
from txexport.server.workers import CallThread, GenerationThread


@dataclass(frozen=True)
class Limits:
    """Limits of requests; `max_text` is the most bytes of one without images and sounds."""

    cache_tokens: int
    max_new_tokens: int
    max_waiting: int
    max_body: int
    timeout: float
    max_text: int = 2**22

    @property
    def most_text(self) -> int:
        """The most bytes of a request without files, and the most characters that are read together."""
        return min(self.max_text, self.max_body)


class Served:
    """A bundle under the name that requests use."""

    def __init__(self, name: str, model: Model, limits: Limits):
        self.name, self.model, self.created = name, model, int(time.time())
        self.calls = CallThread(f"call {name}", limits.max_waiting)
        self.generation = None
        if model.bundle.step is not None:
            self.generation = GenerationThread(model.bundle, limits.cache_tokens, limits.max_waiting)

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """The methods of Model that the server offers for the bundle."""
        names = [name for name in self.model.bundle.methods if name != "generate" or self.completes]
        return (*names, *["chat"] * self.chats)

    @property
    def completes(self) -> bool:
        """Return whether it continues or translates texts."""
        return self.generation is not None and self.model.bundle.reader.ids_source is not None

    @property
    def chats(self) -> bool:
        """Return whether it answers conversations."""
        if self.generation is None or self.model.bundle.is_encoder_decoder:
            return False
        try:
            chat_inputs(self.model.bundle, Conversation([{"role": "user", "content": "Hello."}]))
        except TxexportError:  # it has no chat template, or Jinja2 is not installed
            return False
        return True

    @property
    def alive(self) -> bool:
        """True while all threads run."""
        workers = (self.calls, self.generation)
        return all(worker.thread.is_alive() for worker in workers if worker is not None)

    @property
    def full(self) -> bool:
        """Tell whether a new request would be refused, because too many wait."""
        workers = (self.calls, self.generation)
        return any(worker.waiting >= worker.most_waiting for worker in workers if worker is not None)

    @cached_property
    def call_format(self) -> CallFormat | None:
        """The format in which the chat template writes calls of functions, if it is known."""
        files = self.model.bundle.files
        return call_format(files.folder, files.text)

    @property
    def paths(self) -> set[Path]:
        """The paths by which error messages may name the bundle's folder."""
        folder = self.model.bundle.folder
        return {folder, folder.absolute(), folder.resolve()}

    def stop(self) -> None:
        """End the threads after the calls that they have begun, and close the model."""
        self.calls.stop()
        if self.generation is not None:
            self.generation.stop()
        self.model.close()


def named(bundle: str | Path) -> tuple[str, Path]:
    """The name and the folder of NAME=FOLDER, or of a folder alone. Raises InputError for a name with /."""
    name, equals, folder = str(bundle).partition("=")
    if equals and name and "/" not in name:
        return name, Path(folder)
    if equals and "/" in name and not Path(bundle).exists() and Path(folder).is_dir():
        expected = f"expected NAME=FOLDER, such as {name.rpartition('/')[2] or 'name'}={folder}"
        raise InputError(f"{bundle}: the name of a bundle has no /; {expected}")
    return Path(bundle).resolve().name, Path(bundle)


def open_all(
    bundles: list[str | Path], limits: Limits, verify: bool = False, **options: Any
) -> dict[str, Served]:
    """The bundles by name, loaded, and with `verify` compared with the answers that they keep.

    Raises InputError for two of one name, NotEqualError for one whose outputs are not those answers, and as
    `load` and `verify_here`.
    """
    folders: dict[str, Path] = {}
    for name, folder in map(named, bundles):
        if name in folders:
            raise InputError(f"two bundles are called {shown(name)}; name one of them, as other={folder}")
        folders[name] = folder
    models = {name: load(folder, **options) for name, folder in folders.items()}
    for name, model in models.items() if verify else ():
        _check_equal(name, model, options["engine"])
    return {name: Served(name, model, limits) for name, model in models.items()}


def _check_equal(name: str, model: Model, engine: str) -> None:
    """Raise NotEqualError if a bundle's outputs are not the answers that it keeps."""
    from txexport.verification.answers.here import report_of

    report = report_of(model.bundle, engine)
    for case in report.failed:
        raise NotEqualError(
            f"{name} is not served: on {report.runtime} it is not equal to {case.reference}: {case.summary} "
            f"in case '{case.name}'; txexport verify --here shows all"
        )


def find(served: dict[str, Served], name: object) -> Served:
    """The bundle of that name. Raises RefusedError."""
    if not isinstance(name, str) or name not in served:
        raise unknown_model(name, list(served))
    return served[name]
