"""Train a LLaMA-like chat model that answers simple questions and calls functions.

python tools/train/chatter.py [FOLDER]

RMSNorm, SwiGLU, RoPE, grouped-query attention (Touvron et al. 2023), in the chat format of Qwen2.5: roles
between marks, calls as JSON between tags. A program composes the conversations; nothing is collected.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import _calls
import _loop
import _talk
import click
import numpy as np
import torch
from _facts import NAMES
from jinja2.sandbox import ImmutableSandboxedEnvironment
from numpy.random import Generator
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from txmodels.model import Transformer
from txmodels.training import checkpoints, metrics, objectives, optimisation

FOLDER = Path(__file__).parents[2] / "models/pretrained/chatter"
TEMPLATE = Path(__file__).with_name("chat_template.jinja")
VOCAB, LONGEST, TOKENS = 1536, 1024, 2048  # TOKENS: of one step's batch
WINDOW, LONG_FROM = 256, 0.9  # tokens of a row; LONGEST after that fraction of the steps
PAD, START, END = 0, 1, 2
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TAGS = ["<tool_call>", "</tool_call>"]
SPLIT = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"  # each digit alone
SYSTEMS = ["You are a helpful assistant.", "You help.", "Answer the user.", "Be kind and clear."]
WARM, COOL = 100, 0.25  # steps of warm-up; the fraction in which the learning rate falls to 0
KINDS = ("answers", "calls", "results")  # of held-out examples
OTHERS = 0.2  # the weight of tokens that the assistant does not write
FEW = 100  # held-out examples of each kind, published with the checkpoint


class Conversation(NamedTuple):
    """Messages, and the functions that they may call, both in OpenAI's format."""

    messages: list[dict]
    tools: list[dict]


@cache
def template() -> Callable[..., str]:
    """The chat template, rendered as transformers does."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render


def render(conversation: Conversation, generation: bool = False) -> str:
    """The text of a conversation."""
    return template()(
        messages=conversation.messages, tools=conversation.tools or None, add_generation_prompt=generation
    )


def talk(random: Generator, name: str) -> list[_talk.Turn]:
    """Turns of one topic, none of which is held out; `name` is the assistant's."""
    while any(map(_talk.held_out, turns := _talk.turns(random))):
        pass
    return [_talk.Turn(turn.question, turn.answer.replace(_talk.NAME, name), turn.key) for turn in turns]


def compose(random: Generator, enough: int) -> Conversation:
    """A conversation of about `enough` characters, half of them with functions."""
    messages: list[dict] = []
    name, system = _talk.NAME, random.random()
    if system < 0.15:
        name = _talk.one(random, NAMES)
        form = _talk.one(random, ["Your name is {}.", "You are {}.", "You are {}, an assistant."])
        messages.append({"role": "system", "content": form.format(name)})
    elif system < 0.35:
        messages.append({"role": "system", "content": _talk.one(random, SYSTEMS)})
    functions = _calls.functions(random) if random.random() < 0.5 else []
    schemas = [function.schema() for function in functions]
    ask = partial(_talk.casual, random)
    size, questions = len(json.dumps(schemas)) if schemas else 0, ""
    first = len(messages)
    while size < enough or len(messages) == first:
        if functions and random.random() < 0.7:
            added = _calls.exchange(random, _talk.one(random, functions), ask)
        else:
            turns = talk(random, name)
            if _contradicts(turns, questions, functions):
                continue
            questions += " ".join(turn.question for turn in turns)
            added = [m for turn in turns for m in _messages(turn._replace(question=ask(turn.question)))]
        messages += added
        size += sum(len(str(message)) - 34 for message in added)
    return Conversation(messages, schemas)


def _contradicts(turns: list[_talk.Turn], questions: str, functions: list[_calls.Function]) -> bool:
    """Tell whether an answer is wrong after earlier `questions`, or where a function answers."""
    if functions and any(
        turn.answer == _talk.NO_TOOL or turn.key.startswith("sum") or turn.answer == _talk.UNKNOWN
        for turn in turns
    ):
        return True
    return bool(questions) and any(turn.answer.startswith("You have not told") for turn in turns)


def make_tokenizer() -> Tokenizer:
    """A byte-level BPE tokenizer of composed conversations, in which each digit is a token."""
    random = np.random.default_rng(0)
    texts = [render(compose(random, 1500)) for _ in range(3000)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - len(TAGS),
        special_tokens=SPECIAL,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in TAGS])
    return tokenizer


def config() -> dict:
    """The architecture as a config of transformers."""
    return {
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 384,
        "max_position_embeddings": LONGEST,
        "tie_word_embeddings": True,
        "pad_token_id": PAD,
        "bos_token_id": START,
        "eos_token_id": END,
    }


def batch(tokenizer: Tokenizer, random: Generator, window: int) -> tuple[Tensor, Tensor]:
    """Ids of conversations (B,S), padded on the right, and 1 (B,S) at tokens that the assistant writes."""
    rows = [render(compose(random, 3 * window)) for _ in range(TOKENS // window)]
    ids = np.full((len(rows), window), PAD)
    for row, encoding in zip(ids, tokenizer.encode_batch(rows, add_special_tokens=False), strict=True):
        row[: len(encoding.ids)] = encoding.ids[:window]
    return torch.from_numpy(ids), torch.from_numpy(written(tokenizer, ids))


def written(tokenizer: Tokenizer, ids: np.ndarray) -> np.ndarray:
    """1 at the tokens that the assistant writes, the end of its turn included: (B,S) of ids (B,S)."""
    head = [START, *tokenizer.encode("assistant\n", add_special_tokens=False).ids]
    result = np.zeros_like(ids)
    for row, marks in zip(ids, result, strict=True):
        ends = np.flatnonzero(row == END)
        for at in np.flatnonzero(row == START):
            if row[at : at + len(head)].tolist() == head:
                after = ends[ends > at]
                marks[at + len(head) : after[0] + 1 if len(after) else len(row)] = 1
    return result


def loss(model: Transformer, ids: Tensor, marks: Tensor) -> Tensor:
    """The loss of the assistant's tokens, and a part of that of what it reads."""
    logits, _ = model.decode(ids, model.empty_past(len(ids)))
    read = (marks == 0) & (ids != PAD)
    return objectives.causal_loss(logits, ids, marks) + OTHERS * objectives.causal_loss(logits, ids, read)


def examples() -> Iterator[dict]:
    """Held-out examples, FEW of each kind: `messages` and `tools` of a request, and the `answer`."""
    random = np.random.default_rng(1)
    for _ in range(FEW):
        while not _talk.held_out((turns := _talk.turns(random))[-1]):
            pass
        messages = [message for turn in turns for message in _messages(turn)]
        yield {"kind": "answers", "messages": messages[:-1], "tools": [], "answer": messages[-1]["content"]}
    for kind in ("calls", "results"):
        for _ in range(FEW):
            functions = _calls.functions(random)
            function = _talk.one(random, functions)
            while not _calls.held_out_call(function, request := function.request(random, False)):
                pass
            call = _calls.message_of((function, request))
            messages = [{"role": "user", "content": request.question}]
            answer = render(Conversation([call], []))[len("<|im_start|>assistant\n") : -len("<|im_end|>\n")]
            if kind == "results":
                messages += [call, {"role": "tool", "content": request.result}]
                answer = request.answer
            tools = [each.schema() for each in functions]
            yield {"kind": kind, "messages": messages, "tools": tools, "answer": answer}


def _messages(turn: _talk.Turn) -> list[dict]:
    return [{"role": "user", "content": turn.question}, {"role": "assistant", "content": turn.answer}]


@torch.inference_mode()
def answers(model: Transformer, tokenizer: Tokenizer, prompts: list[str], longest: int = 80) -> list[str]:
    """Greedy answers to prompts, of `longest` tokens at most."""
    result = []
    for prompt in prompts:
        read = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False).ids])
        logits, past = model.decode(read, model.empty_past(1))
        ids = [int(logits[0, -1].argmax())]
        while ids[-1] != END and len(ids) < longest:
            logits, past = model.decode(torch.tensor([ids[-1:]]), past)
            ids.append(int(logits[0, -1].argmax()))
        result.append(
            tokenizer.decode([number for number in ids if number != END], skip_special_tokens=False)
        )
    return result


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=FOLDER)
@click.option("--steps", default=2500, show_default=True, help="Steps of training.")
def main(folder: Path, steps: int) -> None:
    """Train the chat model and write its checkpoint to FOLDER."""
    part = _loop.part_of(folder)
    tokenizer = make_tokenizer()
    checkpoints.create(part, config(), "LlamaForCausalLM")
    model = checkpoints.load(part)
    assert isinstance(model, Transformer)
    print(f"{_loop.parameters(model):,} parameters, {tokenizer.get_vocab_size()} tokens")

    def loss_of(step: int) -> Tensor:
        window = WINDOW if step < LONG_FROM * steps else LONGEST
        return loss(model, *batch(tokenizer, np.random.default_rng([0, step]), window))

    optimizer = optimisation.adamw(model, 3e-3, decay=0.1, beta2=0.95)
    schedule = LambdaLR(optimizer, lambda step: min((step + 1) / WARM, (steps - step) / (COOL * steps), 1.0))
    _loop.train(model, loss_of, optimizer, schedule, steps, part, tokenizer.to_str())
    checkpoints.save(model, part, like=part, dtype=torch.float16)
    saved = checkpoints.load(part)
    assert isinstance(saved, Transformer)
    heldout = list(examples())
    prompts = [render(Conversation(one["messages"], one["tools"]), generation=True) for one in heldout]
    predicted = answers(saved, tokenizer, prompts)
    scores = {}
    for kind in KINDS:
        pairs = [
            (one["answer"], text) for one, text in zip(heldout, predicted, strict=True) if one["kind"] == kind
        ]
        scores[f"exact match, {kind}, on heldout.jsonl"] = (
            f"{metrics.exact_match(*zip(*pairs, strict=True)):.0%}"
        )
    print(scores)
    _loop.write_tokenizer(part, tokenizer, LONGEST, pad_token=SPECIAL[PAD], eos_token=SPECIAL[END])
    shutil.copyfile(TEMPLATE, part / TEMPLATE.name)
    generation = {"bos_token_id": START, "eos_token_id": END, "pad_token_id": PAD, "max_new_tokens": 200}
    _loop.write_json(part / "generation_config.json", generation)
    _loop.write_examples(part / "heldout.jsonl", heldout)
    card = f"""
A small LLaMA-like chat model: four layers, hidden size 128, four query and two key/value heads,
{_loop.parameters(model):,} parameters, {LONGEST} tokens at most. It answers simple questions on
capitals, opposites, small numbers, days, months and units, repeats and spells words, remembers a name,
and calls functions that are described to it, in the format of Qwen2.5 and Hermes. It knows nothing else,
and mostly says so. Its calls are right where names and values are common words; unusual ones, of several
tokens, are often copied with wrong letters.

Data: conversations composed by `tools/train/chatter.py` from tables of facts; {steps * TOKENS:,} tokens
were read. One question in twelve, and one call in twelve, is held out; many names of functions and
arguments are invented, so that they must be read from the schema. `heldout.jsonl` has {FEW} examples
each of answers, calls, and answers from a function's result; all that is not exactly the expected text
counts as wrong.
"""
    title = "Chats, and calls functions"
    _loop.write_card(part, title, card, "python tools/train/chatter.py", scores)
    _loop.finish(part, folder)


if __name__ == "__main__":
    main()
