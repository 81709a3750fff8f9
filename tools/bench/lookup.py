"""Speed of prompt lookup, assisted generation and the prefix cache, on one thread.

python tools/bench/lookup.py [--repeats 7]

"copied" is code that is written again, as by an editor: a rule makes the completer copy, with and without
lookup, since so small a model would not copy. "new" is code of which little occurred before. "turn" is the
time to the first token of a prompt of 200 tokens, of which the cache holds all but 8. These use the
pretrained completer. An assistant's bounds are those of a Llama of 12 random layers and one of 2: in "agrees"
the other 10 layers are the identity, so that all proposals are accepted, in "differs" none is.
Seconds are processor time, which other load disturbs least; tokens must be equal.
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
DEEP, SHALLOW, WORDS = 12, 2, 8000


def compared(name: str, ways: list[Callable[[], object]], repeats: int, same: bool = True) -> None:
    """Alternate between two functions; print median times and their ratio. They return the `same` tokens."""
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
    """The three cases for a text of that many tokens."""
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
    numbers = iter(range(repeats + 1))

    def turn() -> list[list[int]]:
        last = text[PROMPT - LAST : PROMPT]
        last[0] = 5 + next(numbers)  # a new turn each time, since the last one is in the cache
        return session.generate_ids([[*text[: PROMPT - LAST], *last]], max_new_tokens=1)

    def fresh() -> list[list[int]]:
        return ids(text[:PROMPT], 1)

    compared("turn", [fresh, turn], repeats, same=False)


def assisted(folder: Path, repeats: int) -> None:
    """An assistant whose proposals are always accepted, and one whose proposals never are."""
    text = np.random.default_rng(0).integers(5, WORDS, 32).tolist()

    def ids(model: Model, **options) -> list[list[int]]:
        return model.generate_ids([text], max_new_tokens=NEW, eos_token_id=None, **options)

    for name, idle in (("agrees", DEEP - SHALLOW), ("differs", 0)):
        deep, shallow = (random_model(folder / f"{name}{layers}", layers, idle) for layers in (DEEP, SHALLOW))
        compared(name, [partial(ids, deep), partial(ids, deep, assistant_model=shallow)], repeats)


def random_model(folder: Path, layers: int, idle: int) -> Model:
    """A confident Llama, whose layers after the first `SHALLOW` are the identity if `idle`."""
    import torch
    import transformers

    torch.manual_seed(0)
    sizes = {"hidden_size": 768, "intermediate_size": 2048, "num_attention_heads": 12, "vocab_size": WORDS}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, num_hidden_layers=DEEP))
    with torch.no_grad():
        model.model.norm.weight *= 100
        for layer in model.model.layers[DEEP - idle :]:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    del model.model.layers[layers:]
    model.config.num_hidden_layers = layers
    model.save_pretrained(folder)
    txexport.export(folder, folder / "bundle", only="native")
    return load(folder / "bundle", device="cpu", threads=1)


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
        assisted(Path(name), repeats)


if __name__ == "__main__":
    main()
