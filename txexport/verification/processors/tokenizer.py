"""The bundle's tokenizer, as users run it, beside transformers'."""

from pathlib import Path

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.tokenizer_conversion import TOKENIZER
from txexport.manifest import Manifest
from txexport.runtime.bundle_files import BundleFiles
from txexport.verification.checks import SkipError, TensorCheck
from txexport.verification.processors.original import differs, equal, original

TEXTS = ("", " ", "a text", " Two  spaces ", "ÀÉÎ öäü", "漢字", "don't stop")


def check(folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool) -> list[TensorCheck]:
    """Ids of seeded texts. Raises AssertionError, SkipError."""
    if TOKENIZER not in manifest.companions:
        raise SkipError("no tokenizer there")
    text = BundleFiles(folder).text
    with original("AutoTokenizer", checkpoint) as theirs:
        for given in TEXTS:
            found, expected = text.encode([given])[0].ids, theirs(given)["input_ids"]
            if found != expected:
                differs("ids", given, found, expected)
    return [equal("texts", len(TEXTS))]
