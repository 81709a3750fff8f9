"""The network of picture_reader.py, and the guides that it has while it is trained."""

import _loop
import torch
import transformers
from _reading import CLOSE, END, IMAGE, OPEN, PAD, PATCH, SLOTS, START, VIDEO, VOCAB, Batch
from torch import Tensor, nn
from torch.nn import functional
from txmodels.training import objectives

Network = transformers.Qwen2VLForConditionalGeneration
WIDTH, HEADS = 128, 4
THETA, SHARPNESS = 100.0, 4.0  # of the image encoder's RoPE; of its scores at first
GUIDED = 2, 0  # the layer and the head of the decoder that look at the square of the next letter
CONTEXT = 1024  # tokens of pictures and texts
EMPTY = 0.2  # the weight of patches without a letter


def create() -> Network:
    """An untrained model."""
    config = transformers.Qwen2VLConfig(
        vision_config={
            "depth": 4, "embed_dim": WIDTH, "hidden_size": WIDTH, "num_heads": HEADS, "mlp_ratio": 3,
            "patch_size": PATCH, "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3,
            "initializer_range": 0.04, "hidden_act": "gelu",
            "rope_parameters": {"rope_type": "axial", "rope_theta": THETA},
        },
        text_config={
            "vocab_size": VOCAB, "hidden_size": WIDTH, "num_hidden_layers": 4, "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS, "intermediate_size": 3 * WIDTH, "max_position_embeddings": CONTEXT,
            "initializer_range": 0.04, "pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 100.0, "mrope_section": [2, 3, 3, 2, 3, 3],
            },
        },
        image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=OPEN, vision_end_token_id=CLOSE,
        tie_word_embeddings=True, attn_implementation={"text_config": "eager", "vision_config": "eager"},
    )  # fmt: skip
    model = Network(config)
    model.model.visual.patch_embed.proj = Patches(3, WIDTH, (2, PATCH, PATCH), bias=False)
    with torch.no_grad():
        for number, block in enumerate(model.model.visual.blocks):
            attend_beside(block.attn, number)
    return model.train()


def attend_beside(attention: nn.Module, layer: int) -> None:
    """Let the heads of a layer attend to the patches beside, above and below, as a convolution does.

    Only biases of queries and keys are set, which the rotation turns into scores of relative places: a start
    from which letters are learned in a fraction of the steps (Trockman and Kolter 2023).
    """
    frequencies = (1 / THETA) ** (torch.arange(8) / 8)
    beside = [(0, -1), (0, 1), (-1, 0), (1, 0)] if layer < 3 else [(0, -2), (0, 2)]
    query, key, _ = attention.qkv.bias.view(3, HEADS, 2, 16)
    for head, offset in enumerate(beside):
        angles = torch.cat([frequencies * offset[0], frequencies * offset[1]])
        sharp = SHARPNESS * 32**0.5
        query[head, 0] = sharp**0.5
        key[head] = sharp**0.5 * torch.stack([angles.cos(), -angles.sin()])


class Patches(nn.Conv3d):
    """The projection of patches as one product, which is faster than a convolution."""

    def forward(self, patches: Tensor) -> Tensor:
        """(N,3,2,8,8) -> (N,W,1,1,1)."""
        return functional.linear(patches.flatten(1), self.weight.flatten(1))[..., None, None, None]


class Reader(nn.Module):
    """The model, and while it is trained two guides: guesses of the letter on each patch, and of the letters
    of each square in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.model = create()
        self.patch_guide = nn.Linear(WIDTH, VOCAB)
        self.square_guide = nn.Linear(WIDTH, SLOTS * VOCAB)

    def losses(self, data: Batch, stage: str = "all") -> tuple[Tensor, ...]:
        """The losses of letters on patches, of letters in squares, of answers, and of where GUIDED looks.

        In the stage `patches` there is the first alone; in the stage `words` the image encoder is fixed.
        """
        tower, decoder = self.model.model.visual, self.model.model.language_model
        with _loop.autocast(), torch.set_grad_enabled(stage != "words"):
            patches = tower(data.pixels, data.grids).last_hidden_state  # (N, W)
        with _loop.autocast():
            guesses = self.patch_guide(patches)  # (N, V)
        letters = weighted(guesses, data.letters)
        if stage == "patches":
            return (letters,)
        with _loop.autocast():
            squares = tower.merger(patches)  # (I, W)
            slots = self.square_guide(squares).unflatten(-1, (SLOTS, VOCAB)).flatten(0, 1)
            embeddings = decoder.embed_tokens(data.ids)  # (B, S, W)
            shown = (data.ids == IMAGE)[..., None].expand_as(embeddings)
            outputs = decoder(
                inputs_embeds=embeddings.masked_scatter(shown, squares.to(embeddings.dtype)),
                position_ids=data.positions,
                attention_mask=(data.ids != PAD).long(),
                output_attentions=True,
                use_cache=False,
            )
            answered = data.labels != objectives.IGNORED
            logits = self.model.lm_head(outputs.last_hidden_state[answered])  # (M, V)
        layer, head = GUIDED
        looks = (outputs.attentions[layer][:, head].float() + 1e-6).log()  # (B, S, S)
        return (
            letters,
            weighted(slots, data.slots.flatten()),
            functional.cross_entropy(logits.float(), data.labels[answered]),
            functional.nll_loss(looks.flatten(0, 1), data.looked.flatten(), ignore_index=objectives.IGNORED),
        )


def weighted(logits: Tensor, letters: Tensor) -> Tensor:
    """Cross-entropy (N,V) of letters (N), in which those without a letter count little."""
    weight = torch.where(letters == PAD, EMPTY, 1.0)
    loss = functional.cross_entropy(logits.float(), letters, reduction="none")
    return (loss * weight).sum() / weight.sum()
