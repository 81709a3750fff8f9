"""Pictures of images with what a model found in them."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from txexport.cli.answers import Answered
from txexport.cli.options import refuse_input
from txexport.errors import InputError, first_line
from txexport.support.replaced import replaced

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")


def drawings(
    windows: Iterator[list[Answered]],
    target: Path,
    texts: Sequence[str],
    file: Path | None,
    draw: Callable[[Any, Any], Any],
) -> Iterator[list[Answered]]:
    """The windows of answers; `draw` makes a PIL image of each image and its answer before it is shown.

    The images are `texts`, or lines of `file`. A single one is drawn to the file `target`, several, or one if
    `target` is a folder, to PNG files of their names in it; of two images with one name, the second gets a
    number. Raises InputError for a file that cannot be written, UsageError for one that is an image that is
    read, or for a folder named as an image.
    """
    single = file is None and len(texts) == 1 and not target.is_dir()
    if not single and target.suffix.lower() in PICTURES and not target.is_dir():
        raise click.UsageError(f"several images are drawn into a folder; --draw {target} looks like a file")
    written: set[str] = set()
    for window in windows:
        for one, answer in window:
            if isinstance(answer, Exception):
                continue
            picture = target if single else target / _free(Path(str(one.value)).stem, written)
            refuse_input("--draw", picture, [*texts, one.value])
            try:
                with replaced(picture) as stream:
                    draw(one.value, answer).save(stream)  # in the format of its name
            except ValueError as error:  # Pillow knows no such suffix
                known = f"expected {', '.join(PICTURES)} or another that Pillow writes"
                raise InputError(f"{picture} cannot be written: {first_line(error)}; {known}") from None
            except OSError as error:  # of a full disk, or a folder that is none
                raise InputError(f"{picture} cannot be written: {first_line(error)}") from None
        yield window


def with_boxes(source: Any, objects: Any) -> Any:
    """The image of a file with the boxes of its objects."""
    from txexport.runtime.drawn_boxes import drawn
    from txexport.runtime.preprocessing.opened_images import opened

    return drawn(opened(source), objects)


def with_depths(source: Any, answer: Any) -> Any:
    """The depths of an image, the greater the brighter."""
    from txexport.runtime.drawn_depth import shaded

    return shaded(answer["depth"])


def with_poses(folder: Path) -> Callable[[Any, Any], Any]:
    """A function that draws poses in the image of a file, by the edges and labels of a bundle's config."""
    from txexport.bundle import read_json
    from txexport.runtime.drawn_pose import drawn, skeleton
    from txexport.runtime.preprocessing.opened_images import opened

    edges, labels = skeleton(read_json(folder / "config.json", missing={}))
    return lambda source, poses: drawn(opened(source), poses, edges, labels)


def with_segments(source: Any, segments: Any) -> Any:
    """The image of a file with its parts in colours."""
    from txexport.runtime.drawn_segments import coloured
    from txexport.runtime.preprocessing.opened_images import opened

    return coloured(opened(source), segments)


def with_mask(source: Any, masks: Any) -> Any:
    """The image of a file with the likeliest mask in colour."""
    from txexport.runtime.drawn_segments import painted
    from txexport.runtime.preprocessing.opened_images import opened

    return painted(opened(source), [masks[0]["mask"]])


def with_masks(source: Any, masks: Any) -> Any:
    """The image of a file with each mask in a colour, the smallest in front."""
    from txexport.runtime.drawn_segments import painted
    from txexport.runtime.preprocessing.opened_images import opened

    return painted(opened(source), sorted((one["mask"] for one in masks), key=lambda mask: -mask.sum()))


def _free(stem: str, written: set[str]) -> str:
    """The name of a PNG file that is not in `written`, which it joins."""
    name, number = f"{stem}.png", 1
    while name in written:
        number += 1
        name = f"{stem}-{number}.png"
    written.add(name)
    return name
