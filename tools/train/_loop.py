"""Shared by the recipes: a training loop that resumes after a kill, and a checkpoint's small files."""

import hashlib
import json
import os
import shutil
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import click
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel

# transformers shows them when a checkpoint is written; a recipe has its own progress bar.
os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

SAVE_SECONDS = 30  # seconds between saved states
AVERAGE_EVERY = 50  # steps between the models that are averaged
STATE = "training.pt"


def part_of(folder: Path) -> Path:
    """The folder in which a checkpoint is written before it replaces the one in `folder`."""
    part = folder.with_name(f"{folder.name}.part")
    part.mkdir(parents=True, exist_ok=True)
    return part


def finish(part: Path, folder: Path) -> None:
    """Replace `folder` by the finished `part`."""
    (part / STATE).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    part.replace(folder)


def held_out(name: str) -> bool:
    """Tell whether a file is held out: one in twenty, by its name alone."""
    return zlib.crc32(name.encode()) % 20 == 0


def train(
    model: nn.Module,
    loss_of: Callable[[int], Tensor],
    optimizer: Optimizer,
    schedule: LambdaLR,
    steps: int,
    folder: Path,
    data: object,
    clip: float = 1.0,
    average_last: float = 0.0,
) -> None:
    """Take `steps` optimiser steps on `loss_of(step)`, whose batch depends on the step's number alone.

    A file in `folder` stores parameters, optimiser and schedule every half minute, and at the end; training
    resumes from it, if it is of as many steps over the same `data`, which is anything with a `repr`. With
    `average_last`, the result is the mean of the models at every 50 steps of that last fraction of the steps
    (Vaswani et al. 2017, 6.1, average checkpoints).
    """
    torch.set_num_threads(1)  # summation in a fixed order gives the same model on equal machines
    state, about = folder / STATE, [steps, hashlib.sha256(repr(data).encode()).hexdigest()]
    parts: list = [model, optimizer, schedule] + [AveragedModel(model)] * bool(average_last)
    first, mean = _resume(state, about, parts)
    began, saved, printed = time.monotonic(), time.monotonic(), 0.0
    for step in range(first, steps):
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        schedule.step()
        if step >= (1 - average_last) * steps and (steps - step) % AVERAGE_EVERY == 1:
            parts[-1].update_parameters(model)
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        now, done = time.monotonic(), step + 1
        if now - printed > 10 or done == steps:
            left = (now - began) / (done - first) * (steps - done)
            print(f"step {done} of {steps}, loss {mean:.4f}, {left / 60:.1f} min left", flush=True)
            printed = now
        if now - saved > SAVE_SECONDS or done == steps:
            values = [part.state_dict() for part in parts]
            torch.save({"about": about, "step": done, "loss": mean, "parts": values}, f"{state}.new")
            Path(f"{state}.new").replace(state)
            saved = now
    if average_last:
        model.load_state_dict(parts[-1].module.state_dict())


def _resume(state: Path, about: list, parts: list) -> tuple[int, float | None]:
    """The step to resume from, and the loss so far; `parts` get their stored state."""
    if not state.is_file():
        return 0, None
    stored = torch.load(state, weights_only=True)
    if stored["about"] != about:
        raise click.ClickException(f"{state} is of other steps or data; remove it to start again")
    for part, values in zip(parts, stored["parts"], strict=True):
        part.load_state_dict(values)
    print(f"going on from step {stored['step']} of {about[0]} ({state})", flush=True)
    return stored["step"], stored["loss"]


def autocast() -> torch.autocast:
    """Products in bfloat16 where the processor supports it, which halves the time; else in float32."""
    known = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported")
    return torch.autocast(
        "cpu", torch.bfloat16, enabled=known and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def parameters(model: nn.Module) -> int:
    """The number of trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def write_tokenizer(folder: Path, tokenizer: Tokenizer, longest: int, **special: str) -> None:
    """Write tokenizer.json and tokenizer_config.json, from which transformers builds the same tokenizer."""
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": longest, **special}
    write_json(folder / "tokenizer_config.json", config)


def write_json(path: Path, values: object) -> None:
    """Write `values` as indented JSON."""
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_examples(path: Path, examples: list[dict]) -> None:
    """Write held-out examples, one per line."""
    lines = "".join(json.dumps(example, ensure_ascii=False) + "\n" for example in examples)
    path.write_text(lines, encoding="utf-8")


NOTICE = "What `heldout.jsonl` quotes is under the licences in `NOTICE.txt`."


def licence(examples: str = "") -> str:
    """A model card's statements on the licence of the checkpoint, and on that of its examples."""
    text = "Licence: Apache 2.0, as this project's, for weights and configuration files."
    return f"{text}\n{examples}".strip()


def write_notice(folder: Path, text: str) -> None:
    """Write NOTICE.txt, the licences of the quoted examples."""
    (folder / "NOTICE.txt").write_text(text, encoding="utf-8")


def write_card(
    folder: Path, title: str, text: str, command: str, scores: dict[str, str], examples: str = ""
) -> None:
    """Write README.md, the model card: purpose, data, licence, held-out scores, the command."""
    table = "\n".join(f"| {name} | {score} |" for name, score in scores.items())
    python = ".".join(map(str, sys.version_info[:3]))
    (folder / "README.md").write_text(
        f"# {title}\n\n{text.strip()}\n\n{licence(examples)}\n\n"
        f"| held out | score |\n|---|---|\n{table}\n\n"
        f"Made by `{command}` with Python {python} and PyTorch {torch.__version__.split('+')[0]}; "
        f"the weights are stored as float16.\n",
        encoding="utf-8",
    )
