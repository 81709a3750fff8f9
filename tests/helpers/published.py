"""Checkpoints in the form of published custom code, written from models of transformers."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import tiny_checkpoint
import torch
from safetensors.torch import save_file

from helpers import jina_bert as judge
from helpers import nomic_moe as nomic

Tensors = dict[str, torch.Tensor]

NEW_CODE = {
    "AutoConfig": "Alibaba-NLP/new-impl--configuration.NewConfig",
    "AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel",
}
JINA = "jinaai/jina-bert-implementation"
FLASH = "jinaai/xlm-roberta-flash-implementation"
FLASH_CODE = {
    "AutoConfig": f"{FLASH}--configuration_xlm_roberta.XLMRobertaFlashConfig",
    "AutoModel": f"{FLASH}--modeling_lora.XLMRobertaLoRA",
}
NOMIC = "nomic-ai/nomic-bert-2048"
NOMIC_MOE = {
    "auto_map": {"AutoModel": f"{NOMIC}--modeling_hf_nomic_bert.NomicBertModel"},
    **{"vocab_size": tiny_checkpoint.VOCAB, "type_vocab_size": 1, "pad_token_id": 1},
    **{"n_embd": 48, "n_head": 3, "n_inner": 40, "n_layer": 4, "n_positions": 40, "layer_norm_epsilon": 1e-5},
    **{"activation_function": "gelu", "rotary_emb_base": 300.0, "rotary_emb_fraction": 1.0},
    **{"num_experts": 5, "moe_top_k": 2, "moe_every_n_layers": 2, "moe_normalize_expert_weights": False},
    **{"qkv_proj_bias": True, "mlp_fc1_bias": True, "mlp_fc2_bias": True, "rotary_scaling_factor": None},
}
NEW = {"layer_norm_type": "layer_norm", "position_embedding_type": "rope", "pack_qkv": True}
NEW |= {"logn_attention_scale": False, "logn_attention_clip1": False}
NEW |= {"unpad_inputs": False, "use_memory_efficient_attention": False}
NEW |= {"type_vocab_size": 1, "rope_theta": 300.0, "rope_scaling": None}


def original(model_type: str, architecture: str, **config) -> torch.nn.Module:
    """A model of transformers with the weights of `tiny_checkpoint`, except those that it computes."""
    drawn = tiny_checkpoint.build(model_type, architecture, **config)
    model = type(drawn)(drawn.config).eval()
    model.load_state_dict(drawn.state_dict())
    return model


def renamed(tensors: Mapping[str, torch.Tensor], names: Mapping[str, str]) -> Tensors:
    """Rename tensors: the parts of a name listed in `names` are replaced in order."""
    result = {}
    for name, tensor in tensors.items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        result[name] = tensor.contiguous()
    return result


def joined(tensors: Mapping[str, torch.Tensor], parts: tuple[str, ...], whole: str) -> Tensors:
    """Concatenate the tensors of `parts` as those of `whole`, in every module that has them."""
    result = dict(tensors)
    for name in tensors:
        if parts[0] in name:
            each = [result.pop(name.replace(parts[0], part)) for part in parts]
            result[name.replace(parts[0], whole)] = torch.cat(each)
    return result


def write(folder: Path, tensors: Mapping[str, torch.Tensor], config: Mapping) -> Path:
    """Write a checkpoint folder of these tensors and that config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(dict(tensors), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def new(folder: Path, architecture: str, prefix: str = "new.", **config) -> torch.nn.Module:
    """Write a GTE in the form of Alibaba-NLP/new-impl; return the library's model."""
    values = tiny_checkpoint.BERT | NEW | config
    head_dim, theta = values["hidden_size"] // values["num_attention_heads"], values["rope_theta"]
    rope = {"rope_type": "default", "rope_theta": theta}
    if values["rope_scaling"] is not None:
        ntk = values["rope_scaling"]["factor"]
        rope = {"rope_type": "linear", "rope_theta": theta * ntk, "factor": ntk ** (2 / head_dim)}
    kept = {"type_vocab_size": values["type_vocab_size"], "num_labels": config.get("num_labels", 2)}
    kept |= {key: values[key] for key in tiny_checkpoint.BERT}
    model = original("gte", architecture.replace("New", "Gte"), **kept, rope_parameters=rope)
    tensors = joined(model.state_dict(), ("q_proj", "k_proj", "v_proj"), "qkv_proj")
    tensors = joined(tensors, ("up_proj", "gate_proj"), "up_gate_proj")
    names = {
        "gte.": "",
        "layers.": "encoder.layer.",
        "self_attn.": "attention.",
        "lm_head.layer_norm": "lm_head.norm",
    }
    names |= {"post_attention_layernorm": "attn_ln", "post_mlp_layernorm": "mlp_ln"}
    tensors = renamed(tensors, names)
    tensors.pop("lm_head.decoder.weight", None)  # tied
    heads = ("lm_head", "classifier")
    tensors = {name if name.startswith(heads) else prefix + name: tensor for name, tensor in tensors.items()}
    values |= {"model_type": "new", "architectures": [architecture], "auto_map": NEW_CODE}
    write(folder, tensors, values)
    return model


def jina_bert(folder: Path, architecture: str, code: str = JINA, **config) -> Callable:
    """Write a BERT in the form of jinaai's `code`; return a function such as `jina_bert.outputs`."""
    config = {"auto_map": {"AutoConfig": f"{code}--configuration_bert.JinaBertConfig"}} | config
    kept = tiny_checkpoint.BERT | {key: value for key, value in config.items() if key != "auto_map"}
    drawn = tiny_checkpoint.build("bert", architecture.removeprefix("Jina"), **kept)
    normed, tensors = judge.QK_NORM in config["auto_map"]["AutoConfig"], {}
    gated, down, norm = ("gated_layers", "mlp.wo", "mlp.layernorm")
    if normed:
        gated, down, norm = ("up_gated_layer", "mlp.down_layer", "layer_norm_2")
    for name, tensor in drawn.state_dict().items():
        if normed and ".attention.output.LayerNorm" in name:
            for other, seed in (
                ("layer_norm_1", 1),
                ("attention.self.layer_norm_q", 2),
                ("attention.self.layer_norm_k", 3),
            ):
                rolled = tensor.roll(seed).contiguous()
                tensors[name.replace("attention.output.LayerNorm", other)] = rolled
        name = re.sub(r"(layer\.\d+)\.output\.dense", rf"\1.{down}", name)
        name = re.sub(r"(layer\.\d+)\.output\.LayerNorm", rf"\1.{norm}", name)
        if name.endswith("intermediate.dense.weight"):
            name = name.replace("intermediate.dense", f"mlp.{gated}")
            tensor = torch.cat([tensor, tensor.flip(0)])
        if not name.endswith(("position_embeddings.weight", "intermediate.dense.bias", "decoder.weight")):
            tensors[name] = tensor.contiguous()
    tensors.pop("cls.predictions.decoder.bias", None)  # tied
    values = tiny_checkpoint.BERT | {"layer_norm_eps": 1e-12, "hidden_act": "gelu", "type_vocab_size": 2}
    values |= {"position_embedding_type": "alibi", "feed_forward_type": "geglu", "emb_pooler": "mean"}
    values |= config | {"model_type": "bert", "architectures": [architecture]}
    write(folder, tensors, values)
    return partial(judge.outputs, tensors, values)


def jina_v3(folder: Path, architecture: str, **config) -> torch.nn.Module:
    """Write an XLM-RoBERTa as jinaai/xlm-roberta-flash-implementation has it; return the library's model."""
    values = tiny_checkpoint.BERT | {"type_vocab_size": 1, "layer_norm_eps": 1e-5, "hidden_act": "gelu"}
    values |= {"rotary_emb_base": 300.0, "position_embedding_type": "rotary", "lora_rank": 4, "lora_alpha": 1}
    values |= {"auto_map": FLASH_CODE} | config
    kept = {key: values[key] for key in tiny_checkpoint.BERT} | {"num_labels": config.get("num_labels", 2)}
    kept |= {key: values[key] for key in ("type_vocab_size", "layer_norm_eps", "hidden_act")}
    rope = {"rope_type": "default", "rope_theta": values["rotary_emb_base"]}
    named = architecture.replace("XLMRoberta", "JinaEmbeddingsV3")
    model = original("jina_embeddings_v3", named, **kept, rope_parameters=rope)
    plain = joined(model.state_dict(), ("q_proj", "k_proj", "v_proj"), "Wqkv")
    names = {"layers.": "encoder.layers.", "self_attn.o_proj": "mixer.out_proj", "self_attn.": "mixer."}
    names |= {
        "post_attention_layernorm": "norm1",
        "post_mlp_layernorm": "norm2",
        "embeddings.LayerNorm": "emb_ln",
    }
    tensors = {}
    for name, tensor in renamed(plain, names).items():
        if not name.startswith(("roberta.", "lm_head.", "classifier.", "qa_outputs.")):
            name = f"roberta.{name}"
        module = name.removesuffix(".weight")
        if values.get("lora_adaptations") and tensor.ndim == 2:
            count, (rows, columns) = len(values["lora_adaptations"]), tensor.shape
            tensors[f"{module}.parametrizations.weight.0.lora_A"] = torch.ones(count, 4, columns)
            tensors[f"{module}.parametrizations.weight.0.lora_B"] = torch.ones(count, rows, 4)
            name = f"{module}.parametrizations.weight.original"
        tensors[name] = tensor
    tensors.pop("lm_head.decoder.weight", None)  # tied
    tensors.pop("lm_head.decoder.bias", None)
    write(folder, tensors, values | {"model_type": "xlm-roberta", "architectures": [architecture]})
    return model


def flash(folder: Path, architecture: str, **config) -> torch.nn.Module:
    """Select the form of jinaai/xlm-roberta-flash-implementation by `config`: RoPE or learned positions."""
    learned = config.get("position_embedding_type") == "absolute"
    return (flash_xlm_roberta if learned else jina_v3)(folder, architecture, **config)


def flash_xlm_roberta(folder: Path, architecture: str, **config) -> torch.nn.Module:
    """Write an XLM-RoBERTa by the names of jinaai's flash implementation; return the library's model."""
    values = tiny_checkpoint.BERT | {"type_vocab_size": 1, "layer_norm_eps": 1e-5, "hidden_act": "gelu"}
    values |= {"auto_map": FLASH_CODE} | config
    kept = {key: value for key, value in values.items() if key not in ("auto_map", "position_embedding_type")}
    model = original("xlm-roberta", architecture, **kept)
    parts = tuple(f"attention.self.{name}." for name in ("query", "key", "value"))
    names = {"attention.output.dense": "mixer.out_proj", "attention.output.LayerNorm": "norm1"}
    names |= {"intermediate.dense": "mlp.fc1", "output.dense": "mlp.fc2", "output.LayerNorm": "norm2"}
    names |= {"encoder.layer.": "encoder.layers.", "embeddings.LayerNorm": "emb_ln"}
    tensors = renamed(joined(model.state_dict(), parts, "mixer.Wqkv."), names)
    for name in ("lm_head.decoder.weight", "lm_head.decoder.bias"):  # tied
        tensors.pop(name, None)
    write(folder, tensors, values | {"model_type": "xlm-roberta", "architectures": [architecture]})
    return model


def nomic_moe(folder: Path, architecture: str, **config) -> Callable:
    """Write a Nomic BERT MoE in the form of its code; return a function such as `nomic_moe.outputs`."""
    values = NOMIC_MOE | config
    width, inner, count = values["n_embd"], values["n_inner"], values["num_experts"]
    shapes = {"embeddings.word_embeddings.weight": (values["vocab_size"], width)}
    shapes |= {"embeddings.token_type_embeddings.weight": (values["type_vocab_size"], width)}
    shapes |= {"emb_ln.weight": (width,), "emb_ln.bias": (width,)}
    for i in range(values["n_layer"]):
        own = {"attn.Wqkv": (3 * width, width), "attn.out_proj": (width, width), "norm1": (width,)}
        own |= {"norm2": (width,)}
        if i % values["moe_every_n_layers"] != 1:
            own |= {"mlp.fc1": (inner, width), "mlp.fc2": (width, inner)}
        for name, shape in own.items():
            shapes |= {
                f"encoder.layers.{i}.{name}.weight": shape,
                f"encoder.layers.{i}.{name}.bias": shape[:1],
            }
        if i % values["moe_every_n_layers"] == 1:
            experts = {f"experts.mlp.{part}": (count * inner, width) for part in ("w1", "w2")}
            experts |= {"router.layer.weight": (count, width), "experts.bias": (width,)}
            shapes |= {f"encoder.layers.{i}.mlp.{name}": shape for name, shape in experts.items()}
    random = torch.Generator().manual_seed(0)
    tensors = {name: 0.12 * torch.randn(shape, generator=random) for name, shape in shapes.items()}
    for name, tensor in tensors.items():
        tensors[name] = 1 + 2.5 * tensor if "norm" in name and name.endswith("weight") else tensor
    values |= {"model_type": "nomic_bert", "architectures": [architecture]}
    write(folder, tensors, values)
    return partial(nomic.outputs, tensors, values)


# Families that no library has: each writes a checkpoint and returns its definition in plain PyTorch.
WITHOUT_LIBRARY = {"jina_bert": jina_bert, "nomic_bert_moe": nomic_moe}
# By model_type, or by the class of config.json's code.
WRITERS = {
    "new": new,
    "JinaBertConfig": jina_bert,
    "XLMRobertaFlashConfig": flash,
    "nomic_bert_moe": nomic_moe,
}
