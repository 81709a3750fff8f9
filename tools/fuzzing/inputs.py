"""Targets: sounds, images and arrays, which are inputs of models."""

import txexport
from fuzzing import containers, raw_bytes
from fuzzing.case import Case
from fuzzing.seeds import IMAGE_FORMATS, SOUND_FORMATS


def sound(case: Case) -> None:
    """A WAV file."""
    file = case.change(case.copy("files/sound.wav"), containers.wav)
    case.attempt(case.model("speech").transcribe, file, max_new_tokens=3)
    case.attempt(case.model("noises").classify_audio, file)


def sound_file(case: Case) -> None:
    """A sound file that libsndfile decodes, as a path, as bytes, and in pieces."""
    name = case.random.choice(("float.wav", *(f"sound.{kind.lower()}" for kind in SOUND_FORMATS)))
    how = containers.wav if name == "float.wav" else raw_bytes.change
    file = case.change(case.copy(f"files/{name}"), how)
    letters = case.model("letters")
    case.attempt(letters.transcribe, file, timestamps="word")
    case.attempt(lambda: list(letters.stream_transcript(file.read_bytes(), chunk_length_s=0.1)))
    case.attempt(case.model("speech").transcribe, file, max_new_tokens=3)


def image(case: Case) -> None:
    """An image file, half of them PNG."""
    kind = case.random.choice(("PNG",) * len(IMAGE_FORMATS) + IMAGE_FORMATS).lower()
    how = containers.png if kind == "png" else raw_bytes.change
    file = case.change(case.copy(f"files/image.{kind}"), how)
    case.attempt(case.model("towers").embed_image, file)
    case.attempt(case.model("images").classify_image, file)


def npz(case: Case) -> None:
    """Inputs of `compare`."""
    file = case.change(case.copy("files/inputs.npz"), containers.npz)
    graph = case.seeds / "bundles/sentences/onnx/model.onnx"
    case.attempt(txexport.compare, graph, graph, inputs=[file])
