"""Objects in images that the phrases of one text describe (Liu et al. 2023)."""

from collections.abc import Collection

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.parts import check_outputs
from txexport.spec import Cache, GroundedSpec
from txmodels.encoder_stack import Encoder
from txmodels.grounded_layer import GroundedLayer, ObjectLayer
from txmodels.grounded_stack import (
    SIDE,
    BoxMove,
    FirstBoxes,
    LevelPositions,
    MapLevel,
    place_boxes,
    place_points,
    token_scores,
)
from txmodels.linear import Linear
from txmodels.mask import padding_mask
from txmodels.norm import Norm
from txmodels.phrases import number_sines, phrases
from txmodels.query_stack import resized_mask, sine_positions
from txmodels.stack import Given
from txmodels.staged_stack import StagedEncoder, flat_grid


class GroundedModel(nn.Module):
    """A text and an image that read one another, and queries that become boxes."""

    def __init__(self, spec: GroundedSpec, cache: Cache, outputs: Collection[str] = ()):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec, self.outputs, width = spec, frozenset(outputs), spec.hidden_size
        self.text, self.vision = Encoder(spec.text), StagedEncoder(spec.vision)
        self.text_projection = Linear(spec.text.hidden_size, width)
        sizes = spec.map_sizes
        read = [*sizes, *sizes[-1:], *[width] * spec.levels][: spec.levels]
        self.maps = nn.ModuleList(
            MapLevel(size, spec.map_norm, level >= len(sizes)) for level, size in enumerate(read)
        )
        self.level_embed = nn.Embedding(spec.levels, width)
        self.layers = nn.ModuleList(GroundedLayer(spec) for _ in range(spec.cells.num_layers))
        self.first_boxes = FirstBoxes(spec)
        self.queries = nn.Embedding(spec.queries, width)
        self.query_position = LevelPositions(width)
        self.query_layers = nn.ModuleList(ObjectLayer(spec) for _ in range(spec.objects.num_layers))
        moves = 1 if spec.shared_boxes else spec.objects.num_layers
        self.boxes = nn.ModuleList(BoxMove(width, spec.box_layers) for _ in range(moves))
        self.query_norm = Norm(spec.norm)

    def described(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        pixel_values: Tensor,
        pixel_mask: Tensor,
        token_type_ids: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Texts (B,S), pixels (B,channels,height,width), pixel_mask (B,h,w) -> logits and boxes."""
        spec, tokens = self.spec, attention_mask.bool()
        mask, order = phrases(spec.separators, input_ids)  # (B, 1, S, S), (B, S)
        x = self.text.embedding(input_ids, order, token_type_ids, attention_mask)  # (B, S, text's width)
        for layer in self.text.layers:
            (x,) = layer(x, mask=mask, cos=None, sin=None)
        text = self.text_projection(x)  # (B, S, W)
        sines = number_sines(spec.hidden_size, order[:, :, None].to(text))  # (B, S, W)
        maps = self.levels(pixel_values)
        real = [resized_mask(pixel_mask, x) for x in maps]  # (B, R, C)
        positions = torch.cat(
            [
                sine_positions(spec.hidden_size, one, spec.temperature).to(text) + level
                for one, level in zip(real, self.level_embed.weight, strict=True)
            ],
            dim=1,
        )  # (B, P, W)
        sizes = {str(level): torch.tensor(x.shape[1:3], device="cpu") for level, x in enumerate(maps)}
        image = torch.cat([flat_grid(x) for x in maps], dim=1)  # (B, P, W)
        points, shares = zip(*(place_points(one, text) for one in real), strict=True)
        share = torch.cat(shares, dim=1)  # (B, L, 2)
        references = torch.cat(points, dim=1)[:, :, None] * share[:, None]  # (B, P, L, 2)
        real_places = torch.cat([one.flatten(1) for one in real], dim=1)  # (B, P)
        for layer in self.layers:
            image, text = layer(image, text, positions, sines, references, sizes, real_places, tokens, mask)
        anchors, inside = zip(
            *(
                place_boxes(point, one.flatten(1), torch.tensor(SIDE * 2**level))
                for level, (point, one) in enumerate(zip(points, real, strict=True))
            ),
            strict=True,
        )
        boxes = self.first_boxes(image, text, torch.cat(anchors, dim=1), torch.cat(inside, dim=1), tokens)
        y = self.queries.weight.expand(len(image), -1, -1)  # (B, Q, W)
        four, seen = torch.cat([share, share], dim=2)[:, None], padding_mask(attention_mask, y)
        for number, layer in enumerate(self.query_layers):
            near = boxes[:, :, None] * four  # (B, Q, L, 4)
            y = layer(y, self.query_position(near), near, image, text, sizes, real_places, seen)
            if number < len(self.query_layers) - 1:
                boxes = self.boxes[0 if spec.shared_boxes else number](y, boxes)
        normed = self.query_norm(y)
        logits = token_scores(spec.text_length, normed, text, tokens)
        return {names.LOGITS: logits, names.PRED_BOXES: self.boxes[-1](normed, boxes)}

    def levels(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B,channels,height,width) -> maps (B,R,C,W), the finest first."""
        states = Given(maps={})
        self.vision(pixel_values, None, states)
        assert states.maps is not None
        stages = zip(states.maps.values(), self.spec.vision.stages, strict=True)
        read = [x for x, stage in stages if stage.map_norm is not None]
        maps: list[Tensor] = []
        for level, part in enumerate(self.maps):
            source = read[min(level, len(read) - 1)] if level <= len(read) else maps[-1]
            maps.append(part(source))
        return maps
