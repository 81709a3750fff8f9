"""Presets compared with the papers' counts, the originals' parameters, and the families' specs."""

import pytest
import torch
import transformers
from txmodels.model import model as transformer

from txexport import families, parts
from txexport.errors import InputError
from txexport.families import presets
from txexport.families._config import Config
from txexport.inspection import parameter_count
from txexport.spec import Cache

# Parameters that a paper or its authors publish, and the rounding of that figure.
PUBLISHED = {
    "transformer_base": (presets.transformer_base(), 65e6, 2e6),  # its own description gives 63.05M
    "transformer_big": (presets.transformer_big(), 213e6, 1.2e6),  # 214.17M
    "bert_base": (presets.bert_base(), 110e6, 1e6),
    "bert_large": (presets.bert_large(), 340e6, 5e6),
    "gpt1": (presets.gpt1(), 117e6, 0.5e6),
    "gpt2 small": (presets.gpt2("small"), 124e6, 0.5e6),
    "gpt2 medium": (presets.gpt2("medium"), 355e6, 0.5e6),
    "gpt2 large": (presets.gpt2("large"), 774e6, 0.5e6),
    "gpt2 xl": (presets.gpt2("xl"), 1558e6, 0.5e6),
    "llama 7b": (presets.llama("7b"), 6.7e9, 0.05e9),
    "llama 13b": (presets.llama("13b"), 13.0e9, 0.05e9),
    "llama 33b": (presets.llama("33b"), 32.5e9, 0.05e9),
    "llama 65b": (presets.llama("65b"), 65.2e9, 0.1e9),  # 65.29B, cut and not rounded
    "llama 8b": (presets.llama("8b"), 8.0e9, 0.05e9),
    "mistral_7b": (presets.mistral_7b(), 7.2e9, 0.05e9),
    "vit base": (presets.vit("base"), 86e6, 0.6e6),
    "vit large": (presets.vit("large"), 307e6, 3e6),  # by its description 304M
    "vit huge": (presets.vit("huge"), 632e6, 0.5e6),
    "t5 small": (presets.t5("small"), 60e6, 1e6),
    "t5 base": (presets.t5("base"), 220e6, 5e6),
    "t5 large": (presets.t5("large"), 770e6, 33e6),  # 738M; a head of its own would add 33M
    "t5 3b": (presets.t5("3b"), 2.8e9, 0.06e9),
    "t5 11b": (presets.t5("11b"), 11e9, 0.5e9),
}

LLAMA_3 = {
    "num_key_value_heads": 8,
    "intermediate_size": 14_336,
    "vocab_size": 128_256,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 8192,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0},
}
LLAMA = {
    "13b": {"hidden_size": 5120, "num_hidden_layers": 40, "num_attention_heads": 40},
    "33b": {"hidden_size": 6656, "num_hidden_layers": 60, "num_attention_heads": 52},
    "65b": {"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "rms_norm_eps": 1e-5},
}
WIDE = {"13b": 13_824, "33b": 17_920, "65b": 22_016}
BERT_LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
GPT2 = {
    "medium": {"n_embd": 1024, "n_layer": 24, "n_head": 16},
    "large": {"n_embd": 1280, "n_layer": 36, "n_head": 20},
    "xl": {"n_embd": 1600, "n_layer": 48, "n_head": 25},
}
T5 = {
    "base": {"d_model": 768, "num_layers": 12, "num_heads": 12, "d_ff": 3072},
    "large": {"d_model": 1024, "num_layers": 24, "num_heads": 16, "d_ff": 4096},
    "3b": {"d_model": 1024, "num_layers": 24, "num_heads": 32, "d_kv": 128, "d_ff": 16_384},
    "11b": {"d_model": 1024, "num_layers": 24, "num_heads": 128, "d_kv": 128, "d_ff": 65_536},
}
KINDS = {"num_labels": 1000}
VIT = {
    "large": {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
    "huge": {
        "hidden_size": 1280,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "intermediate_size": 5120,
        "patch_size": 14,
    },
}
MISTRAL = {"max_position_embeddings": 8192, "rms_norm_eps": 1e-5}

# Preset -> the original with the released config; transformers' defaults are the released small models'.
ORIGINALS = {
    "bert_base": (presets.bert_base(), "BertModel", {}),
    "bert_base, masked": (presets.bert_base(masked_lm=True), "BertForMaskedLM", {}),
    "bert_large": (presets.bert_large(), "BertModel", BERT_LARGE),
    "bert_large, masked": (presets.bert_large(masked_lm=True), "BertForMaskedLM", BERT_LARGE),
    "gpt1": (presets.gpt1(), "OpenAIGPTLMHeadModel", {}),
    "gpt2 small": (presets.gpt2("small"), "GPT2LMHeadModel", {}),
    **{f"gpt2 {size}": (presets.gpt2(size), "GPT2LMHeadModel", GPT2[size]) for size in GPT2},
    "llama 7b": (presets.llama("7b"), "LlamaForCausalLM", {}),
    **{
        f"llama {size}": (
            presets.llama(size),
            "LlamaForCausalLM",
            LLAMA[size] | {"intermediate_size": WIDE[size]},
        )
        for size in LLAMA
    },
    "llama 8b": (presets.llama("8b"), "LlamaForCausalLM", LLAMA_3),
    "mistral_7b": (presets.mistral_7b(), "MistralForCausalLM", MISTRAL),
    "vit base": (presets.vit("base"), "ViTForImageClassification", KINDS),
    **{f"vit {size}": (presets.vit(size), "ViTForImageClassification", KINDS | VIT[size]) for size in VIT},
    "t5 small": (presets.t5("small"), "T5ForConditionalGeneration", {}),
    **{f"t5 {size}": (presets.t5(size), "T5ForConditionalGeneration", T5[size]) for size in T5},
}
TASKS = {
    "BertModel": "feature-extraction",
    "BertForMaskedLM": "fill-mask",
    "T5ForConditionalGeneration": "text2text-generation",
    "ViTForImageClassification": "image-classification",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_count_is_the_published_one(name):
    spec, published, rounding = PUBLISHED[name]
    assert abs(parameter_count.count(spec).total - published) <= rounding


@pytest.mark.parametrize("name", ORIGINALS)
def test_preset_is_the_original(name, tmp_path):
    """As many parameters as the original, and the spec that its family makes of the original's config."""
    spec, architecture, sizes = ORIGINALS[name]
    kind = getattr(transformers, architecture)
    config = kind.config_class(**sizes)
    with torch.device("meta"):
        original = kind(config)
    count = sum(p.numel() for p in original.parameters())
    assert sum(torch.Size(shape).numel() for shape in parts.parameters(spec).values()) == count
    assert parameter_count.count(spec).total == count
    task, names = TASKS.get(architecture, "text-generation"), set(original.state_dict())
    family = families.module(config.model_type)
    assert family.spec(Config(config.to_dict(), tmp_path), task, names) == spec


@pytest.mark.parametrize(
    ("spec", "width"), [(presets.transformer_base(), 512), (presets.transformer_big(), 1024)]
)
def test_transformer_is_that_of_pytorch(spec, width):
    """torch.nn.Transformer has attention biases and a final norm on each stack; the paper has neither."""
    with torch.device("meta"):
        original = torch.nn.Transformer(width, width // 64, 6, 6, 4 * width, batch_first=True)
    extra = ("in_proj_bias", "out_proj.bias", "encoder.norm.weight", "encoder.norm.bias")
    extra += ("decoder.norm.weight", "decoder.norm.bias")
    stacks = sum(p.numel() for name, p in original.named_parameters() if not name.endswith(extra))
    found = parameter_count.count(spec)
    assert found.without_embeddings == stacks
    assert found.total == stacks + 37_000 * width
    assert spec.shared_embedding
    assert spec.head.tied
    assert spec.encoder.embedding.scale == width**0.5


def test_transformer_computes_what_that_of_pytorch_computes():
    """Narrow, with random weights: logits of all tokens, from the same embeddings."""
    width, heads = 32, 2
    torch.manual_seed(0)
    ours = transformer(presets._transformer(width, heads), Cache.DYNAMIC).eval()
    original = torch.nn.Transformer(
        width, heads, 6, 6, 4 * width, layer_norm_eps=1e-6, batch_first=True
    ).eval()
    original.encoder.norm = original.decoder.norm = None
    with torch.no_grad():
        for name, parameter in original.named_parameters():
            absent = name.endswith(("in_proj_bias", "out_proj.bias"))
            parameter.copy_(("norm" in name) + 0.2 * torch.randn_like(parameter) * (not absent))
    words, places = torch.randn(37_000, width) * 0.1, torch.randn(presets.SINUSOIDS, width)
    tables = {
        f"{stack}.embedding.{name}.weight": table
        for stack in ("encoder", "decoder")
        for name, table in (("word", words), ("position", places))
    }
    ours.load_state_dict(renamed(original.state_dict()) | tables)
    source, target = torch.randint(0, 37_000, (2, 7)), torch.randint(0, 37_000, (2, 5))
    mask = torch.ones_like(source)
    with torch.no_grad():
        x, y = (words[ids] * width**0.5 + places[: ids.shape[1]] for ids in (source, target))
        causal = torch.nn.Transformer.generate_square_subsequent_mask(5)
        expected = original(x, y, tgt_mask=causal) @ words.T
        outputs = ours.encode(source, mask)
        cross = [[outputs[f"present.{i}.encoder.{part}"] for part in ("key", "value")] for i in range(6)]
        logits, _ = ours.decode(target, ours.empty_past(2), encoder_attention_mask=mask, cross=cross)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


ATTENTION = {"self_attn": "attention", "multihead_attn": "cross_attention"}
FEED_FORWARD = {"linear1": "feed_forward.up", "linear2": "feed_forward.down"}
NORMS = {
    "encoder": {"norm1": "attention_norm", "norm2": "feed_forward_norm"},
    "decoder": {"norm1": "attention_norm", "norm2": "cross_attention_norm", "norm3": "feed_forward_norm"},
}


def renamed(state: dict) -> dict:
    """Weights of torch.nn.Transformer, which fuses query, key and value, by txexport's names."""
    found = {}
    for name, tensor in state.items():
        stack, _, layer, part, leaf = name.split(".", 4)
        under = f"{stack}.layers.{layer}"
        if part not in ATTENTION:
            found[f"{under}.{(FEED_FORWARD | NORMS[stack])[part]}.{leaf}"] = tensor
        elif leaf == "out_proj.weight":
            found[f"{under}.{ATTENTION[part]}.o.weight"] = tensor
        elif leaf == "in_proj_weight":
            for letter, cut in zip("qkv", tensor.chunk(3), strict=True):
                once = part == "multihead_attn" and letter != "q"
                owner = f"cross.{layer}" if once else f"{under}.{ATTENTION[part]}"
                found[f"{owner}.{letter}.weight"] = cut
    return found


@pytest.mark.parametrize(
    ("make", "size", "known"),
    [
        (presets.gpt2, "huge", "gpt2 'huge' is not known; expected small, medium, large, xl"),
        (presets.llama, "70b", "llama '70b' is not known; expected 7b, 13b, 33b, 65b, 8b"),
        (presets.t5, "XL", "t5 'XL' is not known; expected small, base, large, 3b, 11b"),
    ],
)
def test_unknown_size_lists_the_known(make, size, known):
    with pytest.raises(InputError, match=known):
        make(size)
