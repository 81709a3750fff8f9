"""Model types without a family: why, or what is nearest."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

RECIPE = "docs/contributing/family.md in the repository describes how to add one"
# Model types that are left out on purpose, and why.
INDEXED = "an indexer with a cache of its own picks the keys that each query reads"
SHARED = "layers share one block of attention, which also reads the embeddings of the tokens"
REFUSED = {
    "bitnet": "its published weights have three values, and multiply activations rounded to 8 bits; export "
    "--traced takes a checkpoint of floats",
    "deepseek_v32": INDEXED,
    "doge": "scores of the values mask keys (dynamic mask attention); export --traced takes its class",
    "glm_moe_dsa": INDEXED,
    "kimi_linear": "its delta rules decay every channel of a key by itself",
    "recurrent_gemma": "transformers keeps its states in the layers of the model, so that a prompt of one "
    "token reads those of the text before",
    "rwkv": "it keeps a maximum, a numerator and a denominator of its past (WKV) in place of keys",
    "zamba": SHARED,
    "zamba2": SHARED,
    "layoutlmv2": "detectron2, which is no published package, computes its images, and LayoutXLM's; layoutlm "
    "and layoutlmv3 read pages without it",
}


def advice(model_type: str, names: Sequence[str]) -> str:
    """The reason, or the families among `names` with the most similar names, as the end of a sentence."""
    if model_type in REFUSED:
        return f": {REFUSED[model_type]}"
    close = get_close_matches(model_type, names, n=2, cutoff=0.6)
    stem = re.split(r"[-_\d]", model_type)[0]
    kin = [name for name in names if len(stem) > 2 and name.startswith(stem)]
    nearest = list(dict.fromkeys([*close, *kin]))[:3]
    nearby = f"; the nearest by name: {', '.join(nearest)}" if nearest else ""
    return (
        f"{nearby}; `txexport families` lists those that are, and export --traced takes other classes of "
        f"transformers; {RECIPE}"
    )
