"""Model types without a family: why, or what is nearest."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

RECIPE = "docs/contributing/family.md in the repository describes how to add one"
INDEXED = "an indexer with a cache of its own picks the keys that each query reads"
# Model types that are left out on purpose, and why.
REFUSED = {
    "bitnet": "its published weights are ternary, and its activations are rounded to 8 bits",
    "canine": "it embeds characters by hashing, and shortens texts by strided convolutions",
    "deepseek_v32": INDEXED,
    "doge": "scores of the values mask keys (dynamic mask attention)",
    "fsmt": "its tokenizer needs sacremoses, and encoder and decoder have vocabularies of their own",
    "glm_moe_dsa": INDEXED,
    "granite_speech": "its audio encoder attends within blocks, a Q-Former reads its windows, and published "
    "checkpoints switch on a LoRA adapter for audio only",
    "granite_speech_plus": "its audio encoder attends within blocks, and a Q-Former reads windows of several "
    "layers' outputs",
    "kosmos-2": "a mask, not a token, says where images stand, and its decoder adds positions to them",
    "kosmos-2.5": "a mask, not a token, says where images stand, and its decoder adds positions to them",
    "layoutlmv2": "detectron2, which is no published package, computes its images, and LayoutXLM's; layoutlm "
    "and layoutlmv3 read pages without it",
    "led": "its encoder has Longformer's attention, and takes a mask of global tokens beside a text",
    "longt5": "its encoder attends within blocks of tokens, and to sums of them",
    "luke": "it reads entities beside tokens, each at the mean of its tokens' positions",
    "nllb-moe": "its class in transformers uses only two experts of each layer, so that there is no right "
    "original to compare with",
    "pegasus_x": "its encoder attends within blocks that are shifted every second layer, and to learned "
    "global tokens",
    "prophetnet": "each position predicts several tokens, by streams of attention of their own",
    "t5gemma2": "its decoder attends to its tokens and to the encoder's vectors in one softmax",
    "zamba": "its Mamba layers have heads, each of which selects steps and vectors of its own",
}

# Those whose classes export --traced takes at every size; see docs/reference/traced.md.
TRACED = (
    *("bitnet", "doge", "granite_speech", "granite_speech_plus", "kosmos-2.5", "luke", "pegasus_x"),
    "t5gemma2",
)


def advice(model_type: str, names: Sequence[str]) -> str:
    """The reason, or the families among `names` with the most similar names, as the end of a sentence."""
    if model_type in REFUSED:
        traced = "; export --traced takes its class of transformers" if model_type in TRACED else ""
        return f": {REFUSED[model_type]}{traced}"
    close = get_close_matches(model_type, names, n=2, cutoff=0.6)
    stem = re.split(r"[-_\d]", model_type)[0]
    kin = [name for name in names if len(stem) > 2 and name.startswith(stem)]
    nearest = list(dict.fromkeys([*close, *kin]))[:3]
    nearby = f"; the nearest by name: {', '.join(nearest)}" if nearest else ""
    return (
        f"{nearby}; `txexport families` lists those that are, and export --traced takes other classes of "
        f"transformers; {RECIPE}"
    )
