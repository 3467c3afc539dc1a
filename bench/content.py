"""The content pass beside SHA-256: GiB a second, and false alarms on random and weight-like bytes.

``python -m bench.content [MIB]`` looks through so many MiB of random bytes (1,024 unless given) and a quarter as
many of each of four kinds of weights, from memory, in one thread. What is found there would be false.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable

import numpy as np

from bench import figures
from sandbox.inspect import bytes as content
from sandbox.inspect import payloads

BLOCK = 64 << 20
Rng = np.random.Generator
KINDS: dict[str, Callable[[Rng], bytes]] = {
    "random bytes": lambda rng: rng.bytes(BLOCK),
    "float32 weights": lambda rng: (rng.standard_normal(BLOCK // 4, np.float32) * 0.02).tobytes(),
    "float16 weights": lambda rng: rng.standard_normal(BLOCK // 2, np.float32).astype(np.float16).tobytes(),
    "int8 weights": lambda rng: (rng.standard_normal(BLOCK, "f4") * 25).clip(-128, 127).astype("b").tobytes(),
    "int64 indices": lambda rng: rng.integers(0, 60_000, BLOCK // 8).tobytes(),
}  # fmt: skip


def scan(data: bytes) -> payloads.Scanner:
    """Look through bytes, and at every 64 KiB of them as if a tensor began there."""
    source = content.BytesSource(data)
    scanner = payloads.Scanner(source)
    content.read(source, [scanner])
    for start in range(0, len(data), 1 << 16):
        scanner.begins(start)
    return scanner


def main(arguments: list[str]) -> int:
    """Measure each kind of bytes; 1 when anything was found in them."""
    wanted = int(arguments[0]) if arguments else 1024
    rng = np.random.default_rng(11)
    false, lines = 0, []
    for name, make in KINDS.items():
        blocks = max(1, (wanted if name == "random bytes" else wanted // 4) >> 6)
        scans, hashes = [], []
        candidates = 0
        for _ in range(blocks):
            data = make(rng)
            start = time.process_time()
            scanner = scan(data)
            middle = time.process_time()
            hashlib.sha256(data).digest()
            hashes.append((time.process_time() - middle) * 1000)
            scans.append((middle - start) * 1000)
            candidates += scanner.candidates
            false += len(scanner.hits)
            for hit in scanner.hits:
                print(f"FALSE: {hit}")
        size = BLOCK >> 20
        lines.append(
            figures.against(f"content/{name}", f"content pass over {size} MiB of {name}", scans, "SHA-256", hashes)
        )
        figures.progress(f"content: {name}, {blocks * size} MiB, {candidates} places looked at closely")
    lines.append(
        figures.alone(
            "content/false", f"false alarms in {2 * wanted} MiB of random bytes and weights", [float(false)],
            unit="", bound=0.0, source="issue 4",
        )
    )  # fmt: skip
    return figures.save("content", lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
