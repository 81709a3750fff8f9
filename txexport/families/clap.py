"""CLAP (Wu et al. 2023): RoBERTa and HTS-AT, compared by cosine similarity: texts with sounds."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import bert, roberta, swin
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    DualEncoderSpec,
    EncoderSpec,
    NormSpec,
    Pick,
    SpectrogramGridSpec,
    StagedStackSpec,
    TextStackSpec,
)

TASKS = {"zero-shot-audio-classification": ("ClapModel",)}

NAMING = Naming()

TEXT = {
    "vocab_size": 50265,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 1,
}
HEADS = [4, 8, 16, 32]


def spec(config: Config, task: str, names: TensorNames) -> DualEncoderSpec:
    """The architecture that config.json describes."""
    text, audio = config.table("text_config"), config.table("audio_config")
    stack = roberta.spec(text.with_defaults(**TEXT), "feature-extraction", names).encoder
    assert isinstance(stack, TextStackSpec)
    embedding = stack.embedding
    embedding = replace(embedding, type_vocab_size=0, task_type_vocab_size=embedding.type_vocab_size)
    return DualEncoderSpec(
        text=replace(stack, embedding=embedding),
        vision=None,
        size=config.integer("projection_dim", 512),
        pick=Pick.FIRST,
        audio=audio_stack(audio),
        activation=config.activation("projection_hidden_act", "relu"),
    )


def audio_stack(config: Config) -> StagedStackSpec:
    """The encoder of sounds: Swin over a folded spectrogram."""
    config = config.with_defaults(
        num_attention_heads=HEADS, patch_embeds_hidden_size=96, window_size=8, spec_size=256, patch_size=4
    )
    if config.flag("enable_fusion", False):
        raise UnsupportedError(
            f"{config.path}: enable_fusion=True is not supported: its vectors depend on parts of a sound "
            "that are chosen at random; expected a checkpoint without fusion, as laion/clap-htsat-unfused is"
        )
    config.expect(patch_embed_input_channels=1, flatten_patch_embeds=True)
    width = config.integer("patch_embeds_hidden_size")
    config.check_width("patch_embeds_hidden_size", width)
    side = config.integer("patch_size")
    config.expect(patch_stride=side if config.values.get("patch_stride") == side else [side, side])
    bands, most = config.integer("num_mel_bins", 64), config.integer("spec_size")
    if bands < 1 or most % bands or side < 1 or most % side:
        raise UnsupportedError(
            f"{config.path}: spec_size {most} with num_mel_bins {bands} and patch_size {side} is not "
            "supported; expected a multiple of both"
        )
    normed = config.flag("enable_patch_layer_norm", True)
    norm = NormSpec(width, swin.EPS) if normed else None
    stages = swin.stages(config.replaced(embed_dim=width, num_heads=config.values["num_attention_heads"]))
    grid = SpectrogramGridSpec(width, bands, most, side, norm)
    stack = StagedStackSpec(grid, stages, final_norm=NormSpec(stages[-1].size, swin.EPS))
    window = config.integer("window_size")
    if min(map(min, stack.grids(grid.grid))) < window:
        raise UnsupportedError(
            f"{config.path}: spec_size {most} gives a stage with less than window_size {window}, and the "
            f"original fails on those; expected a larger spec_size than {shortened(most)}"
        )
    return stack


def table(spec: DualEncoderSpec | EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    assert isinstance(spec, DualEncoderSpec)
    assert spec.audio is not None
    rules: Rules = {
        ours.replace("encoder.", "text.", 1): f"text_model.{source}"
        for ours, source in bert.stack_rules().items()
        if ours.startswith("encoder.")
    }
    rules |= {
        "text.embedding.task.*": "text_model.embeddings.token_type_embeddings.*",
        "text_pooler.*": "text_model.pooler.dense.*",
        "similarity.scale": Take("logit_scale_t", no_leading_axis=True),
        "similarity.signal_scale": Take("logit_scale_a", no_leading_axis=True),
    }
    for tower in ("text", "audio"):
        rules |= {
            f"{tower}_projection.up.*": f"{tower}_projection.linear1.*",
            f"{tower}_projection.down.*": f"{tower}_projection.linear2.*",
        }
    buffers = ("*.position_ids", "*.token_type_ids", "*.relative_position_index", "*.num_batches_tracked")
    return Table(rules | audio_rules(spec.audio), NAMING, drop=buffers)


def audio_rules(stack: StagedStackSpec) -> Rules:
    """Tensor names of the encoder of sounds."""
    source = "audio_model.audio_encoder"
    rules: Rules = {
        "audio.embedding.bands.weight": f"{source}.batch_norm.weight",
        "audio.embedding.bands.bias": f"{source}.batch_norm.bias",
        "audio.embedding.bands.mean": f"{source}.batch_norm.running_mean",
        "audio.embedding.bands.variance": f"{source}.batch_norm.running_var",
        "audio.embedding.project.*": f"{source}.patch_embed.proj.*",
        "audio.embedding.norm.*": f"{source}.patch_embed.norm.*",
        "audio.final_norm.*": f"{source}.norm.*",
    }
    stages = swin.stage_rules(stack)
    return rules | {
        ours.replace("encoder.", "audio.", 1): f"{source}.{theirs}" for ours, theirs in stages.items()
    }
