"""Forms with a sound, sent to the server's endpoints of transcripts."""

from functools import cache
from typing import Any

from fuzzing import containers, json_values, raw_bytes
from fuzzing.case import Case, FaultError
from txexport.server.app import application
from txexport.server.served import Limits, Served

LIMITS = Limits(cache_tokens=256, max_new_tokens=8, max_waiting=4, max_body=2**20, timeout=20)
NAMES = ("letters", "speech")
FIELDS: dict[str, tuple[str, ...]] = {
    "model": ("letters", "speech", "gone"),
    "response_format": ("json", "text", "srt", "verbose_json", "vtt", "xml"),
    "timestamp_granularities[]": ("segment", "word", "letter"),
    "stream": ("true", "false", "maybe"),
    "temperature": ("0", "0.4", "-1", "nan", "1e400"),
    "language": ("en", "xx", ""),
    "prompt": ("the cat", "<|startofprev|>", ""),
    "task": ("transcribe", "translate"),
    "chunk_length_s": ("0.1", "0", "-1", "1e9"),
    "seed": ("1", str(2**64)),
}


@cache
def _client(*models: Any) -> Any:
    from starlette.testclient import TestClient

    served = {name: Served(name, one, LIMITS) for name, one in zip(NAMES, models, strict=True)}
    return TestClient(application(served, LIMITS))


def form(case: Case) -> None:
    """A form with a changed sound or invalid fields; the status must not be that of a server's error."""
    random = case.random
    data, note = (case.seeds / "files/sound.wav").read_bytes(), "its sound as it was"
    if random.random() < 0.4:
        data, note = random.choice((containers.wav, raw_bytes.change))(random, data)
    fields = {"model": random.choice(NAMES)}
    for name in random.sample(list(FIELDS), random.choice((1, 2, 3, 4))):
        fields[name] = random.choice((*FIELDS[name], random.choice(json_values.TEXTS)[:2000]))
    path = f"/v1/audio/{random.choice(('transcriptions', 'translations'))}"
    case.note(f"POST {path} {str(fields)[:300]}: {note}")
    body = {name: value.encode("utf-8", "replace") for name, value in fields.items()}
    client = _client(*map(case.model, NAMES))
    answer = client.post(path, files={"file": ("a.wav", data)}, data=body)
    if not 200 <= answer.status_code < 500:
        raise FaultError(f"status {answer.status_code}")
