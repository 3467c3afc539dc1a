"""Codes of what lies hidden in a model or beside it, found by content."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table

TABLE: Final[Table] = {
    "payload/archive": Code(
        "hold",
        "team",
        "An archive (zip, tar, gzip, 7z, xz, bzip2, RAR, zstd) lies in the model, its weights or a file beside "
        "it. It was recognised by its header's fields and not opened.",
        "Remove it, or unpack it into the bundle; a reviewer decides about one that must stay.",
    ),
    "payload/executable": Code(
        "reject",
        "team",
        "A program or library (ELF, Windows, macOS, Java, WebAssembly, compiled Python) lies in the model, its "
        "weights or a file beside it.",
        "Remove it; a release holds no code but the model.",
    ),
    "payload/flood": Code(
        "hold",
        "team",
        "More places of a file look like the beginning of a payload than were looked at closely.",
        "Explain to a reviewer what the file holds.",
    ),
    "payload/pickle": Code(
        "hold",
        "team",
        "A Python pickle (also .pt, .pkl, .joblib, a NumPy file of objects) lies in the model, its weights or a "
        "file beside it: loading one runs code. It was recognised by its opcodes and not loaded.",
        "Store data as tensors, .npy of numbers, JSON or text.",
    ),
    "payload/script": Code(
        "hold",
        "team",
        "A script, or text that starts programs, lies in the model, its weights or a file beside it.",
        "Remove it from the release, or explain to a reviewer what it is for.",
    ),
    "payload/unreadable": Code(
        "hold",
        "team",
        "A file of the bundle could not be looked at.",
        "Submit the bundle again; if it happens twice, ask the operator.",
    ),
    "payload/url": Code(
        "info",
        "reviewer",
        "The model's metadata, documentation or values hold a URL.",
        "Nothing to do; nothing in acceptd follows it.",
    ),
}
