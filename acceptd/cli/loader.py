"""``acceptd loader``: what a production loader would open, what it proves of it, and one run of it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from acceptd.cli.common import JsonOption, StateOption, chosen_state, console
from acceptd.errors import InvalidInputError, RuntimeDifferenceWarning, UsageError
from acceptd.loader import OpenRelease, open_release
from acceptd.loader_inputs import plain, read_inputs, shape_of
from acceptd.report.escape import line

app = typer.Typer(help="Open a release as production does: verify it, find it, run it.", no_args_is_help=True)

ModelArgument = Annotated[str, typer.Argument(help="A model id: team/name.")]
ChannelOption = Annotated[str, typer.Option("--channel", help="The channel.")]
KeysOption = Annotated[
    Path | None,
    typer.Option("--keys", help="A keyring.json that you got by a way you trust (default: the state's own)."),
]
DigestOption = Annotated[str, typer.Option("--digest", help="Refuse every bundle digest but this one.")]
ProfileOption = Annotated[str, typer.Option("--profile", help="The profile that this host is.")]
ModeOption = Annotated[
    str, typer.Option("--mode", help="mapped: files by path; memory: the bytes that were hashed.")
]
MemoryOption = Annotated[
    Path | None,
    typer.Option("--state-file", help="Remember the highest numbers here: a replay is noticed next time."),
]
CheckpointOption = Annotated[
    bool, typer.Option("--demand-checkpoint", help="Refuse a release without a signed checkpoint.")
]


@app.command("verify")
def verify(
    model: ModelArgument,
    channel: ChannelOption = "production",
    keys: KeysOption = None,
    digest: DigestOption = "",
    profile: ProfileOption = "",
    mode: ModeOption = "mapped",
    state_file: MemoryOption = None,
    demand_checkpoint: CheckpointOption = False,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Open the current release and print what was proved, line by line. Exit 5 where it is refused."""
    release = _open(model, channel, keys, digest, profile, mode, state_file, state, demand=demand_checkpoint)
    if json_:
        typer.echo(json.dumps({"verified": True, **_facts(release)}, sort_keys=True))
        return
    out = console()
    out.print(f"verified  {release.model_id} {release.channel} number {release.number}")
    for what, words in _proved(release, remembered=state_file is not None):
        out.print(f"  {what:13} {line(words, 400)}", soft_wrap=True)


@app.command("path")
def path(
    model: ModelArgument,
    channel: ChannelOption = "production",
    keys: KeysOption = None,
    digest: DigestOption = "",
    profile: ProfileOption = "",
    state_file: MemoryOption = None,
    demand_checkpoint: CheckpointOption = False,
    state: StateOption = None,
) -> None:
    """Verify the current release and print the directory with its files, alone on one line.

    Whoever may write there can change them afterwards. Exit 5 where it is refused, and nothing is printed.
    """
    release = _open(model, channel, keys, digest, profile, "mapped", state_file, state, demand=demand_checkpoint)
    typer.echo(str(release.path))


@app.command("run")
def run(
    model: ModelArgument,
    inputs: Annotated[Path, typer.Option("--inputs", help='.npz, or JSON as {"name": [[1.0, 2.0]]}.')],
    channel: ChannelOption = "production",
    which: Annotated[str, typer.Option("--model", help="The bundle's model, where it has several.")] = "",
    keys: KeysOption = None,
    digest: DigestOption = "",
    profile: ProfileOption = "",
    mode: ModeOption = "memory",
    runtime: Annotated[
        str, typer.Option("--runtime", help="Another runtime than the accepted one: refuse, warn or ignore.")
    ] = "",
    state_file: MemoryOption = None,
    demand_checkpoint: CheckpointOption = False,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Run the current release once on your own inputs and print its outputs and labels.

    Exit 2: the inputs break the accepted interface; 5: the release, the runtime or the outputs are refused.
    """
    values = read_inputs(inputs)
    release = _open(model, channel, keys, digest, profile, mode, state_file, state, demand=demand_checkpoint)
    told: Any = runtime or None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeDifferenceWarning)  # said below, as a line
        session = release.session(which or None, runtime=told)
    for difference in session.runtime_differences:
        typer.echo(f"acceptd: warning: {line(difference, 300)}", err=True)
    try:
        outputs = session.run(values)
    except InvalidInputError as error:
        raise UsageError(f"{inputs}: {error}", remedy="give what the bundle declares") from error
    named = [spec.name for spec in session.interface.outputs if spec.labels]
    labels = {name: outputs.labels(name) for name in named}
    if json_:
        document = {name: plain(value) for name, value in outputs.items()}
        facts = {key: _facts(release)[key] for key in ("model_id", "channel", "number", "bundle_digest")}
        typer.echo(json.dumps({**facts, "outputs": document, "labels": labels}, sort_keys=True, allow_nan=False))
        return
    out = console()
    for name, value in outputs.items():
        out.print(f"{line(name, 200)}  {shape_of(value)}", soft_wrap=True)
        for row in str(value).splitlines():
            out.print(f"  {line(row, 400)}", soft_wrap=True)
        if name in labels:
            out.print(f"  labels: {line(', '.join(labels[name]), 2000)}", soft_wrap=True)


def _open(
    model: str,
    channel: str,
    keys: Path | None,
    digest: str,
    profile: str,
    mode: str,
    state_file: Path | None,
    state: Path | None,
    *,
    demand: bool,
) -> OpenRelease:
    root = chosen_state(state)
    wanted: Any = mode
    return open_release(
        root, model, channel, keys=keys or root / "keyring.json", digest=digest or None,
        profile=profile or None, state_file=state_file, mode=wanted, demand_checkpoint=demand,
    )  # fmt: skip


def _facts(release: OpenRelease) -> dict[str, Any]:
    same = (
        "model_id", "channel", "number", "release_digest", "bundle_digest", "profile", "expires_at", "revocations",
        "proof", "mode",
    )  # fmt: skip
    return {
        **{key: getattr(release, key) for key in same},
        "path": str(release.path),
        "profiles": list(release.profiles),
        "files": len(release.files),
        "bytes": sum(file.size for file in release.files),
        "preprocessing": release.preprocessing and dict(release.preprocessing),
        "labels": release.labels and dict(release.labels),
        "runtime_identity": release.options.get("runtime_identity"),
    }


def _proved(release: OpenRelease, *, remembered: bool) -> list[tuple[str, str]]:
    """Return what the loader proved, each with the words that a person needs."""
    heads = {
        "signed": "entry proved below a checkpoint that a ledger key signed",
        "unsigned": "entry proved, but below a root that no known key signed",
        "absent": "no proof that the ledger has it",
    }
    memory = "by the state file" if remembered else "as far as one run knows: no --state-file"
    size = sum(file.size for file in release.files)
    rows = [
        ("signed", "channel.json, release.json and the revocation list"),
        ("fresh until", release.expires_at),
        ("not replayed", f"number and sequence, {memory}"),
        ("not revoked", f"by list {release.revocations}" if release.revocations else "no list was ever made"),
        ("ledger", heads[release.proof]),
        ("files", f"{len(release.files)} hashed, {size} bytes; no other is there"),
        ("profile", release.profile),
        ("release", release.release_digest),
        ("bundle", release.bundle_digest),
    ]
    named = {"preprocessing": release.preprocessing, "labels": release.labels}
    rows += [(name, identity["sha256"]) for name, identity in named.items() if identity is not None]
    return [*rows, ("at", str(release.path))]
