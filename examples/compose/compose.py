"""A Transformer composed from its parts: trained, exported, verified and run.

python examples/compose/compose.py [FOLDER]

It tags unbalanced brackets, with layers of local and full attention in alternation.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from txmodels.model import model as transformer
from txmodels.training import checkpoints, initialisation, objectives, optimisation

import txexport
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    LocalAttentionSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

CHARACTERS = "()ab"
LENGTH = 24


def spec(width: int = 48, heads: int = 4) -> EncoderSpec:
    """Four layers; the second and fourth have full attention."""
    norm, feed_forward = NormSpec(width, 1e-5), FeedForwardSpec(width, 4 * width, Activation.GELU)
    local = LocalAttentionSpec(width, heads, width // heads, block_size=4)
    full = AttentionSpec(width, heads, heads, width // heads, causal=False)
    blocks = tuple(BlockSpec(kind, feed_forward, norm, NormPlacement.PRE) for kind in (local, full))
    embedding = EmbeddingSpec(len(CHARACTERS), width, PositionSpec(PositionKind.LEARNED, LENGTH))
    stack = TextStackSpec(embedding, blocks, num_layers=4, final_norm=norm)
    return EncoderSpec(stack, head=HeadSpec(HeadKind.TOKENS, tied=False, bias=True, labels=2))


def lonely(text: str) -> list[int]:
    """Return 1 for each bracket without a partner."""
    tags, opened = [0] * len(text), []
    for place, character in enumerate(text):
        if character == "(":
            opened.append(place)
        elif character == ")" and opened:
            opened.pop()
        elif character == ")":
            tags[place] = 1
    for place in opened:
        tags[place] = 1
    return tags


def examples(seed: int, count: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    """Random texts as ids and the tags of their characters, both (count,LENGTH)."""
    ids = np.random.default_rng(seed).integers(0, len(CHARACTERS), (count, LENGTH))
    tags = [lonely("".join(CHARACTERS[i] for i in row)) for row in ids]
    return torch.from_numpy(ids), torch.tensor(tags)


def main(folder: Path, steps: int = 400) -> float:
    """Train, export and verify in `folder`; return the bundle's accuracy per character on new texts."""
    torch.manual_seed(0)
    model = transformer(spec())
    initialisation.xavier(model)
    optimizer = optimisation.adamw(model, 2e-3)
    schedule = optimisation.linear(optimizer, steps // 10, steps)
    for step in range(steps):
        ids, tags = examples(step)
        loss = objectives.token_loss(model.encode(ids, torch.ones_like(ids))["logits"], tags)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"step {step + 1} of {steps}, loss {loss.item():.3f}", flush=True)
    checkpoints.save(model, folder / "checkpoint")
    txexport.export(folder / "checkpoint", folder / "bundle", force=True)
    report = txexport.verify(folder / "bundle")
    print(report.verdict, report.scope)
    ids, tags = examples(seed=steps)
    with txexport.load(folder / "bundle") as bundle:
        logits = bundle.run(input_ids=ids.numpy(), attention_mask=np.ones_like(ids))["logits"]
    right = float((logits.argmax(-1) == tags.numpy()).mean())
    usual = 1 - float(tags.float().mean())
    print(f"{right:.1%} of the characters of new texts are tagged right; with one tag for all, {usual:.1%}")
    return right


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "composed"))
