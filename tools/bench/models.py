"""How fast bundles run beside other software, in one run on one machine: ratios, JSON, and a plot.

    python tools/bench/models.py [--only gpt2,t5] [--threads 2] [--json FILE] [--plot FILE.png]

Shapes are real ones with random weights, made on the spot: BERT-base, GPT-2 124M, a Qwen2 of 0.5B, T5-small
and BART-base. Each measurement alternates between the runners, after one run of each to warm up; medians are
compared. CTranslate2 takes part where it is installed.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import transformers

import txexport

PAUSE = 0.05  # seconds: threads of one library spin on for a while when it is done
BATCH, SOURCE, NEW = 8, 64, 48

QWEN = {
    "vocab_size": 151_936,
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
    "tie_word_embeddings": True,
}
NO_END = {"eos_token_id": None, "forced_eos_token_id": None}
# Name -> architecture, what its config changes, task.
MODELS = {
    "bert": ("BertModel", {}, "encode"),
    "gpt2": ("GPT2LMHeadModel", {}, "decode"),
    "qwen2": ("Qwen2ForCausalLM", QWEN, "decode"),
    "t5": ("T5ForConditionalGeneration", {"decoder_start_token_id": 0}, "answer"),
    "bart": (
        "BartForConditionalGeneration",
        {"d_model": 768, "encoder_layers": 6, "decoder_layers": 6},
        "answer",
    ),
}
BART_BASE = {
    "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
}


@dataclass
class Result:
    """Median seconds of one measurement by runner, and how many tokens it makes, or 0."""

    name: str
    seconds: dict[str, float]
    tokens: int = 0

    def line(self) -> str:
        """What it says in one line: ours, then the others with how many times as long they take."""
        own = self.seconds["txexport"]

        def said(seconds: float) -> str:
            return f"{self.tokens / seconds:8.1f} tokens/s" if self.tokens else f"{seconds * 1e3:8.1f} ms"

        others = [
            f"{name} {said(seconds)} (x{seconds / own:.2f})"
            for name, seconds in self.seconds.items()
            if name != "txexport"
        ]
        return f"{self.name:32} txexport {said(own)}   {'   '.join(others)}"


def measure(name: str, runs: dict[str, Callable[[], object]], times: int, tokens: int = 0) -> Result:
    """Each run in turn, `times` times after one to warm up."""
    found: dict[str, list[float]] = {runner: [] for runner in runs}
    for attempt in range(times + 1):
        for runner, run in runs.items():
            start = time.perf_counter()
            run()
            if attempt:
                found[runner].append(time.perf_counter() - start)
            time.sleep(PAUSE)
    result = Result(name, {runner: statistics.median(values) for runner, values in found.items()}, tokens)
    print(result.line(), flush=True)
    return result


def make(name: str, folder: Path):
    """A random checkpoint of `name` in `folder`, and transformers' model of it."""
    architecture, sizes, _ = MODELS[name]
    sizes = sizes | (BART_BASE if name == "bart" else {})
    config = transformers.AutoConfig.for_model(name, **sizes)
    torch.manual_seed(0)
    model = getattr(transformers, architecture)(config).eval()
    if MODELS[name][2] != "encode":
        for key, value in NO_END.items():
            setattr(model.generation_config, key, value)
    model.save_pretrained(folder)
    return model


def encode(model: txexport.Model, original, times: int) -> list[Result]:
    """One pass over 128 tokens."""
    ids = np.random.default_rng(0).integers(5, 1000, (1, 128))
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    tensors = {key: torch.from_numpy(array) for key, array in inputs.items()}
    runs = {"txexport": lambda: model.run(**inputs), "transformers": lambda: original(**tensors)}
    return [measure("BERT-base, 1 x 128", runs, 3 * times)]


def decode(model: txexport.Model, original, times: int) -> list[Result]:
    """A prompt of 512 tokens to its first new one, and 48 new ones after 32."""
    name, found = original.config.model_type, []
    for what, prompt, new in (("prompt of 512", 512, 1), ("48 new after 32", 32, NEW)):
        ids = np.random.default_rng(0).integers(5, 1000, (1, prompt))
        tensor, rows = torch.from_numpy(ids), ids.tolist()
        mask = torch.ones_like(tensor)
        options = {"max_new_tokens": new, "do_sample": False, "pad_token_id": 0}

        def ours(rows=rows, new=new) -> None:
            model.generate_ids(rows, max_new_tokens=new, eos_token_id=None)

        def theirs(tensor=tensor, mask=mask, options=options) -> None:
            original.generate(tensor, attention_mask=mask, **options)

        runs = {"txexport": ours, "transformers": theirs}
        found.append(measure(f"{name}, {what}", runs, times, new if new > 1 else 0))
    return found


def answer(model: txexport.Model, original, times: int, translator=None) -> list[Result]:
    """48 new tokens for 8 sources of 64, greedy and with 4 beams."""
    name, found = original.config.model_type, []
    ids = np.random.default_rng(0).integers(5, 1000, (BATCH, SOURCE))
    tensor, rows = torch.from_numpy(ids), ids.tolist()
    mask = torch.ones_like(tensor)
    for beams in (1, 4):
        options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "num_beams": beams, "do_sample": False}

        def ours(beams=beams) -> None:
            model.generate_ids(rows, max_new_tokens=NEW, num_beams=beams, eos_token_id=None)

        def theirs(options=options) -> None:
            original.generate(tensor, attention_mask=mask, **options)

        runs = {"txexport": ours, "transformers": theirs}
        if translator is not None:
            runs["CTranslate2"] = lambda beams=beams: translator(beams)
        found.append(measure(f"{name}, 8 x 64 -> 48, {beams} beams", runs, times, BATCH * NEW))
    return found


def peer(folder: Path, threads: int):
    """CTranslate2's translator of a checkpoint as a function of beams, where it is installed and takes it."""
    if find_spec("ctranslate2") is None:
        return None
    import ctranslate2

    try:
        ctranslate2.converters.TransformersConverter(str(folder)).convert(str(folder / "ct2"))
    except Exception as error:
        print(f"CTranslate2 does not take part: {str(error).splitlines()[0][:90]}")
        return None
    translator = ctranslate2.Translator(str(folder / "ct2"), "cpu", intra_threads=threads, inter_threads=1)
    tokens = [[f"<{i}>" for i in range(SOURCE)]] * BATCH

    def translate(beams: int) -> None:
        translator.translate_batch(
            tokens, beam_size=beams, max_decoding_length=NEW, min_decoding_length=NEW, max_batch_size=BATCH
        )

    return translate


def plot(results: list[Result], path: Path) -> None:
    """How many times as long the others take, as bars."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    bars = [
        (f"{result.name}\n{runner}", seconds / result.seconds["txexport"])
        for result in results
        for runner, seconds in result.seconds.items()
        if runner != "txexport"
    ]
    names, ratios = zip(*reversed(bars), strict=True)
    figure, axes = pyplot.subplots(figsize=(8, 0.45 * len(bars) + 1), layout="constrained")
    axes.barh(names, ratios)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("time, as a multiple of txexport's")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Make, export and measure each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    transformers.utils.logging.set_verbosity_error()
    results: list[Result] = []
    for name in given.only.split(","):
        with tempfile.TemporaryDirectory() as place, torch.inference_mode():
            folder = Path(place)
            original = make(name, folder / "checkpoint")
            txexport.export(folder / "checkpoint", folder / "bundle")
            model = txexport.load(folder / "bundle", device="cpu", threads=given.threads)
            kind = MODELS[name][2]
            if kind == "answer":
                translator = peer(folder / "checkpoint", given.threads)
                results += answer(model, original, given.times, translator)
            else:
                results += {"encode": encode, "decode": decode}[kind](model, original, given.times)
    if given.json:
        rows = [{"name": r.name, "seconds": r.seconds, "tokens": r.tokens} for r in results]
        given.json.write_text(json.dumps(rows, indent=2) + "\n")
    if given.plot:
        plot(results, given.plot)


if __name__ == "__main__":
    main()
