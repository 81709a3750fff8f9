"""Cost of a mixture of experts against a dense network as wide as the selected experts.

python tools/bench/experts.py

Prints the time of one Mixtral-like layer with 2 of 8 experts over that of a LLaMA-like layer whose
feed-forward network is as wide as two experts, for a decoding step and for prompts; random weights.
"""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import transformers

import txexport

WIDTH, INNER, TOKENS = 512, 1792, (1, 8, 64, 512)
SIZES = {
    "vocab_size": 1000,
    "hidden_size": WIDTH,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}


def bundle(folder: Path, name: str, **sizes) -> txexport.Model:
    """A random model of `name` as a loaded bundle."""
    config = transformers.AutoConfig.for_model(name, **SIZES | sizes)
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder / name)
    txexport.export(folder / name, folder / f"{name}-bundle", cache="dynamic")
    return txexport.load(folder / f"{name}-bundle", device="cpu", threads=2)


def seconds(model: txexport.Model, tokens: int) -> float:
    """One pass over new tokens without a past."""
    ids = np.random.default_rng(0).integers(0, 1000, (1, tokens))
    past = {
        port.name: np.zeros((1, port.shape[1], 0, port.shape[3]), np.float32)
        for port in model.manifest.graphs["model"].inputs
        if port.name.startswith("past")
    }
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.arange(tokens)[None]}
    start = time.perf_counter()
    model.run(**inputs, **past)
    return time.perf_counter() - start


def main() -> None:
    """Alternate between the two; print medians and their ratio."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mixture = bundle(
            folder, "mixtral", intermediate_size=INNER, num_local_experts=8, num_experts_per_tok=2
        )
        dense = bundle(folder, "llama", intermediate_size=2 * INNER)
        print("tokens   2 of 8 experts   as wide as two   ratio")
        for tokens in TOKENS:
            pairs = [(seconds(mixture, tokens), seconds(dense, tokens)) for _ in range(30)][5:]
            one, other = (statistics.median(times) * 1e3 for times in zip(*pairs, strict=True))
            print(f"{tokens:6} {one:13.2f} ms {other:13.2f} ms {one / other:7.2f}")


if __name__ == "__main__":
    main()
