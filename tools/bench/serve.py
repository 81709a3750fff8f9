"""What a server gives many clients at once, beside the same in turn, and whether it holds under load.

    python tools/bench/serve.py throughput BUNDLE    generations at once, and in turn: medians of rounds
    python tools/bench/serve.py embeddings BUNDLE    10,000 texts by 64 clients
    python tools/bench/serve.py load BUNDLE          200 clients for a minute, some of which vanish

The bundle is served by a process of its own. Every answer is held against the model's own: one that differs,
a request that is lost, or memory that grows ends it with 1.
"""

import argparse
import asyncio
import random
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np

import txexport

PROMPTS = ("def ", "class ", "import ", "for i in ", "if x ", "return ", "with open(", "raise ")
TEXTS = 26  # that a load asks for
SLACK = 1.15  # of memory between the first third of a load and its end


class Server:
    """`txexport serve` in a process of its own."""

    def __init__(self, bundle: Path, threads: int | None):
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        given = ["--port", str(self.port), "--max-waiting", "1000"]
        given += ["--threads", str(threads)] if threads else []
        command = [sys.executable, "-m", "txexport", "serve", f"it={bundle}", *given]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.address = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "Server":
        while True:
            try:
                httpx.get(f"{self.address}/health")
                return self
            except httpx.ConnectError:
                if self.process.poll() is not None:
                    raise SystemExit("the server did not start") from None
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        if self.process.wait(90):
            raise SystemExit(f"the server ended with {self.process.returncode}")

    @property
    def memory(self) -> float:
        """Megabytes that it holds."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        raise SystemExit("the server is gone")

    def client(self) -> httpx.AsyncClient:
        """One that may have any number of connections."""
        return httpx.AsyncClient(
            base_url=self.address, timeout=600, limits=httpx.Limits(max_connections=None)
        )


def prompt(number: int) -> str:
    """The text of a request."""
    return f"{PROMPTS[number % len(PROMPTS)]}{chr(97 + number % 26)}"


async def complete(client: httpx.AsyncClient, number: int, tokens: int) -> str:
    """The text that the server goes on with."""
    asked = {"model": "it", "prompt": prompt(number), "max_tokens": tokens, "temperature": 0}
    answer = await client.post("/v1/completions", json=asked)
    answer.raise_for_status()
    return answer.json()["choices"][0]["text"]


async def throughput(bundle: Path, threads: int | None, count: int = 16, tokens: int = 64) -> bool:
    """Print how many tokens a second `count` clients get at once and one after another."""
    with txexport.load(bundle, threads=threads) as model:
        expected = [model.generate(prompt(n), max_new_tokens=tokens, do_sample=False) for n in range(count)]
        alone = []
        for _ in range(3):
            start = time.perf_counter()
            for number in range(count):
                model.generate(prompt(number), max_new_tokens=tokens, do_sample=False)
            alone.append(time.perf_counter() - start)
    turns, together, equal = [], [], True
    with Server(bundle, threads) as server:
        async with server.client() as client:
            for _ in range(4):
                start = time.perf_counter()
                texts = [await complete(client, number, tokens) for number in range(count)]
                turns.append(time.perf_counter() - start)
                start = time.perf_counter()
                more = await asyncio.gather(*(complete(client, number, tokens) for number in range(count)))
                together.append(time.perf_counter() - start)
                equal &= texts == list(more) == expected
    made = count * tokens
    serial, turn = statistics.median(alone), statistics.median(turns[1:])  # the first round warms up
    batch = statistics.median(together[1:])
    print(f"generate, one after another: {made / serial:,.0f} tokens/s; served so: {made / turn:,.0f}")
    print(f"served, {count} at once: {made / batch:,.0f} tokens/s, {turn / batch:.2f} times as many; "
          f"{'all equal' if equal else 'NOT EQUAL'}")  # fmt: skip
    return equal


async def embeddings(bundle: Path, threads: int | None, count: int = 10_000, clients: int = 64) -> bool:
    """Print how many texts a second many clients get embedded, a text a request."""
    texts = [f"{prompt(number)} {number} " * (1 + number % 5) for number in range(count)]
    with txexport.load(bundle, threads=threads) as model:
        start = time.perf_counter()
        expected = model.embed(texts)
        alone = time.perf_counter() - start
    found = np.zeros_like(expected)
    with Server(bundle, threads) as server:
        async with server.client() as client:
            left = iter(range(count))

            async def work() -> None:
                for number in left:
                    asked = {"model": "it", "input": texts[number]}
                    answer = await client.post("/v1/embeddings", json=asked)
                    found[number] = answer.raise_for_status().json()["data"][0]["embedding"]

            start = time.perf_counter()
            await asyncio.gather(*(work() for _ in range(clients)))
            seconds = time.perf_counter() - start
    error = float(np.abs(found - expected).max())
    print(f"embed of all: {count / alone:,.0f} texts/s; {clients} clients of single texts: "
          f"{count / seconds:,.0f} texts/s, at most {error:.1e} apart")  # fmt: skip
    return error < 1e-5


async def load(bundle: Path, threads: int | None, clients: int = 200, seconds: float = 60) -> bool:
    """Let clients ask for a while, every fifth of which vanishes now and then; print what became of them."""
    lengths = (1, 4, 16, 32)
    with txexport.load(bundle, threads=threads) as model:
        expected = {
            (n, tokens): model.generate(prompt(n), max_new_tokens=tokens, do_sample=False)
            for n in range(TEXTS)
            for tokens in lengths
        }
    done, wrong, gone, memory = 0, 0, 0, []
    with Server(bundle, threads) as server:
        async with server.client() as client:
            end = time.monotonic() + seconds

            async def work(place: int) -> None:
                nonlocal done, wrong, gone
                rng = random.Random(place)
                while time.monotonic() < end:
                    number, tokens = rng.randrange(TEXTS), rng.choice(lengths)
                    if place % 5 == 0 and rng.random() < 0.5:
                        try:
                            async with asyncio.timeout(rng.random() * 0.5):
                                await complete(client, number, tokens)
                        except TimeoutError:
                            gone += 1
                        continue
                    wrong += await complete(client, number, tokens) != expected[number, tokens]
                    done += 1

            async def watch() -> None:
                while time.monotonic() < end:
                    memory.append(server.memory)
                    await asyncio.sleep(1)

            await asyncio.gather(watch(), *map(work, range(clients)))
            text = (await client.get("/metrics")).text
            left = [line for line in text.splitlines() if line.startswith("txexport_running_texts{")]
    third = max(memory[: max(1, len(memory) // 3)])
    print(f"{done} answers, {wrong} of them wrong; {gone} clients gone; {left[0]} in the end; "
          f"memory {third:,.0f} MB, then {max(memory):,.0f}")  # fmt: skip
    return not wrong and left[0].endswith(" 0.0") and max(memory) < SLACK * third


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["throughput", "embeddings", "load"])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    run = {"throughput": throughput, "embeddings": embeddings, "load": load}[given.what]
    sys.exit(0 if asyncio.run(run(given.bundle, given.threads)) else 1)
