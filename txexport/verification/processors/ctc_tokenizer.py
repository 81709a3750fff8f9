"""Check of the texts of a CTC head's tokens against transformers'."""

import random
from pathlib import Path

from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.language import InLanguage
from txexport.contracts.names import LOGITS
from txexport.errors import UnsupportedError
from txexport.runtime.preprocessing.ctc_tokenizer import CTCTokenizer
from txexport.runtime.preprocessing.ctc_vocabulary import file_of, skips_special
from txexport.verification.checks import SkipError, TensorCheck
from txexport.verification.processors.original import differs, equal, original
from txexport.verification.processors.texts import SEED

ROWS, LONGEST = 60, 40  # of random ids; a third of the rows if `quick`


def check(folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool) -> list[TensorCheck]:
    """Decode every token alone, and rows of random tokens. Raises AssertionError, SkipError."""
    if file_of(folder) not in manifest.companions:
        raise SkipError("no tokenizer there")
    try:
        ours = CTCTokenizer(folder)
    except UnsupportedError as error:
        raise SkipError(str(error)) from None
    [width] = {port.shape[-1] for port in manifest.every_graph[0].outputs if port.name == LOGITS}
    assert isinstance(width, int)
    draw, known, vocabulary = random.Random(SEED), range(width), ours.vocabulary
    often = [  # blanks, and spaces
        number
        for number in known
        if vocabulary.is_blank(number) or vocabulary.texts(number, first=False) == (vocabulary.space,)
    ]
    rows = [[number] for number in known]
    for _ in range(ROWS // 3 if quick else ROWS):
        tokens = draw.choices([*known, *often * (width // 4)], k=draw.randint(0, LONGEST))
        rows.append([token for token in tokens for _ in range(draw.randint(1, 3))])
    options: dict[str, str] = {}
    if isinstance(checkpoint, InLanguage):
        options = {"target_lang": checkpoint.language}
        checkpoint = checkpoint.base
    skips = {"skip_special_tokens": True} if skips_special(folder) else {}
    with original("AutoTokenizer", checkpoint, manifest.model_type, **options) as theirs:
        for row in rows:
            text, expected = ours.decode(row), theirs.decode(row, **skips)
            if text != expected:
                differs("text", row, text, expected)
    return [equal("rows of ids as text", len(rows))]
