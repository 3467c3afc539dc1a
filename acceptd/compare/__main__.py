"""``python -m acceptd.compare --socket FD [--uid N --gid N]``: the comparer process."""

from __future__ import annotations

import argparse
import os
import select
import socket
import sys

from acceptd.compare import protocol
from acceptd.compare.blob import Blob
from acceptd.compare.confine import confine
from acceptd.compare.service import compare, serve
from acceptd.compare.task import Bounded, CompareTask, Labelled, Pair, Slice
from acceptd.threads import Thread
from acceptd.values import TensorRef


def warm() -> None:
    """Compare small values of each kind, so that nothing is imported after the privileges are gone."""
    with open(os.memfd_create("warm"), "w+b") as file:
        file.write(bytes(256) + bytes(range(256)))
        file.flush()
        blobs = {"a": Blob(file.fileno())}
        pairs = []
        for kind, dtype, size in (
            ("probabilities", "float32", 4),
            ("logits", "bfloat16", 2),
            ("embedding", "float16", 2),
            ("audio", "float32", 4),
            ("boxes", "float32", 4),
            ("sequence", "int64", 8),
            ("values", "float8e4m3fn", 1),
            ("values", "complex64", 8),
        ):
            one, other = (
                Slice(file="a", value=TensorRef(dtype=dtype, shape=[4, 4], offset=offset, nbytes=16 * size))
                for offset in (0, 256)
            )
            fields = {"set": "", "model": "", "output": kind, "against": "golden", "expected": one, "got": other}
            pairs.append(Pair.model_validate(fields | {"rtol": 0.0, "atol": 0.0, "kind": kind}))
        ref = TensorRef(dtype="float32", shape=[2, 2], offset=0, nbytes=16)
        low = Bounded(set="", model="", input="", value=Slice(file="a", value=ref), low=1.0, high=2.0)
        labels = Slice(file="a", value=TensorRef(dtype="int64", shape=[2], offset=0, nbytes=16))
        rows = Slice(file="a", value=ref)
        answers = Labelled(set="", model="", output="", kind="logits", got=rows, labels=labels)
        compare(CompareTask(pairs=pairs, inputs=[low], labelled=[answers]), blobs)


def end_with(sock: socket.socket) -> None:
    """End this process as soon as the other side of ``sock`` is gone, in the middle of a task too.

    A task may take minutes; whoever asked for it may be killed meanwhile.
    """
    poller = select.poll()
    poller.register(sock, 0)  # of a hang-up the kernel tells unasked, and of nothing else
    poller.poll()
    os._exit(0)


def main() -> int:
    """Serve until the socket closes; 0 then, 70 where the privileges could not be dropped (by traceback)."""
    parser = argparse.ArgumentParser(prog="acceptd.compare")
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--uid", type=int)
    parser.add_argument("--gid", type=int)
    options = parser.parse_args()
    sock = socket.socket(fileno=options.socket)
    Thread(end_with, args=(sock,), name="comparer-end").start()
    os.umask(0o077)
    warm()
    confine(options.uid, options.gid)
    protocol.send(sock, {"ready": True, "uid": os.geteuid()})
    serve(sock)
    return 0


if __name__ == "__main__":
    sys.exit(main())
