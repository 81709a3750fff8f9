"""The record of a verification in txexport.json."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Proof:
    """The result of the last complete run of verify, and the SHA-256 of the bundle's files by name.

    `verdict` is the report's, `scope` to what, in which runtime, by which cases, of which checkpoint;
    `worst_error` is of the output that came nearest to its bound, None where it was not finite or nothing
    was compared. `session_options` are those that the sessions had, by dtype, and `processors` what of
    tokenizer, chat template, image and sound processor was tried; before these were told, both are empty.
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
