"""``acceptd verify``: whether a signed file is what it says, with public keys alone: no state, no database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from acceptd.cli.common import EXIT_AUDIT, JsonOption, console, fail, read_limited
from acceptd.cli.tables import print_pairs
from acceptd.errors import LoaderError, MalformedError, SignatureError
from acceptd.record import attest
from acceptd.record.keys import Keyring
from acceptd.release import rotated, trust
from acceptd.report.escape import line
from acceptd.statement.schemas import MODELS, ROLES, trouble

MAX_FILE = attest.MAX_PAYLOAD * 2
_SIGNED_BY = {
    trust.RELEASE_TYPE: "release",
    trust.CHANNEL_TYPE: "release",
    trust.REVOCATIONS_TYPE: "revocation",
}
"""Payload type to the role whose key must have signed it; of statements the predicate type says which."""
_VERDICT = (
    "verdict", "reason", "submission", "judged_at", "bundle_digest", "policy", "policy_digest", "contract_digest",
    "profile", "profile_digest", "runtime_identity", "ledger", "findings_digest", "evidence_digest", "acceptd",
)  # fmt: skip
_RELEASE = (
    "model_id", "channel", "number", "reason", "bundle_digest", "release_digest", "released_at", "total_bytes",
    "acceptd",
)  # fmt: skip


def verify(
    path: Annotated[
        Path,
        typer.Argument(
            help="statement.json of a verdict or a release, release.json, channel.json or revocations.json."
        ),
    ],
    key: Annotated[Path, typer.Option("--key", help="A keyring.json that you got by a way you trust.")],
    rotations: Annotated[
        Path | None,
        typer.Option("--rotations", help="rotations.json: keys that followed those of the keyring count too."),
    ] = None,
    digest: Annotated[str, typer.Option("--digest", help="The bundle digest that it must be about.")] = "",
    json_: JsonOption = False,
) -> None:
    """Verify a signed file of acceptd with public keys alone. Exit 5 where it does not hold."""
    keyring = Keyring.load(key)
    try:
        if rotations is not None:
            data = read_limited(rotations, rotated.MAX_BYTES, "rotations.json")
            keyring = rotated.over_time(data, keyring)
        shown = _shown(read_limited(path, MAX_FILE, "a signed file of acceptd"), keyring)
        if digest and digest != shown["bundle_digest"]:
            raise LoaderError(f"it is about the bundle {shown['bundle_digest']}, not {digest}")
    except LoaderError as error:
        if not json_:
            raise typer.Exit(fail(f"{path}: {error}", _remedy(error, rotations), code=EXIT_AUDIT)) from error
        typer.echo(json.dumps({"verified": False, "error": line(str(error), 400)}, sort_keys=True))
        raise typer.Exit(EXIT_AUDIT) from error
    if json_:
        typer.echo(json.dumps({"verified": True, **shown}, sort_keys=True))
        return
    print_verified(console(), shown)


def _remedy(error: LoaderError, rotations: Path | None) -> str:
    if isinstance(error, SignatureError) and rotations is None:
        return "if its key was rotated, name what was published beside the keyring: --rotations rotations.json"
    return "use no part of it; fetch it again from where it was published, and ask who changed it"


def print_verified(out: Console, shown: Mapping[str, Any]) -> None:
    """Print what a verified file says."""
    out.print("verified")
    told = {name: value for name, value in shown.items() if value is not None and not isinstance(value, list)}
    print_pairs(out, [(f"  {name}", value) for name, value in told.items()])
    for one in shown.get("subjects", ()):
        out.print(f"  {line(one['sha256'], 64)}  {line(one['name'], 200)}", soft_wrap=True)


def _shown(data: bytes, keyring: Keyring) -> dict[str, Any]:
    """Return what a verified file says; raise LoaderError where it does not verify."""
    envelope = trust.parse_json(data, "the file")
    kind = envelope.get("payloadType") if isinstance(envelope, dict) else None
    if kind == attest.PAYLOAD_TYPE:
        return _statement(envelope, keyring)
    role = _SIGNED_BY.get(str(kind))
    if role is None:
        raise LoaderError(f"a payload of type {kind!r:.80}, which acceptd does not sign")
    document = trust.parse_json(attest.verify(envelope, str(kind), keyring, role), "the payload")
    keys = ("model_id", "channel", "number", "bundle_digest", "release_digest", "verdict_seq", "expires_at")
    found = {key: document.get(key) for key in keys if isinstance(document, dict)}
    return {"kind": str(kind).removeprefix("application/vnd.acceptd.").removesuffix("+json"), **found}


def _statement(envelope: object, keyring: Keyring) -> dict[str, Any]:
    """Return what a statement says whose signature holds, and whose predicate is what its schema says."""
    # Each predicate type has one role: no key of another may have signed it, whatever it calls itself.
    for role in dict.fromkeys(ROLES.values()):
        types = [one for one, its in ROLES.items() if its == role]
        try:
            value = attest.verify_statement(envelope, keyring, role, types)
        except SignatureError as error:
            problem = error
        else:
            break
    else:
        raise problem
    model = MODELS.get(value["predicateType"])
    if model is not None and (found := trouble(model, value["predicate"])):
        raise MalformedError(f"the predicate is not what its schema says: {found}")
    subjects = [
        {"name": str(one.get("name")), "sha256": str(one["digest"].get("sha256"))} for one in value["subject"]
    ]
    predicate, kind = value["predicate"], str(value["predicateType"])
    word, keys = ("verdict", _VERDICT) if kind in attest.VERDICT_TYPES else ("release", _RELEASE)
    told = {key: predicate.get(key) for key in keys}
    return {"kind": word, "predicate_type": kind, **told, **_places(predicate), "subjects": subjects}


def _places(predicate: Mapping[str, Any]) -> dict[str, Any]:
    """Return which entries of which log a statement names: its own, and the verdict of a release."""
    found: dict[str, Any] = {}
    for key in ("entry", "verdict"):
        place = predicate.get(key)
        if isinstance(place, dict):
            found[f"{key}_number"] = place.get("number")
            found["log"] = place.get("log", found.get("log"))
            found[f"{key}_leaf"] = place.get("leaf_hash")
    return found
