"""How whoever holds a report checks it: exact commands with its own digests and entry, also without acceptd.

The texts hold digests, a log's name and an entry's number alone, and each is checked to be one: nothing that a
submitter wrote becomes a command that somebody pastes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from acceptd.report.escape import markup, prose

_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LOG: Final = re.compile(r"acceptd/[0-9a-f]{32}", re.ASCII)
_WORD: Final = re.compile(r"[a-z]{1,20}", re.ASCII)
_NUMBERS: Final = range(1 << 53)

STATEMENT: Final = """\
import base64, hashlib, json, pathlib
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

def read(name):
    return json.loads(pathlib.Path(name).read_text())

ring = read("keyring.json")["keys"]
keys = {{k["key_id"]: base64.b64decode(k["public"]) for k in ring if k["role"] == "ledger"}}
envelope = read("statement.json")
kind, payload = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"])
signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
assert envelope["signatures"]
for one in envelope["signatures"]:  # each raises where it does not verify
    key = Ed25519PublicKey.from_public_bytes(keys[one["keyid"]])
    key.verify(base64.b64decode(one["sig"]), signed)
said = json.loads(payload)["predicate"]
assert said["verdict"] == "{verdict}"
assert said["bundle_digest"] == {digest}
assert said["entry"] == {{"log": "{log}", "number": {number}}}
"""
"""DSSE v1 (secure-systems-lab/dsse) with Ed25519 (RFC 8032)."""
PROOF: Final = """\
proof = read("proof.json")
leaf = base64.b64decode(proof["leaf"])
root = hashlib.sha256(b"\\0" + leaf).digest()
assert root.hex() == "{leaf_hash}" and proof["seq"] == {number}
assert json.loads(leaf)["body"]["statement"] == envelope
at, last = proof["seq"], proof["size"] - 1
for step in map(bytes.fromhex, proof["path"]):
    assert last
    if at % 2 or at == last:
        root = hashlib.sha256(b"\\1" + step + root).digest()
        while at and not at % 2:
            at, last = at // 2, last // 2
    else:
        root = hashlib.sha256(b"\\1" + root + step).digest()
    at, last = at // 2, last // 2
assert not last and root.hex() == proof["root"]
assert proof["checkpoint"], "no signed checkpoint covers the entry yet: ask for the proof again later"
text, _, marked = proof["checkpoint"].rpartition("\\n\\n")
log, size, told = text.split("\\n")[:3]
assert (log, int(size), base64.b64decode(told)) == ("{log}", proof["size"], root)
name, signature = marked.split()[1:3]
signer = base64.b64decode(signature)[:4]
(key,) = [k for k in keys.values() if hashlib.sha256(name.encode() + b"\\n\\1" + k).digest()[:4] == signer]
Ed25519PublicKey.from_public_bytes(key).verify(base64.b64decode(signature)[4:], (text + "\\n").encode())
print("verified")
"""
"""Inclusion (RFC 9162, 2.1.3.2) under a checkpoint (C2SP tlog-checkpoint, signed-note)."""
BUNDLE: Final = """\
import hashlib, json, pathlib, sys

rows, top = [], pathlib.Path(sys.argv[1])
for file in filter(pathlib.Path.is_file, top.rglob("*")):
    path = file.relative_to(top).as_posix()
    with file.open("rb") as data:
        sha256 = hashlib.file_digest(data, "sha256").hexdigest()
    if path != ".ready":
        rows.append({{"path": path, "sha256": sha256, "size": file.stat().st_size}})
rows.sort(key=lambda row: row["path"].encode())
text = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
assert hashlib.sha256(text.encode()).hexdigest() == {digest}
print("these are the bytes that were judged")
"""
"""The bundle digest: RFC 8785 of path, sha256 and size. Paths are taken as they are, in NFC."""


def place(entry: Any, log: str) -> dict[str, Any]:
    """Return what a report says of its ledger entry (:class:`acceptd.record.entry.Entry`) in the log ``log``."""
    return {"log": log, "number": entry.seq, "leaf_hash": entry.leaf_hash.hex()}


def section(report: Mapping[str, Any]) -> str:
    """Return the section's content, for every report: of one that has no ledger, that there is none."""
    digest, found = _digest(report.get("bundle_digest")), _entry(report)
    parts = []
    if found is None:
        parts.append(f"<p>{prose(_nothing(report))}</p>")
    else:
        number = found["number"]
        bundle = f" --digest {digest}" if digest else ""
        keys = (
            "<code>statement.json</code> lies beside this report; <code>keyring.json</code> holds the public "
            "keys: take it by a way that you trust, not from where the report came from."
        )
        parts += [
            "<h3>With acceptd</h3>",
            f"<p>The verdict as it was signed, on any machine. {keys}</p>",
            _block(f"acceptd verify statement.json --key keyring.json{bundle}"),
            (
                f"<p>That it stands in the log as entry {number}, and that the log is whole, on the machine of "
                "the instance:</p>"
            ),
            _block(f"acceptd ledger proof {number} > proof.json\nacceptd ledger verify"),
        ]
        values = {**found, "digest": f'"{digest}"' if digest else "None"}
        parts += [
            "<h3>Without acceptd</h3>",
            (
                "<p>Python with <code>cryptography</code>, where <code>statement.json</code>, "
                "<code>keyring.json</code> and the <code>proof.json</code> of above lie:</p>"
            ),
            _folded("check.py", STATEMENT.format(**values) + "\n" + PROOF.format(**values)),
        ]
    if digest:
        parts.append("<p>That a bundle in your hands is the one that this report is about:</p>")
        parts.append(_folded("python digest.py BUNDLE", BUNDLE.format(digest=f'"{digest}"')))
    return "".join(parts)


def _nothing(report: Mapping[str, Any]) -> str:
    if str(report.get("submission", "")).startswith("check-"):
        return (
            "This was a local check: nothing of it was signed or recorded, so nobody else can verify it. "
            "Submit the bundle; the report of a submission says how."
        )
    return (
        "This report does not name its ledger entry. `acceptd report` on the machine of the instance writes "
        "one that does."
    )


def _entry(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return log, number, leaf hash and verdict where all of them are what they have to be."""
    told = report.get("entry")
    if not isinstance(told, Mapping):
        return None
    number, log, verdict = told.get("number"), str(told.get("log")), str(report.get("verdict"))
    leaf = _digest(told.get("leaf_hash"))
    if type(number) is not int or number not in _NUMBERS or not leaf:
        return None
    if not _LOG.fullmatch(log) or not _WORD.fullmatch(verdict):
        return None
    return {"number": number, "log": log, "leaf_hash": leaf, "verdict": verdict}


def _digest(value: Any) -> str:
    return value if isinstance(value, str) and _DIGEST.fullmatch(value) else ""


def _block(text: str) -> str:
    """Return a block that is shown as it is: acceptd's own text, with its line breaks."""
    lines = "\n".join(markup(line, 400) for line in text.split("\n"))
    return f"<pre><code>{lines}</code></pre>"


def _folded(name: str, text: str) -> str:
    return f"<details><summary>{markup(name, 80)}</summary>{_block(text.rstrip())}</details>"
