"""A small LLaVA that has memorised what is in a drawn street."""

from pathlib import Path

import torch
import transformers
from PIL import Image

from helpers import pictured
from helpers.project import ROOT

STREET = ROOT / "tests/data/street/street.png"
QUESTION = "What is in the image?"
ANSWERS = {"street": "A house, a tree and a car.", "grey": "Nothing but grey."}


def llava(folder: Path) -> None:
    """Write a model that answers QUESTION about the street, and about a grey image."""
    pictured.save(folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    model = transformers.LlavaForConditionalGeneration.from_pretrained(folder)
    images = {"street": Image.open(STREET).convert("RGB"), "grey": Image.new("RGB", (40, 30), "grey")}
    messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": QUESTION}]}]
    question = processor.apply_chat_template(messages, add_generation_prompt=True)
    end = processor.tokenizer.eos_token
    batches = []
    for name, image in images.items():
        first = processor(images=image, text=question, return_tensors="pt").input_ids.shape[1]
        inputs = processor(images=image, text=f"{question}{ANSWERS[name]}{end}", return_tensors="pt")
        labels = inputs.input_ids.clone()
        labels[:, :first] = -100  # no prediction is required there
        batches.append(inputs | {"labels": labels})
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(1000):
        losses = [model(**inputs).loss for inputs in batches]
        if max(losses) < 0.01:
            break
        optimizer.zero_grad()
        sum(losses).backward()
        optimizer.step()
    else:
        raise AssertionError(f"not learned: losses of {losses}")
    model.generation_config.update(max_new_tokens=40, eos_token_id=processor.tokenizer.eos_token_id)
    model.save_pretrained(folder)
