"""The tables of tasks, and of other names."""

from collections.abc import Iterable

from txexport.support.aliases import DTYPES
from txexport.support.aliases import TASKS as TASKS_ALSO
from txexport.tasks import METHODS, ROWS, TASKS

PAIRS = "images-and-texts-sounds-and-texts"
# Where a guide in docs/guides/ shows a task.
SHOWN = {
    "feature-extraction": ("search", "embeddings.md"),
    "text-classification": ("classify", "tasks.md#classify"),
    "fill-mask": ("fill masks", "tasks.md#fill-masks"),
    "next-sentence-prediction": ("next sentences", "tasks.md#next-sentences"),
    "pretraining": ("fill masks", "tasks.md#fill-masks"),
    "token-classification": ("tag", "tasks.md#tag"),
    "question-answering": ("answer", "tasks.md#answer"),
    "multiple-choice": ("choose", "tasks.md#choose"),
    "text-generation": ("generate", "generation.md"),
    "text2text-generation": ("translate", "generation.md#translation"),
    "automatic-speech-recognition": ("transcribe", "speech.md"),
    "image-to-text": ("caption", "generation.md#images"),
    "image-text-to-text": ("ask about images", "images.md"),
    "audio-text-to-text": ("ask about sounds", "speech.md#sounds-in-conversations"),
    "image-feature-extraction": ("compare images", "vision.md#other-tasks"),
    "image-classification": ("label images", "vision.md#other-tasks"),
    "object-detection": ("find objects", "vision.md#find-objects"),
    "depth-estimation": ("estimate depth", "vision.md#estimate-depth"),
    "image-segmentation": ("label every pixel", "vision.md#label-every-pixel"),
    "pose-estimation": ("estimate poses", "vision.md#estimate-poses"),
    "mask-generation": ("cut out objects", "vision.md#cut-out-objects"),
    "zero-shot-image-classification": ("images and texts", f"embeddings.md#{PAIRS}"),
    "zero-shot-object-detection": ("find by a text", "vision.md#find-what-a-text-describes"),
    "visual-document-retrieval": ("search pages", "embeddings.md#pages-as-images"),
    "audio-classification": ("label sounds", "tasks.md#recordings"),
    "audio-frame-classification": ("who speaks when", "tasks.md#recordings"),
    "audio-xvector": ("recognise a voice", "tasks.md#recordings"),
    "zero-shot-audio-classification": ("sounds and texts", f"embeddings.md#{PAIRS}"),
    "document-question-answering": ("ask about pages", "tasks.md#words-with-bounding-boxes"),
}


def table() -> str:
    """Each task with the guide that shows it, and the methods of Model and the commands that serve it."""
    lines = ["| task | guide | methods | commands |", "|---|---|---|---|"]
    for name in TASKS:
        rows = [row for row in ROWS if row.name == name]
        methods = dict.fromkeys(method for row in rows for method in (*row.methods, *row.related))
        commands = [METHODS[method].command for method in methods if method in METHODS]
        title, page = SHOWN[name]
        link = f"[{title}]({page.removeprefix('tasks.md')})"
        lines.append(f"| {name} | {link} | {_listed(methods)} | {_listed(commands)} |")
    return "\n".join(lines) + "\n"


def other_names() -> str:
    """{{ aliases }}: the other names of tasks and dtypes."""
    lines = ["| name | also |", "|---|---|"]
    for aliases in (DTYPES, TASKS_ALSO):
        for name in dict.fromkeys(aliases.values()):
            also = [alias for alias, canonical in aliases.items() if canonical == name]
            lines.append(f"| `{name}` | {_listed(also)} |")
    return "\n".join(lines)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
