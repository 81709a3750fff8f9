"""ModernBERT decoders, such as Ettin (Weller et al. 2025): causal ModernBERT with separate projections."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, modernbert
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec, HeadKind

TASKS = _causal.tasks("ModernBertDecoder", tokens=False, spans=False)

NAMING = modernbert.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; the window is one side of ModernBERT's.

    transformers writes `sliding_window`, and then does not read `local_attention`.
    """
    window = config.with_defaults(local_attention=128).integer("local_attention") // 2
    window = config.integer("sliding_window", window)
    stack = modernbert.stack_spec(config, window, causal=True)
    model = _causal.model(config, task, stack, tied=True, bias=config.flag("decoder_bias", True))
    if model.head.kind == HeadKind.NONE:
        return model
    bias = config.flag("classifier_bias", False)
    head = replace(
        model.head,
        bias=bias if model.head.kind == HeadKind.SEQUENCE else model.head.bias,
        activation=config.activation("classifier_activation", "gelu"),
        norm=stack.final_norm,
        dense_bias=bias,
    )
    return replace(model, head=head)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As ModernBERT's, with other names of projections and heads."""
    stack = _causal.stack_name(spec)
    layer, source = f"{stack}.layers.{{i}}", "layers.{i}"
    transform, projection = (
        ("lm_head", "decoder") if spec.head.kind == HeadKind.CAUSAL_LM else ("head", "classifier")
    )
    word_embedding = "embeddings.tok_embeddings.weight"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take(word_embedding, also=_causal.copies(spec, "decoder")),
        f"{stack}.embedding.norm.*": "embeddings.norm.*",
        f"{layer}.attention.q.*": f"{source}.attn.q_proj.*",
        f"{layer}.attention.k.*": f"{source}.attn.k_proj.*",
        f"{layer}.attention.v.*": f"{source}.attn.v_proj.*",
        f"{layer}.attention.o.*": f"{source}.attn.Wo.*",
        f"{layer}.attention_norm.*": f"{source}.attn_norm.*",
        f"{layer}.feed_forward.gate.*": Take(f"{source}.mlp.Wi.*", part=0, parts=2),
        f"{layer}.feed_forward.up.*": Take(f"{source}.mlp.Wi.*", part=1, parts=2),
        f"{layer}.feed_forward.down.*": f"{source}.mlp.Wo.*",
        f"{layer}.feed_forward_norm.*": f"{source}.mlp_norm.*",
        f"{stack}.final_norm.*": "final_norm.*",
        "head.dense.*": f"{transform}.dense.*",
        "head.norm.*": f"{transform}.norm.*",
        "head.*": f"{projection}.*",
    }
    others = ("lm_head.*", "decoder.*", "head.*", "classifier.*") if isinstance(spec, EncoderSpec) else ()
    return Table(rules, NAMING, drop=others)
