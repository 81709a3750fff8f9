"""A conversation in the terminal: its answers are those of transformers, turn by turn."""

import json
import os
import pty
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner
from helpers import pictured
from helpers.stand_ins import MESSAGES, assistant
from transformers import AutoModelForCausalLM, AutoTokenizer

from txexport import export, load
from txexport.cli.chat import PROMPT, Chat
from txexport.cli.main import main

TURNS = [MESSAGES[0]["content"], "And forty-two?", "Thank you."]
LENGTH = 12


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat") / "checkpoint"
    assistant(folder)
    return folder


@pytest.fixture(scope="module")
def chatter(checkpoint):
    export(checkpoint, checkpoint.parent / "chatter", only="native")
    return checkpoint.parent / "chatter"


@pytest.fixture(scope="module")
def seer(tmp_path_factory):
    """A bundle that reads images."""
    folder = tmp_path_factory.mktemp("seer")
    pictured.save(folder / "checkpoint")
    export(folder / "checkpoint", folder / "bundle", only="native")
    return folder / "bundle"


def chat(folder, lines, *options):
    text = "".join(f"{line}\n" for line in lines)
    arguments = ["chat", str(folder), "--max-new-tokens", str(LENGTH), *map(str, options)]
    return CliRunner().invoke(main, arguments, input=text)


def originals(folder, turns, system=None) -> list[str]:
    """transformers' greedy answers, each of which becomes part of the next prompt."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    messages = [] if system is None else [{"role": "system", "content": system}]
    answers = []
    for turn in turns:
        messages.append({"role": "user", "content": turn})
        ids = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt"
        ).input_ids
        written = model.generate(ids, do_sample=False, max_new_tokens=LENGTH)[0, ids.shape[1] :]
        answers.append(tokenizer.decode(written, skip_special_tokens=True))
        messages.append({"role": "assistant", "content": answers[-1]})
    return answers


@pytest.mark.parametrize("system", [None, "You translate numbers."])
def test_several_turns_are_those_of_transformers(checkpoint, chatter, system):
    expected = originals(checkpoint, TURNS, system)
    assert len(set(expected)) > 1
    options = () if system is None else ("--system", system)
    result = chat(chatter, TURNS, "--json", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines == [{"message": turn, "answer": text} for turn, text in zip(TURNS, expected, strict=True)]
    assert chat(chatter, TURNS, *options).stdout == "".join(f"{text}\n" for text in expected)


def test_commands_change_what_the_model_reads(checkpoint, chatter, tmp_path):
    """After /clear the conversation begins again, under the system message that /system has set."""
    lines = [
        TURNS[1],
        "/system You translate numbers.",
        "/clear",
        TURNS[0],
        f"/save {tmp_path / 'talk.json'}",
        "",
    ]
    result = chat(chatter, lines)
    first = originals(checkpoint, TURNS[1:2])
    second = originals(checkpoint, TURNS[:1], "You translate numbers.")
    assert (result.exit_code, result.stdout) == (0, f"{first[0]}\n{second[0]}\n")
    saved = json.loads((tmp_path / "talk.json").read_text())["messages"]
    assert [(one["role"], one["content"]) for one in saved] == [
        ("system", "You translate numbers."),
        ("user", TURNS[0]),
        ("assistant", second[0]),
    ]
    listed = chat(chatter, ["/help"]).stderr
    assert [line.split()[0] for line in listed.splitlines()] == [
        "/image",
        "/audio",
        "/system",
        "/clear",
        "/save",
        "/help",
    ]


def test_save_replaces_a_conversation_and_nothing_else(chatter, tmp_path):
    files = [tmp_path / name for name in ("talk.json", "page.png", "list.json", "empty")]
    contents = [b'{"messages": []}', b"\x89PNG\r\n", b'{"messages": [], "other": 1}', b""]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    for file in (files[0], files[3]):
        result = chat(chatter, ["/system Be brief.", f"/save {file}"])
        assert (result.exit_code, result.output) == (0, "")
        assert json.loads(file.read_text())["messages"][0]["content"] == "Be brief."
    for file, content in zip(files[1:3], contents[1:3], strict=True):
        result = chat(chatter, [f"/save {file}"])
        refusal = f"error: {file} exists and holds no conversation; /save to another file\n"
        assert (result.exit_code, result.stderr, file.read_bytes()) == (2, refusal, content)
    result = chat(chatter, [f"/save {chatter / 'config.json'}"])
    assert (result.exit_code, "would be inside a bundle" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/sing", "there is no command /sing; /help lists them"),
        ("/save", "/save needs the path of a file"),
        ("/image a.png", "chatter (qwen2) reads no images"),
    ],
)
def test_a_command_that_cannot_be_obeyed_is_one_line(chatter, text, message):
    result = chat(chatter, [text])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.endswith(f"{message}\n")
    assert "<" not in result.stderr


@pytest.mark.parametrize(
    ("model_type", "message"),
    [
        ("gpt2", "has no chat template; generate takes a prompt as text"),
        ("bert", "needs an export with --task text-generation"),
    ],
)
def test_what_cannot_converse_says_so_at_once(model_type, message, bundle_of):
    result = chat(bundle_of(model_type), ["Hello"])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert message in result.stderr


def test_images_belong_to_the_next_message(seer, tmp_path):
    pictured.picture(40, 30).save(tmp_path / "a b.png")
    image = {"type": "image", "image": str(tmp_path / "a b.png")}
    messages = [{"role": "user", "content": [image, {"type": "text", "text": "the cat"}]}]
    with load(seer, device="cpu") as model:
        expected = [model.chat(messages, max_new_tokens=LENGTH)]
        messages.append({"role": "assistant", "content": [{"type": "text", "text": expected[0]}]})
        messages.append({"role": "user", "content": [{"type": "text", "text": "a dog"}]})
        expected.append(model.chat(messages, max_new_tokens=LENGTH))
    result = chat(seer, [f"/image {tmp_path / 'a b.png'}", "the cat", "a dog"], "--json")
    assert [json.loads(line)["answer"] for line in result.stdout.splitlines()] == expected
    (tmp_path / "none.png").write_text("none")
    assert "none.png cannot be read" in chat(seer, [f"/image {tmp_path / 'none.png'}"]).stderr


def test_ctrl_c_stops_the_answer_and_keeps_its_beginning(chatter, monkeypatch, capsys):
    def interrupted(messages, **_):
        yield from ("They ", "say ")
        raise KeyboardInterrupt

    with load(chatter, device="cpu") as model:
        for interactive in (True, False):
            talk = Chat(model, {}, interactive=interactive)
            talk.answers = interrupted
            if not interactive:
                with pytest.raises(KeyboardInterrupt):
                    talk.read("Why?")
                return
            talk.read("Why?")
            assert talk.messages[1:] == [{"role": "assistant", "content": "They say "}]
            assert capsys.readouterr().out == "They say \n"


def test_answers_end_where_the_model_has_no_more_room(chatter):
    """A number of new tokens that a long conversation leaves no room for shortens answers; it is no error."""
    result = chat(chatter, ["one two " * 150], "--json", "--max-new-tokens", 2000)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["answer"]


def test_at_a_terminal_errors_go_on_ctrl_c_stops_an_answer_and_ctrl_d_ends(checkpoint, chatter, tmp_path):
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "txexport", "chat", str(chatter), "--max-new-tokens", "4000"]
    command += ["--set", "suppress_tokens=[0,1,2]"]  # so that no answer ends by itself
    process = subprocess.Popen(command, stdin=end, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.close(end)
    os.write(terminal, f"/sing\n{TURNS[0]}\n".encode())
    begun = b""
    while len(begun) < 2 * len(PROMPT) + 12:
        begun += os.read(process.stdout.fileno(), 100)
    process.send_signal(signal.SIGINT)
    os.write(terminal, f"/save {tmp_path / 'talk.json'}\n\x04".encode())
    rest, noise = process.communicate(timeout=120)
    os.close(terminal)
    assert process.returncode == 0
    assert b"error: there is no command /sing; /help lists them\n" in noise
    assert b"Ctrl-D ends." in noise
    question, answer = json.loads((tmp_path / "talk.json").read_text())["messages"]
    assert (question["content"], answer["role"]) == (TURNS[0], "assistant")
    assert answer["content"].encode() in begun + rest
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    assert 0 < len(tokenizer(answer["content"]).input_ids) < 3900
