"""The command line: invalid options, and its text files."""

import click
from click.testing import CliRunner

from fuzzing import json_values, raw_bytes
from fuzzing.case import Case, FaultError
from txexport.cli.main import main

# Each command: its bundle or checkpoint, and valid arguments.
OCR = '{"words": ["the", "cat"], "boxes": [[0, 0, 90, 80], [10, 2, 500, 1000]]}'
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "generate": ("bundles/decoder", ("the cat", "--max-new-tokens", "3")),
    "embed": ("bundles/sentences", ("the cat", "a dog")),
    "classify": ("bundles/classifier", ("the cat",)),
    "zero-shot": ("bundles/classifier", ("the cat", "--label", "cat", "--label", "dog")),
    "rerank": ("bundles/reranker", ("the cat", "--document", "a cat", "--document", "a dog")),
    "tag": ("bundles/tagger", ("Anna lives in Paris",)),
    "answer": ("bundles/reader", ("who sat", "--context", "the cat sat")),
    "fill-mask": ("bundles/pretrained", ("the [MASK] sat",)),
    "next-sentence": ("bundles/pretrained", ("the cat", "sat")),
    "choose": ("bundles/chooser", ("who", "the cat", "a dog")),
    "classify-audio": ("bundles/noises", ("sound.wav",)),
    "diarize": ("bundles/turns", ("sound.wav",)),
    "embed-speaker": ("bundles/speakers", ("sound.wav",)),
    "embed-audio": ("bundles/heard", ("sound.wav",)),
    "match-audio": ("bundles/heard", ("sound.wav", "--text", "a", "--text", "b")),
    "classify-image": ("bundles/images", ("image.png",)),
    "embed-image": ("bundles/towers", ("image.png",)),
    "detect": ("bundles/objects", ("image.png", "--threshold", "0.1")),
    "depth": ("bundles/depths", ("image.png",)),
    "pose": ("bundles/poses", ("image.png", "--box", "1,2,9,9")),
    "segment": ("bundles/segments", ("image.png",)),
    "masks": ("bundles/masks", ("image.png", "--point", "3,4", "--box", "1,2,9,9")),
    "all-masks": ("bundles/masks", ("image.png", "--points-per-side", "2", "--crop-layers", "1")),
    "match": ("bundles/towers", ("image.png", "--text", "a cat")),
    "embed-words": ("bundles/ocr_words", (OCR,)),
    "tag-words": ("bundles/ocr_tags", (OCR, "--stride", "2")),
    "classify-page": ("bundles/ocr_labels", (OCR,)),
    "answer-page": ("bundles/ocr_answers", (OCR, "--question", "who?")),
    "embed-pages": ("bundles/pages", ("image.png",)),
    "embed-queries": ("bundles/pages", ("the cat sat",)),
    "rank-pages": ("bundles/pages", ("the cat sat", "--image", "image.png")),
    "find": ("bundles/patches", ("image.png", "--text", "a cat")),
    "transcribe": ("bundles/speech", ("sound.wav", "--max-new-tokens", "3")),
    "ask-image": ("bundles/seen", ("image.png", "--max-new-tokens", "3")),
    "image-to-text": ("bundles/captions", ("image.png", "--max-new-tokens", "3")),
    "inspect": ("bundles/sentences", ()),
    "export": ("families/bert", ("out",)),
    "compare": ("bundles/sentences/onnx/model.onnx", ("model.onnx",)),
}
VALUES = (
    *("-1", "0", "1", "1e400", "nan", "9" * 30, "x", "", " ", "a=b", "=", "a=", "top_k=[[1]]", "mean", "."),
    *("input_ids=5:1", "a=[" + "[" * 3000, "one\ntwo", "\udcff", "x" * 5000, "lines.txt", "gone/x"),
)
CODES = (0, 1, 2)


def command(case: Case) -> None:
    """A command with one to three additional options, and files of bytes."""
    name = case.random.choice(list(COMMANDS))
    place, base = COMMANDS[name]
    for seed in ("files/image.png", "files/sound.wav", "bundles/sentences/onnx/model.onnx"):
        if seed.rsplit("/", 1)[-1] in base:
            case.copy(seed)
    lines, note = raw_bytes.change(case.random, b"the cat\tsat\nAnna lives in Paris\n\n")
    (case.work / "lines.txt").write_bytes(lines)
    options = [option for option in main.get_command(None, name).params if isinstance(option, click.Option)]
    chosen: list[str] = []
    for option in case.random.sample(options, min(len(options), case.random.choice((1, 1, 2, 3)))):
        chosen.append(case.random.choice((*option.opts, *option.secondary_opts)))
        if not option.is_flag:
            chosen.append("lines.txt" if "file" in option.name else case.random.choice(VALUES))
    if case.random.random() < 0.2:
        chosen += ["--", case.random.choice(json_values.TEXTS)[:5000]]
    case.note(f"txexport {name} {place} {' '.join((*base, *chosen))[:300]}, lines.txt: {note}")
    arguments = [name, str(case.seeds / place), *base, *chosen]
    result = CliRunner().invoke(main, arguments, input=lines, catch_exceptions=False)
    if result.exit_code not in CODES:
        raise FaultError(f"exit code {result.exit_code}")
