"""Model types without a family: why, or what is nearest."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

RECIPE = "docs/contributing/family.md in the repository describes how to add one"
# Model types that are left out on purpose, and why.
REFUSED = {
    "layoutlmv2": "detectron2, which is no published package, computes its images, and LayoutXLM's; layoutlm "
    "and layoutlmv3 read pages without it"
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
