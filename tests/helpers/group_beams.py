"""Expected results of diverse beam search, from transformers 4.55, the last version that had it.

pip install transformers==4.55.4
python tests/helpers/group_beams.py

writes data/group_beams.json: by model and case, each prompt's sequences with their scores, and the EOS id.
"""

import json
import zlib
from pathlib import Path

import numpy as np
import torch
import transformers

FILE = Path(__file__).parent.parent / "data" / "group_beams.json"
PROMPTS = [[5, 6, 7], [9], [20, 21, 22, 23, 24]]
NEW = 10
CASES = {
    "two groups": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    "groups of one": {
        "num_beams": 3,
        "num_beam_groups": 3,
        "diversity_penalty": 2.0,
        "num_return_sequences": 3,
    },
    "long ones": {
        "num_beams": 6,
        "num_beam_groups": 3,
        "diversity_penalty": 1.0,
        "num_return_sequences": 4,
        "length_penalty": 1.7,
    },
    "early": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.7, "early_stopping": True},
    "never early": {
        "num_beams": 4,
        "num_beam_groups": 2,
        "diversity_penalty": 0.7,
        "early_stopping": "never",
        "length_penalty": -0.5,
    },
    "never early, long": {
        "num_beams": 4,
        "num_beam_groups": 4,
        "diversity_penalty": 0.3,
        "early_stopping": "never",
        "length_penalty": 2.0,
    },
    "penalties": {
        "num_beams": 4,
        "num_beam_groups": 2,
        "diversity_penalty": 0.5,
        "repetition_penalty": 1.3,
        "no_repeat_ngram_size": 2,
        "min_new_tokens": 4,
        "sequence_bias": [[[6], 1.5], [[7, 8], -3.0]],
    },
}
SIZES = {"vocab_size": 97, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
SMALL = SIZES | {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 40,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
MODELS = {
    "gpt2": ("GPT2LMHeadModel", SIZES | {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 40}),
    "llama": (
        "LlamaForCausalLM",
        SIZES
        | {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 48,
            "max_position_embeddings": 40,
        },
    ),
    "bart": ("BartForConditionalGeneration", SMALL),
    "t5": (
        "T5ForConditionalGeneration",
        SIZES
        | {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2}
        | {"decoder_start_token_id": 1},
    ),
}


def make(model_type: str):
    """A model whose weights are the same in all versions of the libraries."""
    architecture, sizes = MODELS[model_type]
    model = getattr(transformers, architecture)(transformers.AutoConfig.for_model(model_type, **sizes))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            rng = np.random.default_rng(zlib.crc32(name.encode()))
            drawn = torch.from_numpy(rng.standard_normal(parameter.shape, np.float32))
            scale = parameter.ndim == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.2 * drawn if scale else 0.4 * drawn)
    return model.eval()


def expected(model, end: int, options: dict) -> list[dict]:
    """Each prompt's sequences and scores by transformers, each sequence up to EOS."""
    found = []
    for prompt in PROMPTS:
        ids = torch.tensor([prompt])
        start = 1 if model.config.is_encoder_decoder else len(prompt)
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=NEW,
            eos_token_id=end,
            pad_token_id=1,
            return_dict_in_generate=True,
            output_scores=True,
            do_sample=False,
            **options,
        )
        rows = [row[start : start + NEW] for row in out.sequences.tolist()]
        rows = [row[: row.index(end) + 1] if end in row else row for row in rows]
        found.append({"rows": rows, "scores": [round(score, 6) for score in out.sequences_scores.tolist()]})
    return found


def main() -> None:
    """Write the file."""
    written = {}
    for model_type in MODELS:
        model = make(model_type)
        ids = torch.tensor([PROMPTS[2]])
        greedy = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, eos_token_id=None, pad_token_id=1
        )
        end = greedy[0, -2].item()  # a token that this model generates
        written[model_type] = {"end": end} | {name: expected(model, end, CASES[name]) for name in CASES}
    lines = [
        f'  "{model_type}": {{\n'
        + ",\n".join(f'    "{key}": {json.dumps(value)}' for key, value in cases.items())
        + "\n  }"
        for model_type, cases in written.items()
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
