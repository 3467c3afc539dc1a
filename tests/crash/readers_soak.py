"""Four readers in a loop while one channel is promoted and rolled back a thousand times: nothing missing or mixed.

``python -m tests.crash.readers_soak`` (make soak-readers) prints the figures; the tests do a few.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time

from tests.release_readers import Looked, Readers
from tests.release_world import MODEL, World, memory_directory


def soak(changes: int, readers: int = 4, *, progress: bool = False) -> tuple[Looked, int]:
    """Change one channel so often while so many processes read; return what they found and the last number."""
    root = memory_directory()
    try:
        world = World(root)
        bundles = [world.accepted(f"{n}.0.0") for n in range(3)]
        world.promote(bundles[0])
        watching = Readers(world.state, root, [(MODEL, "production")], readers, now=lambda: world.now)
        try:
            for index in range(changes):
                if index % 5 == 4:
                    made = world.rollback()
                else:
                    made = world.promote(bundles[(index + 1) % 3])
                    if not made.new:  # the rollback before came to this bundle: take another
                        made = world.promote(bundles[(index + 2) % 3])
                assert made.new
                if progress and index % 100 == 99:
                    print(f"{index + 1} of {changes} changes", file=sys.stderr, flush=True)
        finally:
            found = watching.stop()
        number = world.open().number
        assert number == changes + 1
        world.close()
        return found, number
    finally:
        shutil.rmtree(root)


def main() -> int:
    """Soak and print the figures; 1 where a reader found anything wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--readers", type=int, default=4)
    chosen = parser.parse_args()
    began = time.monotonic()
    found, number = soak(chosen.changes, chosen.readers, progress=True)
    figures = {"changes": chosen.changes, "readers": chosen.readers, "last_number": number}
    figures |= {**found.__dict__, "words": found.words[:20], "seconds": round(time.monotonic() - began, 1)}
    print(json.dumps(figures, indent=2))
    return int(bool(found.wrong) or found.opened < chosen.changes)


if __name__ == "__main__":
    sys.exit(main())
