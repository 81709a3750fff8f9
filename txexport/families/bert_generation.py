"""BertGeneration (Rothe et al. 2020): BERT without token types or pooler, as an encoder or as a decoder."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, bert
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec, PositionKind, PositionSpec, TextStackSpec

TASKS = {
    "feature-extraction": ("BertGenerationEncoder",),
    "text-generation": ("BertGenerationDecoder",),
}

NAMING = bert.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; a decoder has to be causal."""
    if causal := task == "text-generation":
        config.expect(is_decoder=True)
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings"))
    encoder_config = config.replaced(is_decoder=False) if causal else config
    activation = config.activation("hidden_act", "gelu")
    stack = bert.encoder_spec(
        encoder_config, "feature-extraction", names, position, activation, type_vocab_size=0
    ).encoder
    assert isinstance(stack, TextStackSpec)
    stack = _causal.each_layer(
        stack, lambda _, block: replace(block, attention=replace(block.dense, causal=causal))
    )
    return _causal.model(config, task, stack, tied=True, bias=True)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As BERT's; the bias of the projection may be stored twice."""
    stack, projection = _causal.stack_name(spec), "lm_head.decoder"
    rules: Rules = {
        name.replace("encoder", stack, 1): source
        for name, source in bert.stack_rules().items()
        if name.startswith("encoder.")
    }
    word_embedding = "embeddings.word_embeddings.weight"
    rules[f"{stack}.embedding.word.weight"] = Take(word_embedding, also=_causal.copies(spec, projection))
    if isinstance(spec, DecoderSpec):
        rules["head.weight"] = f"{projection}.weight"
        rules["head.bias"] = Take(f"{projection}.bias", fallback="lm_head.bias")  # tied to the former
        if spec.head.tied:
            rules["head.bias"] = Take("lm_head.bias", also=(f"{projection}.bias",))
    return Table(rules, NAMING, drop=("embeddings.position_ids", *_causal.other_heads(spec, projection)))
