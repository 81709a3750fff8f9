"""Expected results of beam search over CTC's outputs, from pyctcdecode 0.5.0.

It demands NumPy 1, and gives the same with NumPy 2.

pip install --no-deps pyctcdecode==0.5.0 pygtrie ufal.kenlm
python tests/helpers/ctc_beams.py

writes data/ctc_beams.json: by case, the texts of each row of logits with their scores, and the words of the
best with their vectors.
"""

import json
import tempfile
from pathlib import Path

import numpy as np

from helpers.language_model import save_language_model, sentences

FILE = Path(__file__).parent.parent / "data" / "ctc_beams.json"
LABELS = ["", "<s>", "⁇", " ", *"abcde'é"]
TEXTS = sentences(200, "abcdé", seed=5)
MOST = 10  # texts that are recorded
# By name: the number of beams, and the weights of the language model, or None without one.
CASES = {
    "beams": (20, None),
    "two beams": (2, None),
    "language model": (20, {}),
    "many beams": (100, {"alpha": 0.8, "beta": 0.2}),
    "no boundaries": (10, {"score_boundary": False, "unk_score_offset": -3.0}),
}


def logits(number: int) -> np.ndarray:
    """The logits (S,V) of a row: the letters of a sentence with noise, in which blanks are frequent."""
    draw = np.random.default_rng(number)
    tokens: list[int] = []
    for letter in TEXTS[number]:
        tokens += [LABELS.index(letter)] * int(draw.integers(1, 3)) + [0] * int(draw.integers(0, 4))
    likely = np.eye(len(LABELS))[[0, *tokens, 0]]
    return np.round(4 * likely + 1.1 * draw.standard_normal(likely.shape), 4)


ROWS = [logits(number) for number in range(12)]


def write() -> None:
    """Write the file."""
    from pyctcdecode import Alphabet, BeamSearchDecoderCTC

    result: dict[str, list] = {}
    for name, (width, weights) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            if weights is None:
                decoder = BeamSearchDecoderCTC(Alphabet(LABELS, False))
            else:
                save_language_model(Path(folder), LABELS, TEXTS, **weights)
                decoder = BeamSearchDecoderCTC.load_from_dir(folder, unigram_encoding="utf-8")
            every = [decoder.decode_beams(row, beam_width=width) for row in ROWS]
        result[name] = [
            {
                "texts": [(text, score, log_prob) for text, _, _, log_prob, score in beams[:MOST]],
                "words": [(word, *vectors) for word, vectors in beams[0][2]],
            }
            for beams in every
        ]
    rows = [f"{json.dumps(name)}: {json.dumps(case, ensure_ascii=False)}" for name, case in result.items()]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
