"""Decoders: stacks that read new tokens over a cache of past ones."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import BlockSpec, Cache, TextStackSpec, TimeMixSpec
from txmodels.block import DecoderBlock, HybridBlock, SharedBlock, StatefulBlock
from txmodels.group_mask import grouped_cache_mask, grouped_causal_mask, image_groups, prefix_groups
from txmodels.joined_block import JoinedBlock
from txmodels.layer_inputs import LayerInputs
from txmodels.mask import (
    cache_mask,
    causal_mask,
    filled_then,
    near_slots,
    padding_mask,
    single_token,
)
from txmodels.mixing_block import MixingBlock
from txmodels.new_tokens import new_tokens
from txmodels.position import asked_positions, positions
from txmodels.source_block import SourceBlock
from txmodels.stack import Given, Masks, Stack, Values, layer_context
from txmodels.streams import ExpandedStreams, MergedStreams

KeyValues = list[tuple[Tensor, ...]]  # keys and values of each layer, and its states


class Decoder(Stack):
    """A stack that reads new tokens over a cache of past ones."""

    def __init__(
        self, spec: TextStackSpec, cache: Cache, weighted: bool = False, mutual_id: int | None = None
    ):
        super().__init__(spec, (_block(block, cache, weighted) for block in spec.layers))
        if spec.layer_inputs is not None:
            self.layer_inputs = LayerInputs(spec.layer_inputs, spec.hidden_size, spec.num_layers)
        self.expand: nn.Module = nn.Identity()
        self.merge: nn.Module = nn.Identity()
        if spec.streams is not None:
            self.expand = ExpandedStreams(spec.streams, spec.hidden_size)
            self.merge = MergedStreams(spec.streams, spec.hidden_size)
        self.static, self.weighted, self.mutual_id = cache == Cache.STATIC, weighted, mutual_id

    def forward(
        self,
        input_ids: Tensor,
        past: KeyValues,
        *,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        source: tuple[Tensor | None, KeyValues] | None = None,
        given: Given | None = None,
        logits_indices: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        images: Mapping[int, Values] | None = None,
        **lengths: Tensor | None,
    ) -> tuple[Tensor, KeyValues]:
        """input_ids (B,S), past (B,K,P,H) a layer -> last_hidden_state (B,S,W), present (B,K,T,H) a layer.

        A layer with states has these in place of keys and values, or after them. They need new_lengths (B)
        over a static cache, or the mask of a dynamic one.

        With inputs_embeds (B,S,W), these stand in place of the embedding of the ids, positions included, and
        the ids tell the size alone; what comes behind the W numbers, W each, is added to the outputs of the
        first layers. A static cache takes cache_lengths (B), and position_ids (B,S), or (3,B,S) on axes,
        where positions are not those of the slots. A dynamic one takes attention_mask (B,P+S) and
        position_ids (B,S), or neither where every row is as long as the cache. An encoder is a `source`:
        its mask (B,E), or None, and its keys and values (B,K,E,H) a layer. `given` is filled with what
        layers give. With logits_indices (B,L), over a static cache, the last layer writes the keys and
        values of all tokens, and computes the rest for those indices only: last_hidden_state is (B,L,W).
        Adjacent new tokens of the id `mutual_id` attend to each other, and so do the first prefix_lengths (B)
        tokens of a row, which are read in one step. `images` has the inputs of each layer that attends to
        images, by its number.
        """
        given, groups = given or Given(), None
        cache_lengths, prefix_lengths = map(lengths.get, (names.CACHE_LENGTHS, names.PREFIX_LENGTHS))
        if self.mutual_id is not None:
            groups = image_groups(self.mutual_id, input_ids)  # (B, S)
        placed: tuple[Tensor | None, list[Masks]] = None, no_masks(self.spec)
        slots = keys_of(self.spec, past) if self.spec.has_keys else None
        if slots is not None and self.static:
            assert cache_lengths is not None
            placed = self._over_slots(
                input_ids, slots, cache_lengths, logits_indices, position_ids, groups, prefix_lengths
            )
        elif slots is not None:
            placed = self._over_past(input_ids, slots, attention_mask, position_ids, groups, prefix_lengths)
        places, masks = placed
        source_mask, cross = (None, None) if source is None else source
        cross_mask = None if source_mask is None else padding_mask(source_mask, input_ids)  # (B, 1, S, E)
        rotations = {} if places is None else self.rotary_context(places, short=self.static)
        deep: list[Tensor] = []
        if inputs_embeds is None:
            x = self.embedding(input_ids, places, None, None)  # (B, S, W)
        else:
            x, *deep = inputs_embeds.split(self.spec.hidden_size, dim=2)
        vectors = None if self.spec.layer_inputs is None else self.layer_inputs(input_ids, x)
        embedded, x = x, self.expand(x)  # (B, S, W), or (B, S, A, W)
        new: dict[str, Tensor] = {}
        if self.spec.stateful:
            counted = attention_mask, lengths.get(names.NEW_LENGTHS), cache_lengths
            new = new_tokens(self.spec, x.dtype, input_ids, slots, *counted)
        present: KeyValues = []
        single, filled = single_token(input_ids), None
        grouped = groups is not None or prefix_lengths is not None
        if cache_lengths is not None and not self.weighted and not grouped:
            filled = filled_then(input_ids, cache_lengths)
        by_window = not (self.weighted or grouped or self.spec.relative is not None)
        for i, (block, layer) in enumerate(zip(self.spec.layers, self.layers, strict=True)):
            context = layer_context(block, {}, masks[i], rotations, {})
            if logits_indices is not None and i == self.spec.num_layers - 1:
                context[names.LOGITS_INDICES] = logits_indices
            if images is not None and block.crosses:
                given.hidden(x)
                x = layer(x, **images[i], logits_indices=context.get(names.LOGITS_INDICES))
                present.append(())
                continue
            if not block.attends:
                given.hidden(x)
                states = dict(zip(block.states, past[i], strict=True))
                x, *states = layer(x, **_read(block, new), **states, **context)
                present.append(tuple(states))
                continue
            if filled is not None and names.LOGITS_INDICES not in context:
                if block.masked.shares_keys:
                    context["single"] = single
                if block.masked.maskless_static:
                    context |= {"mask": None, "filled": filled}
            bounds: Values = {}
            if (
                by_window
                and cache_lengths is not None
                and slots is not None
                and block.masked.window is not None
            ):
                new_slots = positions(input_ids, cache_lengths)
                values = near_slots(block.masked.window, new_slots, slots)
                bounds = dict(zip(("first", "end", "few"), values, strict=True))
            if vectors is not None:
                context["layer_input"] = vectors[:, :, i]
            if block.joins_embedding:
                context["embedded"] = embedded
            if block.shared_layer is not None:
                k, v, *_ = present[block.shared_layer]
                given.hidden(x)
                x, *weights = layer(x, k=k, v=v, **context, **bounds)
                given.weights(*weights)
                present.append(())
                continue
            past_k, past_v, *held = past[i]
            context |= {"past_k": past_k, "past_v": past_v}
            second = None if cross is None else _source(cross_mask, *cross[i])
            if held:
                second = {**_read(block, new), **dict(zip(block.states, held, strict=True))}
            given.hidden(x)
            x, *rest = layer(x, second, cache_lengths=cache_lengths, **context, **bounds)
            x = x + deep[i] if i < len(deep) else x
            given.weights(*rest[len(past[i]) :])
            present.append(tuple(rest[: len(past[i])]))
        x = self.merge(x)  # (B, S, W)
        y: Tensor = self.final_norm(x)
        given.last(x, y)
        return y, present

    def _over_slots(
        self,
        input_ids: Tensor,
        past_k: Tensor,
        cache_lengths: Tensor,
        logits_indices: Tensor | None,
        position_ids: Tensor | None,
        groups: Tensor | None,
        prefix_lengths: Tensor | None,
    ) -> tuple[Tensor, list[Masks]]:
        """Positions of new tokens (B,S), and of each layer by window the mask over its slots (B,1,S,C).

        With logits_indices (B,L) the last layer's is (B,1,L,C).
        """
        slots = positions(input_ids, cache_lengths)  # (B, S)
        places = slots if position_ids is None else position_ids
        bounded = prefix_lengths is None
        if prefix_lengths is not None:
            groups = prefix_groups(slots, prefix_lengths)  # (B, S)
        together = () if groups is None else (groups, groups, cache_lengths)
        masks = self._slot_masks(slots, past_k, bounded, *together)
        if logits_indices is not None:
            scored = asked_positions(logits_indices, cache_lengths)
            if groups is not None:
                together = groups.gather(1, logits_indices), groups, cache_lengths
            masks[-1] = self._slot_masks(scored, past_k, bounded, *together)[-1]
        return places, masks

    def _slot_masks(self, places: Tensor, past_k: Tensor, bounded: bool, *together: Tensor) -> list[Masks]:
        """Of each layer by window the mask (B,1,S,C) of queries at `places` (B,S).

        With groups, `together` are those of the queries, of the new tokens, and the latter's first slots;
        windows limit them if they are `bounded`.
        """
        slots = torch.arange(past_k.shape[2], device=places.device)[None]  # (1, C)
        masks: Masks = {}
        for reach in {attention.reach for attention in self.masked_attentions()}:
            if together:
                masks[reach] = grouped_cache_mask(reach.window, bounded, places, past_k, *together)
            else:
                masks[reach] = cache_mask(reach, places, past_k)
        return self.biased_masks(masks, places, slots)

    def _over_past(
        self,
        input_ids: Tensor,
        past_k: Tensor,
        attention_mask: Tensor | None,
        position_ids: Tensor | None,
        groups: Tensor | None,
        prefix_lengths: Tensor | None,
    ) -> tuple[Tensor, list[Masks]]:
        """Positions of new tokens (B,S), and of each layer by window the mask over all of them (B,1,S,T)."""
        length = past_k.shape[2]  # P
        if attention_mask is None:
            attention_mask = input_ids.new_ones(input_ids.shape[0], length + input_ids.shape[1])
        order = attention_mask.cumsum(1) - 1  # (B, T): padding between tokens is no distance
        if position_ids is None:
            position_ids = order[:, length:].clamp(min=0)
        if prefix_lengths is not None:
            groups = prefix_groups(order[:, length:], prefix_lengths)  # (B, S)
        masks: Masks = {}
        for reach in {attention.reach for attention in self.masked_attentions()}:
            if groups is None:
                masks[reach] = causal_mask(reach, attention_mask, input_ids, order)  # (B, 1, S, T)
            else:
                masks[reach] = grouped_causal_mask(
                    reach.window, prefix_lengths is None, attention_mask, order, groups
                )
        return position_ids, self.biased_masks(masks, position_ids, order)


def _block(spec: BlockSpec, cache: Cache, weighted: bool) -> nn.Module:
    """The layer of a spec."""
    if spec.crosses:
        return SourceBlock(spec)
    if not spec.attends:
        return (MixingBlock if isinstance(spec.attention, TimeMixSpec) else StatefulBlock)(spec)
    if spec.shared_layer is not None:
        return SharedBlock(spec, cache, weighted)
    if spec.joins_embedding:
        return JoinedBlock(spec, cache, weighted)
    return (DecoderBlock if spec.beside is None else HybridBlock)(spec, cache, weighted)


def no_masks(spec: TextStackSpec) -> list[Masks]:
    """The masks of a stack without attention: none in any layer."""
    return [{}] * spec.num_layers


def keys_of(spec: TextStackSpec, past: KeyValues) -> Tensor:
    """The keys (B,K,P,H) of the first layer that has them."""
    return next(one[0] for block, one in zip(spec.layers, past, strict=True) if block.has_keys)


def _read(block: BlockSpec, new: Mapping[str, Tensor]) -> Values:
    """The inputs of a layer's states, of those that any layer reads of new tokens."""
    return {name: new[name] for name in block.new_tokens}


def _source(mask: Tensor | None, k: Tensor, v: Tensor) -> Values:
    """The inputs of cross-attention: a mask (B,1,S,E), keys and values (B,K,E,H)."""
    return {"mask": mask, "k": k, "v": v}
