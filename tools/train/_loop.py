"""What the recipes share: a loop that goes on after a kill, and a checkpoint's small files."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel

torch.set_num_threads(1)  # sums in one order, so that a recipe makes the same model on machines alike

SAVE_SECONDS = 30  # at most so much work is lost by a kill


def train(
    model: nn.Module,
    loss_of: Callable[[int], Tensor],
    optimizer: Optimizer,
    schedule: LambdaLR,
    steps: int,
    state: Path,
    clip: float = 1.0,
    average_last: float = 0.0,
) -> None:
    """Take `steps` steps down `loss_of(step)`, whose batch depends on the step's number alone.

    `state` keeps parameters, optimiser and schedule every half minute; where it is there already, training
    goes on from it. It is removed in the end. With `average_last`, the model ends as the mean of what it was
    every 50 steps of that last share of them (Vaswani et al. 2017, 6.1, average checkpoints).
    """
    averaged = AveragedModel(model)
    parts = (model, averaged, optimizer, schedule)
    first, began, told, mean = 0, time.monotonic(), 0.0, None
    if state.is_file():
        kept = torch.load(state, weights_only=True)
        for part, values in zip(parts, kept["parts"], strict=True):
            part.load_state_dict(values)
        first, mean = kept["step"], kept["loss"]
        print(f"going on from step {first} of {steps} ({state})", flush=True)
    saved = time.monotonic()
    for step in range(first, steps):
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        schedule.step()
        if step >= (1 - average_last) * steps and (steps - step) % 50 == 1:
            averaged.update_parameters(model)
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        now, done = time.monotonic(), step + 1
        if now - told > 10 or done == steps:
            left = (now - began) / (done - first) * (steps - done)
            print(f"step {done} of {steps}, loss {mean:.4f}, {left / 60:.1f} min left", flush=True)
            told = now
        if now - saved > SAVE_SECONDS and done < steps:
            state.parent.mkdir(parents=True, exist_ok=True)
            values = [part.state_dict() for part in parts]
            torch.save({"step": done, "loss": mean, "parts": values}, state.with_suffix(".new"))
            state.with_suffix(".new").replace(state)
            saved = now
    if average_last:
        model.load_state_dict(averaged.module.state_dict())
    state.unlink(missing_ok=True)


def write_tokenizer(folder: Path, tokenizer: Tokenizer, longest: int, **special: str) -> None:
    """tokenizer.json and tokenizer_config.json, from which transformers makes the same tokenizer."""
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": longest, **special}
    write_json(folder / "tokenizer_config.json", config)


def write_json(path: Path, values: object) -> None:
    """`values` as JSON for people."""
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def write_examples(path: Path, examples: list[dict]) -> None:
    """Held-out examples, a line each."""
    path.write_text("".join(json.dumps(example, ensure_ascii=False) + "\n" for example in examples))


def write_card(folder: Path, title: str, text: str, command: str, scores: dict[str, str]) -> None:
    """README.md, the model card: what it is, its data and licence, held-out scores, the command."""
    table = "\n".join(f"| {name} | {score} |" for name, score in scores.items())
    python = ".".join(map(str, sys.version_info[:3]))
    (folder / "README.md").write_text(
        f"# {title}\n\n{text.strip()}\n\n| held out | score |\n|---|---|\n{table}\n\n"
        f"Made by `{command}` with Python {python} and PyTorch {torch.__version__.split('+')[0]}; "
        f"the weights are stored as float16.\n"
    )


def parameters(model: nn.Module) -> int:
    """How many numbers are trained."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def autocast() -> torch.autocast:
    """Products in bfloat16 where the processor multiplies it, which takes half the time; else in float32."""
    supported = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return torch.autocast("cpu", torch.bfloat16, enabled=supported)
