"""One process of a large audit: parts of work come in as JSON lines, what they came to goes out the same way.

It ends when its input does, so it never outlives the audit that began it; Ctrl-C is that one's to handle.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
from pathlib import Path

from acceptd.record.auditing import source
from acceptd.record.auditing.parts import Part, Work
from acceptd.record.succession import History


def main() -> int:
    """Read where the ledger is and by which keys, then parts, until the end of input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setup = json.loads(sys.stdin.readline())
    path = Path(setup["path"])
    keys = None if setup["keys"] is None else History.parse(setup["keys"])
    work = Work(source.connect(path), path, setup["origin"], keys)
    # What decoding makes has no cycles; to look for some at every 700 objects took a tenth of the time.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    for text in sys.stdin:
        kind, first, end, marks = json.loads(text)
        sys.stdout.write(json.dumps(work.do(Part(kind, first, end, tuple(marks)))) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
