"""Memory that a pass over a text needs, by its length: all attention scores at once, or in blocks.

python tools/bench/memory.py [--lengths 1024,2048,4096,8192]

One layer of BERT's width, two of GPT-2's, of which the last computes for one token, and two of a Mistral's of
that width whose tokens see 512 others, with random weights. Each length runs in a new process, after a text
of 16 tokens; the figure is the growth of the peak memory, in MiB. Linux only.
"scores" is the size of all heads' scores: 12 heads of n x n in float32.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HEADS, SHORT = 12, 16
PROCESS = Path("/proc/self")
ENCODER, DECODER, WINDOWED = "encoder", "decoder", "window"
ENGINES = {ENCODER: ("onnxruntime", "openvino"), DECODER: ("onnxruntime",), WINDOWED: ("onnxruntime",)}


def made(folder: Path, kind: str, longest: int) -> Path:
    """A bundle of one layer, or of two."""
    import torch
    import transformers

    import txexport

    torch.manual_seed(0)
    if kind == ENCODER:
        config = transformers.BertConfig(
            vocab_size=1000, num_hidden_layers=1, max_position_embeddings=longest
        )
        model = transformers.BertModel(config)
    elif kind == WINDOWED:
        config = transformers.MistralConfig(
            vocab_size=1000, hidden_size=768, num_hidden_layers=2, num_attention_heads=HEADS,
            num_key_value_heads=HEADS, intermediate_size=3072, sliding_window=512,
            max_position_embeddings=longest,
        )  # fmt: skip
        model = transformers.MistralForCausalLM(config)
    else:
        config = transformers.GPT2Config(
            vocab_size=1000, n_layer=2, n_positions=longest, bos_token_id=1, eos_token_id=1
        )
        model = transformers.GPT2LMHeadModel(config)
    model.save_pretrained(folder / "checkpoint")
    txexport.export(folder / "checkpoint", folder / "bundle")
    return folder / "bundle"


def grown(bundle: str, kind: str, engine: str, length: int) -> float:
    """MiB by which this process's peak memory grows for a text of that many tokens."""
    import txexport

    with txexport.load(bundle, engine=engine, device="cpu") as model:

        def read(count: int) -> None:
            ids = np.ones((1, count), np.int64)
            if kind == ENCODER:
                model.run(input_ids=ids, attention_mask=ids, token_type_ids=0 * ids)
            else:
                model.generate_ids(ids.tolist(), max_new_tokens=1, eos_token_id=None)

        read(SHORT)
        (PROCESS / "clear_refs").write_text("5")  # resets the peak
        before = most()
        read(length)
        return most() - before


def most() -> float:
    """The peak memory of this process in MiB."""
    [line] = [line for line in (PROCESS / "status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def main() -> None:
    """Measure each length with each installed engine."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", default="1024,2048,4096,8192")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # the measurement of a subprocess, as JSON
    options = parser.parse_args()
    if options.one:
        print(grown(*json.loads(options.one)))
        return
    lengths = [int(length) for length in options.lengths.split(",")]
    print(f"{'tokens':22}" + "".join(f"{length:>8,}" for length in lengths))
    print(f"{'scores':22}" + "".join(f"{HEADS * length**2 * 4 / 2**20:>8,.0f}" for length in lengths))
    for kind, engines in ENGINES.items():
        with tempfile.TemporaryDirectory() as work:
            bundle = made(Path(work), kind, max(lengths) + 1)
            for engine in engines:
                print(f"{kind + ', ' + engine:22}", end="", flush=True)
                for length in lengths:
                    arguments = json.dumps([str(bundle), kind, engine, length])
                    call = [sys.executable, __file__, "--one", arguments]
                    ended = subprocess.run(call, capture_output=True, text=True, check=False)
                    figure = ended.stdout.split()[-1:] if ended.returncode == 0 else []
                    print(f"{float(figure[0]):>8,.0f}" if figure else f"{'-':>8}", end="", flush=True)
                print()


if __name__ == "__main__":
    main()
