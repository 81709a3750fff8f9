"""An image encoder, and a decoder of masks for prompts."""

from collections.abc import Collection

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.contracts.names import CORNERS, NO_POINT
from txexport.parts import check_outputs
from txexport.spec import Cache, PromptableSpec
from txmodels.mask_decoder import MaskDecoder
from txmodels.neck import Neck
from txmodels.prompts import Frequencies, Prompts
from txmodels.stack import Given
from txmodels.staged_stack import StagedEncoder


class PromptableModel(nn.Module):
    """An encoder of images, and a decoder of masks for prompts (Kirillov et al. 2023, 3)."""

    def __init__(self, spec: PromptableSpec, cache: Cache, outputs: Collection[str] = ()):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec = spec
        self.vision = StagedEncoder(spec.vision)
        self.neck = Neck(spec.neck)
        self.frequencies = Frequencies(spec.frequencies)
        self.prompts = Prompts(2 * spec.frequencies)
        self.decoder = MaskDecoder(spec.decoder)

    def images(self, pixel_values: Tensor) -> dict[str, Tensor]:
        """pixel_values (B,channels,height,width) -> the vectors of places and of positions (B,W,R,C)."""
        layers = Given(maps={})
        self.vision(pixel_values, None, layers)
        assert layers.maps is not None
        centres = grid_coordinates(self.spec.vision.embedding.grid).to(pixel_values)  # (R, C, 2)
        cells = self.frequencies(centres)  # (R, C, W)
        positions = cells.permute(2, 0, 1).expand(pixel_values.shape[0], -1, -1, -1)
        return {names.IMAGE_EMBEDDINGS: self.neck(layers.maps["0"]), names.IMAGE_POSITIONS: positions}

    def masks(
        self,
        image_embeddings: Tensor,
        image_positional_embeddings: Tensor,
        input_points: Tensor,
        input_labels: Tensor,
    ) -> dict[str, Tensor]:
        """Places of an image, and input_points (B,P,N,2) in pixels with input_labels (B,P,N).

        -> iou_scores (B,P,M), pred_masks (B,P,M,4R,4C) of all masks.
        """
        _, height, width = self.spec.vision.embedding.shape
        coordinates = (input_points + 0.5) / input_points.new_tensor([width, height])
        prompts = self.prompts(self.frequencies(coordinates), input_labels)
        masks, scores = self.decoder(image_embeddings, image_positional_embeddings, prompts)
        return {names.IOU_SCORES: scores, names.PRED_MASKS: masks}

    def prompted(
        self,
        pixel_values: Tensor,
        input_points: Tensor,
        input_labels: Tensor,
        input_boxes: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Images, points with labels, and boxes (B,P,4) or None -> the outputs of both graphs."""
        image = self.images(pixel_values)
        return image | self.masks(**image, **_all_points(input_points, input_labels, input_boxes))


def grid_coordinates(grid: tuple[int, int]) -> Tensor:
    """Rows and columns -> the centres (R,C,2) of places, x and y from 0 to 1."""
    rows, columns = (((torch.arange(count) + 0.5) / count) for count in grid)
    coordinates = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), dim=-1)
    return coordinates


def _all_points(input_points: Tensor, input_labels: Tensor, input_boxes: Tensor | None) -> dict[str, Tensor]:
    """The points and labels of prompts, with the corners of boxes (B,P,4), or with one that is none."""
    shape = input_labels.shape[:2]
    if input_boxes is None:
        more, labels = input_points.new_zeros(*shape, 1, 2), [NO_POINT]
    else:
        more, labels = input_boxes.unflatten(2, (2, 2)), [*CORNERS]
    marks = torch.tensor(labels, device=input_labels.device).expand(*shape, -1).to(input_labels)
    return {
        names.INPUT_POINTS: torch.cat([input_points, more], dim=2),
        names.INPUT_LABELS: torch.cat([input_labels, marks], dim=2),
    }
