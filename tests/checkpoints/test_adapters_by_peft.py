"""Merged adapters compared with peft: adapters that it writes, and the result of merge_and_unload."""

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers

from txexport.checkpoints.adapters import Merged
from txexport.checkpoints.checkpoint import Checkpoint

peft = pytest.importorskip("peft", reason="peft is not installed")
HALF = 2.0**-24  # relative error of a rounding to float32
BASES = {"llama": {"tie_word_embeddings": False}}
ROWS = {
    "llama": ("llama", "CausalLM", {"target_modules": ["q_proj", "v_proj"]}),
    "llama-patterns": (
        *("llama", "CausalLM"),
        {
            "target_modules": "all-linear",
            "rank_pattern": {"layers.0.self_attn.q_proj": 5, "^model.layers.1.mlp.up_proj": 2},
            "alpha_pattern": {"down_proj": 7},
            "use_rslora": True,
        },
    ),
    "llama-tables": (
        *("llama", "CausalLM"),
        {"target_modules": ["embed_tokens", "lm_head", "q_proj"]},
    ),
    "llama-saved": (
        *("llama", "CausalLM"),
        {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]},
    ),
    "llama-classifier": (
        *("llama", "SequenceClassification"),
        {"target_modules": ["k_proj"], "task_type": "SEQ_CLS"},
    ),
    "gpt2": ("gpt2", "CausalLM", {"target_modules": ["c_attn", "c_proj"], "bias": "lora_only"}),
    "gpt2-bias-of-b": (
        "gpt2",
        "CausalLM",
        {"target_modules": ["c_fc"], "lora_bias": True},
    ),
    "bert": (
        "bert",
        "SequenceClassification",
        {"target_modules": ["query", "value"], "task_type": "SEQ_CLS"},
    ),
    "bert-biases": (
        *("bert", "SequenceClassification"),
        {"target_modules": r".*\.(query|dense)", "bias": "all", "task_type": "SEQ_CLS"},
    ),
    "bert-tokens": (
        *("bert", "TokenClassification"),
        {"target_modules": ["key"], "task_type": "TOKEN_CLS", "layers_to_transform": [1]},
    ),
    "bert-vectors": ("bert", "", {"target_modules": ["query"], "task_type": "FEATURE_EXTRACTION"}),
    "t5": ("t5", "Seq2SeqLM", {"target_modules": ["q", "v", "wo"], "exclude_modules": ["EncDecAttention.v"]}),
    "bart": ("bart", "Seq2SeqLM", {"target_modules": ["q_proj", "fc2"], "bias": "all"}),
}


def randomized(model: torch.nn.Module) -> None:
    """Random numbers for all trained tensors: peft's initial values would leave the base unchanged."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)


def bounds(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """The maximum difference of two merged matrices with products summed in different orders, by module.

    Each of r products and sums has an error of HALF of its size (Higham 2002, 3.1), in both; so have the
    scale, the scaled product, and the last sum, which the caller adds.
    """
    result = {}
    for name, module in model.base_model.model.named_modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            table = len(module.lora_embedding_A) > 0
            a = (module.lora_embedding_A if table else module.lora_A)["default"]
            b = (module.lora_embedding_B if table else module.lora_B)["default"]
            a, b = (abs((one if table else one.weight).detach().double().numpy()) for one in (a, b))
            turned = table or getattr(module, "fan_in_fan_out", False)
            sizes = b @ a * abs(module.scaling["default"])
            result[name] = (len(a) + 6) * HALF * (sizes.T if turned else sizes)
    return result


def named(name: str, state: dict[str, torch.Tensor], prefix: str) -> str | None:
    """The name in a model's state of a tensor of a base saved with or without its head."""
    names = (name, f"{prefix}.{name}", name.removeprefix(f"{prefix}."))
    return next((one for one in names if one in state), None)


@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("model_type", "head", "config"), ROWS.values(), ids=ROWS)
def test_the_numbers_are_those_of_merge_and_unload(model_type, head, config, half, tmp_path):
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    tiny_checkpoint.save(base, model_type, **BASES.get(model_type, {}))
    kind = getattr(transformers, f"AutoModel{head and 'For'}{head}")
    labels = {"num_labels": 3} if "Classification" in head else {}
    tuned = peft.get_peft_model(
        kind.from_pretrained(base, **labels), peft.LoraConfig(r=3, lora_alpha=5, **config)
    )
    randomized(tuned)
    (tuned.to(torch.bfloat16) if half else tuned).save_pretrained(adapter)
    theirs = peft.PeftModel.from_pretrained(
        kind.from_pretrained(base, dtype=torch.float32, **labels), adapter
    )
    apart, prefix = bounds(theirs), theirs.base_model.model.base_model_prefix
    state = theirs.merge_and_unload().state_dict()
    merged, tried = Merged(Checkpoint(base), adapter), set()
    for name in merged.tensors:
        own = named(name, state, prefix)
        if own is None:
            continue  # of a head that the base has, and the task does not
        numbers, expected = merged.read(name), state[own].numpy()
        module, _, leaf = own.rpartition(".")
        if module in apart:
            tried.add(own)
            bound = (
                apart[module] if leaf == "weight" else 2 * HALF * abs(numbers - Checkpoint(base).read(name))
            )
            bound = bound + HALF * (abs(expected) + abs(numbers))
            assert (abs(numbers.astype(np.float64) - expected) <= bound).all(), name
        else:
            assert np.array_equal(numbers, expected), name
    assert {f"{module}.weight" for module in apart} <= tried
    assert {name for name in state if not name.endswith(("lm_head.weight", ".bias"))} <= {
        named(name, state, prefix) for name in merged.tensors
    } | {name for name in state if "embed" in name or "position" in name}
