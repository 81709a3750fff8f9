"""A small LayoutLMv3 that has memorised the labels of a receipt's words."""

from pathlib import Path

import torch
import transformers
from PIL import Image

from helpers import document_families
from helpers.project import DATA

PAGE = DATA / "pages/page.png"
LABELS = ["O", "B-QUESTION", "B-ANSWER", "I-ANSWER"]
RECEIPT = {
    "Date:": ((80, 50, 160, 70), 1),
    "21": ((400, 50, 430, 70), 2),
    "May": ((440, 50, 490, 70), 3),
    "Total:": ((80, 900, 170, 920), 1),
    "3.50": ((400, 900, 450, 920), 2),
    "thanks": ((300, 960, 390, 980), 0),
}


def layoutlmv3(folder: Path) -> None:
    """Write a model that labels the words of RECEIPT, on the image PAGE."""
    names = dict(enumerate(LABELS))
    document_families.save(
        folder, "layoutlmv3", id2label=names, label2id={name: number for number, name in names.items()}
    )
    reader = transformers.AutoTokenizer.from_pretrained(folder)
    images = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil", apply_ocr=False)
    model = transformers.LayoutLMv3ForTokenClassification.from_pretrained(folder)
    boxes, labels = zip(*RECEIPT.values(), strict=True)
    inputs = reader([*RECEIPT], boxes=[*map(list, boxes)], word_labels=[*labels], return_tensors="pt")
    inputs |= images(Image.open(PAGE).convert("RGB"), return_tensors="pt")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(1000):
        loss = model(**inputs).loss
        if loss < 0.002:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    else:
        raise AssertionError(f"not learned: a loss of {loss:.3f}")
    model.save_pretrained(folder)
