"""The command that writes one tiny checkpoint."""

import sys
from pathlib import Path

import transformers

from tiny_checkpoint import FAMILIES, save

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in FAMILIES:
        sys.exit(f"usage: python -m tiny_checkpoint {'|'.join(FAMILIES)} FOLDER")
    transformers.utils.logging.set_verbosity_error()
    save(Path(sys.argv[2]), sys.argv[1])
