"""The record of a verification in txexport.json."""

from dataclasses import dataclass, field

ANSWERS = "txexport_answers.json.gz"  # what the references answered to a few cases; beside txexport.json


@dataclass(frozen=True)
class Proof:
    """The result of the last complete run of verify, and the SHA-256 of the bundle's files by name.

    `verdict` is the report's. `scope` has the extent, the runtime, the cases and the checkpoint of the run.
    `worst_error` is that of the output closest to its bound, None if it was not finite or nothing was
    compared. `session_options` are those of the sessions, by dtype. `processors` are the tested processors:
    tokenizer, chat template, image and sound processor. Both are empty in older proofs.

    `sha256` has ANSWERS where the run wrote it: one that found the bundle equal.
    """

    created: str
    verdict: str
    scope: str
    references: list[str]
    cases: int
    failed: int
    skipped: int
    numbers: int
    worst_output: str
    worst_error: float | None
    bound: float
    versions: dict[str, str]
    sha256: dict[str, str]
    session_options: dict[str, dict[str, str]] = field(default_factory=dict)
    processors: list[str] = field(default_factory=list)

    @property
    def files(self) -> list[str]:
        """The files that the run wrote into the bundle."""
        return [name for name in self.sha256 if name == ANSWERS]
