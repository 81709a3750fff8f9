"""The pages that tools/train draws: reproducible, labelled where the ink is, in the fonts that they name."""

import _pages
import _receipts
import _typesetting
import click
import numpy as np
import pytest
from helpers.fonts import fonts
from PIL import ImageFont


def test_typefaces_of_the_scores_are_in_no_training_page():
    folder = fonts()
    seen, unseen = (
        {ImageFont.truetype(path).getname()[0] for pair in _pages.files(faces, folder) for path in pair}
        for faces in (_typesetting.SEEN, _typesetting.UNSEEN)
    )
    assert min(len(seen), len(unseen)) >= 5
    assert not seen & unseen


def test_a_page_is_the_same_at_each_call_and_its_boxes_hold_its_ink():
    faces = _pages.files(_typesetting.SEEN, fonts())
    for number in range(20):
        one, again = (_pages.page(np.random.default_rng([7, number]), faces, scanned=False) for _ in range(2))
        assert one.picture.tobytes() == again.picture.tobytes()
        picture = np.asarray(one.picture).astype(int)
        ink = np.abs(picture - picture[0, 0]).sum(-1) > 30
        outside, areas = ink.copy(), np.asarray(one.areas)
        for label, box in zip(one.labels, one.boxes.round().astype(int), strict=True):
            left, top, right, bottom = box
            assert ink[top:bottom, left:right].mean() > 0.01, (number, label)
            area = areas[top:bottom, left:right] == _pages.LABELS.index(label) + 1
            assert (area & ink[top:bottom, left:right]).sum() > 0.9 * ink[top:bottom, left:right].sum()
            outside[max(top - 2, 0) : bottom + 2, max(left - 2, 0) : right + 2] = False
        assert outside.mean() < 0.003, number  # page numbers, running titles and rules


def test_fonts_that_are_missing_are_named_with_their_package(tmp_path):
    with pytest.raises(click.ClickException, match="apt-get install fonts-dejavu-core"):
        _pages.files(_typesetting.SEEN, tmp_path)


def test_letters_of_a_receipt_are_where_its_ink_is():
    """Those of the total are the last of the receipt."""
    faces = _pages.files(_typesetting.SEEN, fonts())
    for number in range(20):
        drawings = [
            _receipts.draw(np.random.default_rng([7, number]), faces, kind) for kind in _receipts.KINDS
        ]
        for drawing in drawings:
            pixels = np.asarray(drawing.picture).astype(int)
            assert not pixels.shape[0] % _receipts.SQUARE
            assert not pixels.shape[1] % _receipts.SQUARE
            ink = np.abs(pixels - np.median(pixels, axis=(0, 1))).sum(-1)
            for answer in drawing.answers:
                assert len(answer.text) == len(answer.letters)
                inside = [
                    ink[int(y) - 7 : int(y) + 8, int(x - width / 2) : int(x + width / 2) + 1].max()
                    for letter, (x, y, width) in zip(answer.text, answer.letters, strict=True)
                    if letter.isalnum()
                ]
                assert min(inside) > 0.3 * ink.max(), (number, answer)
        everything, total = drawings[-1].answers[:2]
        assert everything.text.endswith(f" {total.text}")
        np.testing.assert_array_equal(everything.letters[-len(total.text) :], total.letters)
