"""Small checkpoints under the names of published ones that a page uses.

Three give meaningless output, which pages do not show. The others have memorised what the pages show: one
conversation, some recordings, a drawn street and an answer about it.
"""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import tiny_checkpoint
import tiny_tokenizers
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from helpers import document_stand_in, paging_stand_in, seeing_stand_in, speaking_stand_ins
from helpers.project import ROOT

STREET = ROOT / "tests/data/street"
LENGTH = 1024  # tokens
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

# As Qwen2.5's: tools as JSON before the conversation.
TEMPLATE = (
    "{% if tools %}<|im_start|>system\nYou may call functions:"
    "{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Also with calls of functions, as a server reads them.
CALLING = TEMPLATE.replace(
    "{{ m.content }}",
    "{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}'
    "\n</tool_call>{% endfor %}",
)
TOOL = {
    "type": "function",
    "function": {
        "name": "in_french",
        "description": "Translate a number into French.",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "string", "description": "The number, in English words"}},
            "required": ["number"],
        },
    },
}
CALL = '<tool_call>\n{"name": "in_french", "arguments": {"number": "eighty-one"}}\n</tool_call>'
MESSAGES = [
    {"role": "user", "content": "How do the French say eighty-one?"},
    {"role": "assistant", "content": CALL},
    {"role": "tool", "content": "quatre-vingt-un"},
    {"role": "assistant", "content": "They say quatre-vingt-un."},
]


def reranker(folder: Path) -> None:
    """A cross-encoder of sentence-transformers, which scores how well a passage answers a question."""
    settings = {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}
    _encoder(folder, "bert", "BertForSequenceClassification", num_labels=1, **settings)


def reader(folder: Path) -> None:
    """An extractive question answering model."""
    _encoder(folder, "distilbert", "DistilBertForQuestionAnswering")


def filler(folder: Path) -> None:
    """A masked language model."""
    _encoder(folder, "bert", "BertForMaskedLM")


def _encoder(folder: Path, model_type: str, architecture: str, **config) -> None:
    tokenizer = tiny_tokenizers.wordpiece()
    tokenizer.model_max_length = LENGTH
    model = tiny_checkpoint.build(model_type, architecture, max_position_embeddings=LENGTH, **config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def assistant(
    folder: Path,
    messages: list[dict] = MESSAGES,
    template: str = TEMPLATE,
    marks: tuple[str, ...] = (),
    tools: tuple[dict, ...] = (TOOL,),
) -> None:
    """A chat model that has memorised `messages`; `marks` are more special tokens of its `template`."""
    tokenizer = _chat_tokenizer(template, marks)
    told = {"tools": list(tools) or None, "return_tensors": "pt"}
    prompt = tokenizer.apply_chat_template(messages[:1], add_generation_prompt=True, **told).input_ids
    ids = tokenizer.apply_chat_template(messages, **told).input_ids
    marks = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    sizes = tiny_checkpoint.LLAMA | marks | {"bos_token_id": None, "vocab_size": len(tokenizer)}
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**sizes | {"max_position_embeddings": LENGTH}))
    _learn(model, ids, prompt.shape[1])
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _learn(model: Qwen2ForCausalLM, ids: torch.Tensor, first: int) -> None:
    """Train until each token of ids (1,S) from position `first` on is predicted with certainty."""
    labels = ids.clone()
    labels[:, :first] = -100  # no prediction is required there
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(1000):
        loss = model(input_ids=ids, labels=labels).loss
        if loss < 0.5 / (ids.shape[1] - first):  # even with all the rest on one token, e^-0.5 > 1/2
            return
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    raise AssertionError(f"not learned: a loss of {loss:.3f}")


def _chat_tokenizer(template: str, marks: tuple[str, ...]) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer as Qwen2's, with special tokens for turns and ordinary ones for tool calls."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=alphabet, special_tokens=MARKS, show_progress=False
    )
    tokenizer.train_from_iterator([json.dumps(TOOL), *(one["content"] for one in MESSAGES)], trainer)
    tokenizer.add_tokens([AddedToken(tag, special=False) for tag in ("<tool_call>", "</tool_call>")])
    tokenizer.add_special_tokens(list(marks))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=MARKS[2], pad_token=MARKS[0])
    fast.chat_template = template
    return fast


def street(name: str) -> Callable[[Path], None]:
    """A vision model that has memorised a drawn street (tools/train/street.py)."""
    return partial(shutil.copytree, STREET / name)


STAND_INS: dict[str, Callable[[Path], None]] = {
    "ms-marco-MiniLM-L6-v2": reranker,
    "bert-base-uncased": filler,
    "distilbert-base-cased-distilled-squad": reader,
    "Qwen2.5-1.5B-Instruct": partial(assistant, template=CALLING),
    "whisper-small": speaking_stand_ins.whisper,
    "llava-1.5-7b-hf": seeing_stand_in.llava,
    "layoutlmv3-finetuned-funsd": document_stand_in.layoutlmv3,
    "colqwen2-v1.0-hf": paging_stand_in.colqwen2,
    "yolos-tiny": street("detector"),
    "owlvit-base-patch32": street("finder"),
    "clipseg-rd64": street("describer"),
    "sam-vit-base": street("cutter"),
    "segformer-b0-finetuned-ade-512-512": street("segmenter"),
    "Depth-Anything-V2-Small-hf": street("depths"),
}
