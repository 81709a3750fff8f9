"""English names of languages by Whisper's codes, as OpenAI's answers have them."""

from txexport.runtime.tasks.whisper.languages import CODES

# Names of which the table has another for the same code.
SECOND_NAMES = {
    "burmese",
    "castilian",
    "flemish",
    "haitian",
    "letzeburgesch",
    "mandarin",
    "moldavian",
    "moldovan",
    "panjabi",
    "pushto",
    "sinhalese",
    "valencian",
}
LANGUAGES = {code: name for name, code in CODES.items() if name not in SECOND_NAMES}
