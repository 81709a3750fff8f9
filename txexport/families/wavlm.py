"""WavLM (Chen et al. 2022): wav2vec 2.0 with gated relative positions."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import _sound_heads, wav2vec2
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, RelativeSpec, SignalStackSpec

TASKS = _sound_heads.tasks("WavLM")
REFUSED = {"WavLMModel": wav2vec2.WITHOUT_HEAD}
WITHOUT_OUTPUTS = {"attentions": "the original returns the mean of all heads in place of each head's"}

NAMING = Naming("wavlm.", wav2vec2.RENAMED)


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; all layers share the first one's bias."""
    config.expect(add_adapter=False)
    config = config.replaced(adapter_attn_dim=None)  # the original's layers have no adapters
    inherited = wav2vec2.model(config, task, wav2vec2.embedding(config))
    stack = inherited.encoder
    assert isinstance(stack, SignalStackSpec)
    [block] = stack.blocks
    attention = replace(block.dense, unmasked=False, has_position_bias=True, gated=True)
    relative = RelativeSpec(
        config.integer("num_buckets", 320), config.integer("max_bucket_distance", 800), bidirectional=True
    )
    blocks = (replace(block, attention=attention),)
    return replace(inherited, encoder=replace(stack, blocks=blocks, relative=relative))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    gate = "encoder.layers.{i}.attention.gru_rel_pos"
    rules: Rules = {
        "encoder.layers.{i}.attention.gate.constant": f"{gate}_const",
        "encoder.layers.{i}.attention.gate.project.*": f"{gate}_linear.*",
        "encoder.relative.weight": "encoder.layers.0.attention.rel_attn_embed.weight",
    }
    return Table(rules | wav2vec2.rules(spec), NAMING, _sound_heads.UNUSED)
