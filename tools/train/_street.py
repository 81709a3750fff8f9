"""A drawn street with a house, a tree and a car, and what is to be seen in it, pixel by pixel."""

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

WIDTH, HEIGHT = 640, 480
FINER = 3  # the street is drawn this much larger, for smooth edges
LABELS = ("sky", "grass", "road", "house", "tree", "car")
OBJECTS = ("house", "tree", "car")


@dataclass(frozen=True)
class Scene:
    """The picture; each pixel's label as a number (H,W), and its distance of 0 to 1 (H,W); parts of objects.

    A part is the object's label and a mask (H,W).
    """

    picture: Image.Image
    labels: np.ndarray
    distance: np.ndarray
    parts: list[tuple[str, np.ndarray]]

    def mask(self, label: str) -> np.ndarray:
        """The pixels (H,W) of a label."""
        return self.labels == LABELS.index(label)

    def box(self, label: str) -> tuple[int, int, int, int]:
        """The left, upper, right and lower edge of a label's pixels."""
        rows, columns = (np.flatnonzero(self.mask(label).any(axis)) for axis in (1, 0))
        return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


# Shape, points in pixels, colour; each with the label that its pixels get, or the name of a part.
SHAPES = (
    ("polygon", [(0, 300), (640, 270), (640, 480), (0, 480)], "#6f9a4c", "grass"),
    ("polygon", [(0, 392), (640, 372), (640, 452), (0, 474)], "#77777c", "road"),
    ("polygon", [(70, 196), (250, 196), (250, 345), (70, 345)], "#d9b38c", "house"),
    ("polygon", [(50, 200), (160, 108), (270, 200)], "#9c4a3c", "house"),
    ("polygon", [(138, 262), (182, 262), (182, 345), (138, 345)], "#5a3b28", "house, door"),
    ("polygon", [(88, 222), (124, 222), (124, 256), (88, 256)], "#8fc1e3", "house, window"),
    ("polygon", [(198, 222), (234, 222), (234, 256), (198, 256)], "#8fc1e3", "house"),
    ("polygon", [(476, 230), (500, 230), (504, 358), (472, 358)], "#6b4a2f", "tree"),
    ("ellipse", [(408, 92), (568, 262)], "#3f7a3a", "tree"),
    ("ellipse", [(384, 150), (500, 260)], "#4a8842", "tree"),
    ("polygon", [(292, 402), (318, 362), (398, 362), (428, 402)], "#b3202a", "car"),
    ("polygon", [(312, 400), (328, 372), (354, 372), (354, 400)], "#bfe0ef", "car"),
    ("polygon", [(362, 400), (362, 372), (390, 372), (410, 400)], "#bfe0ef", "car"),
    ("polygon", [(262, 400), (456, 400), (460, 430), (260, 430)], "#c8242f", "car"),
    ("ellipse", [(284, 412), (324, 452)], "#26262a", "car, wheel"),
    ("ellipse", [(396, 412), (436, 452)], "#26262a", "car"),
)
DISTANCES = {"sky": 1.0, "house": 0.45, "tree": 0.3, "car": 0.12}


def street() -> Scene:
    """The street, equal at each call."""
    size = WIDTH * FINER, HEIGHT * FINER
    rows = np.linspace(0, 1, size[1])[:, None, None]
    sky = np.array([120, 170, 225]) * (1 - rows) + np.array([225, 235, 245]) * rows
    picture = Image.fromarray(np.broadcast_to(sky, (size[1], size[0], 3)).astype(np.uint8))
    labels = np.zeros((HEIGHT, WIDTH), np.uint8)
    parts = []
    for shape, points, colour, name in SHAPES:
        getattr(ImageDraw.Draw(picture), shape)([(x * FINER, y * FINER) for x, y in points], fill=colour)
        stencil = Image.new("1", (WIDTH, HEIGHT))
        getattr(ImageDraw.Draw(stencil), shape)(points, fill=1)
        label, _, part = name.partition(", ")
        labels[np.asarray(stencil)] = LABELS.index(label)
        if part:
            parts.append((label, np.asarray(stencil)))
    picture = picture.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    depth = np.linspace(1.6, 0.0, HEIGHT)[:, None].clip(0, 0.9) * np.ones((1, WIDTH))
    for label, distance in DISTANCES.items():
        depth[labels == LABELS.index(label)] = distance
    return Scene(picture, labels, depth, parts)
