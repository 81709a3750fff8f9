"""A small ColQwen2 that has memorised which of two pictures a query is about."""

from pathlib import Path

import torch
import transformers
from PIL import Image

from helpers import page_families
from helpers.project import DATA, ROOT

PAGES = ROOT / "tests/data/street/street.png", DATA / "pages/page.png"
QUERIES = "a house and a tree", "a table of figures"
APART = 1.0  # a page's score above that of the other


def colqwen2(folder: Path) -> None:
    """Write a model that ranks the street first for the first query, the page for the second."""
    page_families.save(folder, "colqwen2")
    processor, model = page_families.processor_of(folder), page_families.network_of(folder)
    images = processor.process_images([Image.open(page).convert("RGB") for page in PAGES])
    queries = processor.process_queries(QUERIES)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(1000):
        vectors, pages = model(**queries).embeddings, model(**images).embeddings
        scores = torch.einsum("qnd,psd->qpns", vectors, pages).amax(3).sum(2)  # (Q, P)
        if (2 * scores.diag() - scores.sum(1)).min() > APART:
            break
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(scores, torch.arange(len(scores))).backward()
        optimizer.step()
    else:
        raise AssertionError(f"not learned: scores {scores}")
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
