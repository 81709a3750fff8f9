"""An image encoder, and a decoder of masks for prompts."""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.contracts.names import CORNERS, NO_POINT
from txexport.parts import check_outputs
from txexport.spec import Cache, MapNeckSpec, PromptableSpec
from txmodels.map_neck import MapNeck
from txmodels.mask_decoder import MaskDecoder
from txmodels.mask_prompt import MaskPrompt
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
        self.neck = MapNeck(spec.neck) if isinstance(spec.neck, MapNeckSpec) else Neck(spec.neck)
        self.frequencies = Frequencies(spec.frequencies)
        self.prompts = Prompts(2 * spec.frequencies)
        self.mask_prompt = None
        if spec.mask_prompt is not None:
            self.mask_prompt = MaskPrompt(spec.mask_prompt, 2 * spec.frequencies)
        self.decoder = MaskDecoder(spec.decoder)

    def images(self, pixel_values: Tensor) -> dict[str, Tensor]:
        """pixel_values (B,channels,height,width) -> vectors of places and positions (B,W,R,C), or maps."""
        layers = Given(maps={})
        self.vision(pixel_values, None, layers)
        assert layers.maps is not None
        if isinstance(self.neck, MapNeck):
            return dict(zip(names.IMAGE_MAPS, self.neck(*layers.maps.values()), strict=True))
        features = self.neck(layers.maps["0"])
        return {names.IMAGE_EMBEDDINGS: features, names.IMAGE_POSITIONS: self.positions(features)}

    def positions(self, features: Tensor) -> Tensor:
        """features (B,W,R,C) -> the vectors of their positions (B,W,R,C)."""
        centres = grid_coordinates(self.spec.grid).to(features)  # (R, C, 2)
        cells: Tensor = self.frequencies(centres)  # (R, C, W)
        return cells.permute(2, 0, 1).expand(features.shape[0], -1, -1, -1)

    def masks(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Places of an image, and input_points (B,P,N,2) in pixels with input_labels (B,P,N).

        Beside several maps, boxes (B,P,4), or none, (B,0,4), follow the points. There may be input_masks
        (B,Q,4R,4C), one for all groups or each, and has_input_masks (B,Q), which tells where one is read.
        -> iou_scores (B,P,M), pred_masks (B,P,M,4R,4C) of all masks, and object_score_logits (B,P,1).
        """
        points, labels = inputs[names.INPUT_POINTS], inputs[names.INPUT_LABELS]
        if self.spec.decoder.object_score:
            points, labels = with_boxes(points, labels, inputs[names.INPUT_BOXES])
        _, height, width = self.spec.vision.embedding.shape
        coordinates = (points + 0.5) / points.new_tensor([width, height])
        prompts = self.prompts(self.frequencies(coordinates), labels)
        maps: dict[str, Tensor] = {}
        if self.spec.decoder.object_score:
            finest, finer, features = (inputs[name] for name in names.IMAGE_MAPS)
            positions, maps = self.positions(features), {"finer": finer, "finest": finest}
        else:
            features, positions = inputs[names.IMAGE_EMBEDDINGS], inputs[names.IMAGE_POSITIONS]
        if self.mask_prompt is not None and names.INPUT_MASKS in inputs:
            dense = self.mask_prompt(inputs[names.INPUT_MASKS])
            maps |= {"dense": dense, "has_masks": inputs[names.HAS_MASKS]}
        masks, scores, *objects = self.decoder(features, positions, prompts, **maps)
        result = {names.IOU_SCORES: scores, names.PRED_MASKS: masks}
        return result | dict(zip((names.OBJECT_SCORES,), objects, strict=False))

    def prompted(
        self,
        pixel_values: Tensor,
        input_points: Tensor,
        input_labels: Tensor,
        input_boxes: Tensor | None = None,
        input_masks: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Images, points with labels, boxes (B,P,4) and masks (B,P,4R,4C) or None -> both graphs' outputs."""
        inputs = self.images(pixel_values)
        image = dict(inputs)
        if input_masks is not None:
            inputs |= {
                names.INPUT_MASKS: input_masks,
                names.HAS_MASKS: input_labels.new_ones(*input_masks.shape[:2]),
            }
        if not self.spec.decoder.object_score:
            return image | self.masks(inputs | _all_points(input_points, input_labels, input_boxes))
        boxes = input_points.new_zeros(len(input_points), 0, 4) if input_boxes is None else input_boxes
        points = {names.INPUT_POINTS: input_points, names.INPUT_LABELS: input_labels}
        return image | self.masks(inputs | points | {names.INPUT_BOXES: boxes})


def grid_coordinates(grid: tuple[int, int]) -> Tensor:
    """Rows and columns -> the centres (R,C,2) of places, x and y from 0 to 1."""
    rows, columns = (((torch.arange(count) + 0.5) / count) for count in grid)
    coordinates = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), dim=-1)
    return coordinates


def with_boxes(points: Tensor, labels: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Points and labels, with the corners of boxes, and a last point that is none.

    points (B,P,N,2), or (B,1,0,2), labels (B,P,N), boxes (B,P,4) or (B,0,4) -> (B,P,T,2), (B,P,T).
    """
    count, groups = labels.shape[:2]
    corners = 2 * min(boxes.shape[1], 1)
    placed = points.expand(count, groups, -1, -1)
    zeros = points.new_zeros(count, groups, 1, 2)
    marks = torch.tensor([*CORNERS, NO_POINT], device=labels.device)[2 - corners :]
    together = torch.cat([placed, boxes.reshape(count, groups, corners, 2), zeros], dim=2)
    return together, torch.cat([labels, marks.expand(count, groups, -1).to(labels)], dim=2)


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
