"""Speech recognition by connectionist temporal classification (Graves et al. 2006)."""

from collections.abc import Sequence
from typing import Any

from txexport.contracts import roles
from txexport.contracts.names import LOGITS
from txexport.errors import InputError
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.audio import SINGLE
from txexport.runtime.preprocessing.ctc_tokenizer import CTCTokenizer
from txexport.runtime.preprocessing.text import as_list
from txexport.runtime.session import finite
from txexport.runtime.tasks.audio_tasks import extractor_of
from txexport.support.progress import Progress, counting


def transcribe(bundle: LoadedBundle, sounds: Any, progress: Progress | None = None) -> str | list[str]:
    """The transcript of a sound, or of each of several: the likeliest token of every vector.

    Each sound is read alone: without a mask, padding would change its text. Raises InputError for an
    invalid sound, and for one that is too short.
    """
    sources: Sequence = [sounds] if isinstance(sounds, SINGLE) else as_list(sounds)
    session, tell = bundle.sessions[roles.MODEL], counting(progress)
    extractor, tokenizer = extractor_of(bundle, session), CTCTokenizer(bundle.files.folder)
    texts, least = [], bundle.reader.facts.least_samples
    for source in sources:
        features = extractor.features([source])
        if (samples := features.shape[1]) < least:
            rate = extractor.rate
            raise InputError(f"a sound has {samples:,} samples at {rate} Hz, expected {least:,} or more")
        logits = finite(session.run({extractor.port: features}))[LOGITS]
        texts.append(tokenizer.decode(logits[0].argmax(axis=-1).tolist()))
        tell(len(texts), len(sources))
    return texts[0] if isinstance(sounds, SINGLE) else texts
