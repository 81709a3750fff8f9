"""Errors that a user of txexport can meet. Each message is one line: given, expected, what to do."""


class TxexportError(Exception):
    """Base of every error that txexport raises on purpose. The command line prints it and exits 2."""


class SpecError(TxexportError):
    """A description of an architecture that contradicts itself."""


def positive(owner: object, *names: str) -> None:
    """Raise SpecError unless each of the owner's `names` is more than 0."""
    for name in names:
        value = getattr(owner, name)
        if not value > 0:  # NaN included
            raise SpecError(f"{type(owner).__name__}: {name} is {value}, expected more than 0")


class CheckpointError(TxexportError):
    """A checkpoint that is missing, damaged, or not what its config.json says."""


class UnsupportedError(TxexportError):
    """A valid checkpoint that asks for mathematics txexport has not proved."""


class BundleError(TxexportError):
    """An export folder that is missing, incomplete, or cannot be written."""


class InputError(TxexportError):
    """Input to a loaded model that it cannot take."""
