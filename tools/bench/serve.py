"""Throughput and stability of a server with many clients at once.

python tools/bench/serve.py throughput BUNDLE    generations at once, and in turn: medians of rounds
python tools/bench/serve.py embeddings BUNDLE    10,000 texts by 64 clients
python tools/bench/serve.py load BUNDLE          200 clients for a minute: some disconnect, some send their
request slowly, some send malformed requests

The bundle is served by a process of its own. Every response is compared with the model's own result. A wrong
response, a lost request or growing memory makes the exit code 1.
"""

import argparse
import asyncio
import http.client
import json
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np

import txexport

PROMPTS = ("def ", "class ", "import ", "for i in ", "if x ", "return ", "with open(", "raise ")
TEXTS = 26  # distinct prompts under load
MALFORMED = (b"{", b"[]", b'{"model": "it"}', b'{"model": "it", "prompt": 3}', b"\xff\x00")
SLACK = 1.15  # growth of memory between the second third of a load and the last


class Server:
    """`txexport serve` in a process of its own."""

    def __init__(self, bundle: Path, threads: int | None):
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        options = ["--port", str(self.port), "--max-waiting", "1000"]
        options += ["--threads", str(threads)] if threads else []
        command = [sys.executable, "-m", "txexport", "serve", f"it={bundle}", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.address, self.own = f"http://127.0.0.1:{self.port}", threading.local()

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
        """Memory of the server in megabytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        raise SystemExit("the server is gone")

    def post(self, path: str, body: dict) -> dict:
        """Send a request over a connection per thread and return the response.

        A client in a thread takes less of the processor than an asynchronous one of many connections, which
        can take more than the server.
        """
        if not hasattr(self.own, "connection"):
            self.own.connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self.own.connection.request("POST", path, json.dumps(body))
        answer = self.own.connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise SystemExit(f"the server answered {answer.status}: {content.decode()}")
        return json.loads(content)

    def client(self) -> httpx.AsyncClient:
        """An asynchronous client with any number of connections, which can disconnect."""
        return httpx.AsyncClient(
            base_url=self.address, timeout=600, limits=httpx.Limits(max_connections=None)
        )


def prompt(number: int) -> str:
    """The prompt of a request."""
    return f"{PROMPTS[number % len(PROMPTS)]}{chr(97 + number % 26)}"


async def complete(client: httpx.AsyncClient, number: int, tokens: int, pause: float = 0) -> str:
    """The server's completion; with a `pause`, the request is sent in pieces, that many seconds apart."""
    request = {"model": "it", "prompt": prompt(number), "max_tokens": tokens, "temperature": 0}
    body = json.dumps(request).encode()
    answer = await client.post("/v1/completions", content=in_drips(body, pause) if pause else body)
    answer.raise_for_status()
    return answer.json()["choices"][0]["text"]


async def in_drips(body: bytes, pause: float) -> AsyncIterator[bytes]:
    """A body in pieces of 20 bytes."""
    for start in range(0, len(body), 20):
        yield body[start : start + 20]
        await asyncio.sleep(pause)


async def refused(client: httpx.AsyncClient, number: int) -> bool:
    """Tell whether a malformed request is rejected with the right status."""
    answer = await client.post("/v1/completions", content=MALFORMED[number % len(MALFORMED)])
    return answer.status_code == 400


class Watch:
    """The server's memory over time, in megabytes."""

    def __init__(self, server: Server):
        self.server, self.memory = server, [server.memory]

    async def run(self) -> None:
        """Record the memory every second, until cancelled."""
        while True:
            await asyncio.sleep(1)
            self.memory.append(self.server.memory)

    @property
    def thirds(self) -> tuple[float, float]:
        """The medians of the second third, after warm-up, and of the last."""
        third = max(1, len(self.memory) // 3)
        return statistics.median(self.memory[third : 2 * third] or self.memory), statistics.median(
            self.memory[-third:]
        )

    @property
    def flat(self) -> bool:
        """Tell whether the memory does not grow."""
        before, after = self.thirds
        return after < SLACK * before

    def __str__(self) -> str:
        before, after = self.thirds
        return f"memory {before:,.0f} MB, then {after:,.0f}, at most {max(self.memory):,.0f}"


async def throughput(bundle: Path, threads: int | None, count: int = 16, tokens: int = 64) -> bool:
    """Print tokens per second of `count` clients at once and one after another."""
    with txexport.load(bundle, threads=threads) as model:
        expected = [model.generate(prompt(n), max_new_tokens=tokens, do_sample=False) for n in range(count)]
        serial_times = []
        for _ in range(3):
            start = time.perf_counter()
            for number in range(count):
                model.generate(prompt(number), max_new_tokens=tokens, do_sample=False)
            serial_times.append(time.perf_counter() - start)
    turns, together, equal = [], [], True
    with Server(bundle, threads) as server, ThreadPoolExecutor(count) as pool:

        def ask(number: int) -> str:
            body = {"model": "it", "prompt": prompt(number), "max_tokens": tokens, "temperature": 0}
            return server.post("/v1/completions", body)["choices"][0]["text"]

        for _ in range(8):
            start = time.perf_counter()
            texts = [pool.submit(ask, number).result() for number in range(count)]
            turns.append(time.perf_counter() - start)
            start = time.perf_counter()
            more = list(pool.map(ask, range(count)))
            together.append(time.perf_counter() - start)
            equal &= texts == more == expected
    generated = count * tokens
    serial, turn = (
        statistics.median(serial_times),
        statistics.median(turns[1:]),
    )  # the first round is a warm-up
    batch = statistics.median(together[1:])
    print(
        f"generate, one after another: {generated / serial:,.0f} tokens/s; served so: {generated / turn:,.0f}"
    )
    print(f"served, {count} at once: {generated / batch:,.0f} tokens/s, {turn / batch:.2f} times as many; "
          f"{'all equal' if equal else 'NOT EQUAL'}")  # fmt: skip
    return equal


async def embeddings(bundle: Path, threads: int | None, count: int = 10_000, clients: int = 64) -> bool:
    """Print texts per second of many embedding clients, one text per request."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(clients))
    texts = [f"{prompt(number)} {number} " * (1 + number % 5) for number in range(count)]
    with txexport.load(bundle, threads=threads) as model:
        start = time.perf_counter()
        expected = model.embed(texts)
        direct = time.perf_counter() - start
    vectors, left = np.zeros_like(expected), iter(range(count))
    with Server(bundle, threads) as server:

        def work() -> None:
            for number in left:
                answer = server.post("/v1/embeddings", {"model": "it", "input": texts[number]})
                vectors[number] = answer["data"][0]["embedding"]

        watch, start = Watch(server), time.perf_counter()
        watching = asyncio.create_task(watch.run())
        await asyncio.gather(*(asyncio.to_thread(work) for _ in range(clients)))
        seconds = time.perf_counter() - start
        watching.cancel()
    error = float(np.abs(vectors - expected).max())
    print(f"embed of all: {count / direct:,.0f} texts/s; {clients} clients of single texts: "
          f"{count / seconds:,.0f} texts/s, at most {error:.1e} apart; {watch}")  # fmt: skip
    return error < 1e-5 and watch.flat


async def load(bundle: Path, threads: int | None, clients: int = 200, seconds: float = 60) -> bool:
    """Send requests of all clients for a while; print counts of the outcomes.

    Of five clients, one disconnects now and then, one sends slowly, one sometimes sends a malformed request.
    """
    lengths = (1, 4, 16, 32)
    with txexport.load(bundle, threads=threads) as model:
        expected = {
            (n, tokens): model.generate(prompt(n), max_new_tokens=tokens, do_sample=False)
            for n in range(TEXTS)
            for tokens in lengths
        }
    done, wrong, gone, bad = 0, 0, 0, 0
    with Server(bundle, threads) as server:
        async with server.client() as client:
            end = time.monotonic() + seconds

            async def work(place: int) -> None:
                nonlocal done, wrong, gone, bad
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
                    if place % 5 == 1 and rng.random() < 0.5:
                        wrong += not await refused(client, number)
                        bad += 1
                        continue
                    pause = 0.05 if place % 5 == 2 else 0.0
                    wrong += await complete(client, number, tokens, pause) != expected[number, tokens]
                    done += 1

            watch = Watch(server)
            watching = asyncio.create_task(watch.run())
            await asyncio.gather(*map(work, range(clients)))
            watching.cancel()
            text = (await client.get("/metrics")).text
            left = [line for line in text.splitlines() if line.startswith("txexport_running_texts{")]
    print(f"{done} answers and {bad} refusals, {wrong} of them wrong; {gone} clients gone; "
          f"{left[0]} in the end; {watch}")  # fmt: skip
    return done > 0 and not wrong and left[0].endswith(" 0.0") and watch.flat


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["throughput", "embeddings", "load"])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    run = {"throughput": throughput, "embeddings": embeddings, "load": load}[options.what]
    sys.exit(0 if asyncio.run(run(options.bundle, options.threads)) else 1)
