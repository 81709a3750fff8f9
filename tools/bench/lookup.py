"""What prompt lookup and kept prefixes save, with the pretrained completer on one thread.

    python tools/bench/lookup.py [--repeats 7]

"copied" is code that is written again, as by an editor: a rule makes the completer copy, with lookup and
without, since so small a model copies nothing of its own. "new" is code of which little was there before.
"turn" is the time to the first token of a prompt of 200 tokens, of which a session has read all but 8.
Seconds are those of the processor, which other work disturbs least; tokens must be the same.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import txexport
from txexport.runtime import Model, load

COMPLETER = Path(__file__).parents[2] / "models/pretrained/python-completer"
COPIED, NEW, PROMPT, LAST = 110, 200, 200, 8  # tokens


def compared(name: str, ways: list[Callable[[], object]], repeats: int, same: bool = True) -> None:
    """Print the median time of two ways in turn, and their ratio; they must give the `same`."""
    answers = [way() for way in ways]
    assert answers[0] == answers[1] or not same
    times: list[list[float]] = [[], []]
    for _ in range(repeats):
        for way, taken in zip(ways, times, strict=True):
            start = time.process_time()
            way()
            taken.append(time.process_time() - start)
    plain, other = (statistics.median(taken) * 1e3 for taken in times)
    print(f"{name:8} {plain:8.1f} ms {other:8.1f} ms {plain / other:6.2f}", flush=True)


def measure(model: Model, text: list[int], repeats: int) -> None:
    """The three cases for a text of so many tokens."""
    lookup = {"prompt_lookup_num_tokens": 10}

    def copy(rows, scores: np.ndarray) -> np.ndarray:
        for row, tokens in enumerate(rows):
            scores[row, text[len(tokens) - COPIED]] += 1000
        return scores

    def ids(prompt: list[int], count: int, **options) -> list[list[int]]:
        return model.generate_ids([prompt], max_new_tokens=count, eos_token_id=None, **options)

    copied = {"logits_processor": copy}
    head = text[:COPIED]
    for name, prompt, count, rule in (("copied", head, COPIED, copied), ("new", text[:30], NEW, {})):
        plain, looked_up = partial(ids, prompt, count, **rule), partial(ids, prompt, count, **rule, **lookup)
        compared(name, [plain, looked_up], repeats)
    session = model.session()
    session.generate_ids([text[: PROMPT - LAST]], max_new_tokens=1)
    places = iter(range(repeats + 1))

    def turn() -> list[list[int]]:
        last = text[PROMPT - LAST : PROMPT]
        last[0] = 5 + next(places)  # another turn each time, or all of it would be there
        return session.generate_ids([[*text[: PROMPT - LAST], *last]], max_new_tokens=1)

    def fresh() -> list[list[int]]:
        return ids(text[:PROMPT], 1)

    compared("turn", [fresh, turn], repeats, same=False)


def main() -> None:
    """Export the completer, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    lines = (COMPLETER / "heldout.jsonl").read_text(encoding="utf-8").splitlines()
    code = "\n".join(json.loads(line)["text"] for line in lines)
    with tempfile.TemporaryDirectory() as name:
        txexport.export(COMPLETER, Path(name) / "completer", only="native")
        model = load(Path(name) / "completer", device="cpu", threads=1)
        print("            without       with   ratio")
        measure(model, model.text.encode([code])[0].ids, repeats)


if __name__ == "__main__":
    main()
