"""Throughput of a sentence encoder by number of worker processes, each with one thread.

python tools/bench/scale.py CHECKPOINT [--workers 1,2,4] [--texts 4000] [--words 60] [--json FILE]

CHECKPOINT is a sentence encoder. Prints, for each number of workers, texts per second of wall time and per
second of processor time, which other load hardly changes, and the core hours that a billion texts would take.
--price 0.04, per core hour, adds the cost.
"""

import argparse
import contextlib
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from models import Worker

BILLION = 10**9


def measure(workers: list[Worker], case: dict) -> dict[str, float]:
    """Texts per second of wall and of processor time, with all workers busy at once."""
    with ThreadPoolExecutor(len(workers)) as pool:
        answers = list(pool.map(lambda worker: worker.run(case), workers))
    bad = [answer["error"] for answer in answers if "error" in answer]
    if bad:
        raise SystemExit(f"error: a worker does not take part: {bad[0]}")
    count = case["batch"] * len(workers)
    rate = count / sum(answer["cpu"] for answer in answers)
    return {
        "workers": len(workers),
        "texts_per_second": count / max(answer["elapsed"] for answer in answers),
        "texts_per_core_second": rate,
        "core_hours_per_billion": BILLION / rate / 3600,
    }


def main() -> None:
    """Measure each number of workers, after a warm-up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--texts", type=int, default=4000)
    parser.add_argument("--words", type=int, default=60)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--price", type=float, help="of a core hour")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    counts = [int(count) for count in options.workers.split(",")]
    case, results = {"kind": "embed", "batch": options.texts, "source": options.words}, []
    with tempfile.TemporaryDirectory() as work, contextlib.ExitStack() as stack:
        workers = []
        for place in range(max(counts)):
            folder = Path(work) / str(place)
            workers.append(Worker(f"txexport {options.dtype}", sys.executable, options.checkpoint, folder, 1))
            stack.callback(workers[-1].close)
            if workers[-1].error:
                raise SystemExit(f"error: a worker does not take part: {workers[-1].error}")
        measure(workers, case | {"batch": 64})
        for count in counts:
            results.append(measure(workers[:count], case))
            line = (
                "{workers} workers: {texts_per_second:.0f} texts/s, {texts_per_core_second:.0f} a core and "
            )
            line += "second, {core_hours_per_billion:,.0f} core hours for a billion"
            cost = options.price and results[-1]["core_hours_per_billion"] * options.price
            print(line.format(**results[-1]) + (f", {cost:,.2f} to pay" if cost else ""), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
