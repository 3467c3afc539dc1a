"""``acceptd bundle init``: from model files to a directory with a ``bundle.toml`` that a person completes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from acceptd.bundling.listing import MODEL_SUFFIX, Listing, listed, speakable
from acceptd.bundling.look import Looked, look
from acceptd.bundling.propose import Proposal, Wishes, propose
from acceptd.bundling.readback import MANIFEST_FILE, read_manifest
from acceptd.bundling.render import manifest_text
from acceptd.bundling.stage import Room, copy_file
from acceptd.bundling.write import hidden_beside, refuse_existing, replace_text
from acceptd.errors import InternalError, UsageError
from acceptd.intake.paths import shown
from acceptd.local import Bench


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the models are, which they are, and where the bundle is to be."""

    root: Path
    models: tuple[str, ...]
    listing: Listing
    target: Path

    @property
    def copied(self) -> bool:
        """Whether the bundle is a directory of its own."""
        return self.target != self.root

    @property
    def unnamed(self) -> tuple[str, ...]:
        """Further ``.onnx`` files of the directory, which would be part of the bundle undeclared."""
        named = set(self.models)
        return () if self.copied else tuple(path for path in self.listing.models if path not in named)


def plan(given: Sequence[Path], into: Path | None, *, most: int, force: bool) -> Plan:
    """Return what is to be done. Raises UsageError for paths that cannot be meant; opens no model."""
    paths = [Path(os.path.abspath(path)) for path in given]
    target = into.absolute() if into is not None else None
    if target is not None and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(
            f"{shown(str(target))} exists and is not empty", remedy="name a new directory with --into"
        )
    if len(paths) == 1 and paths[0].is_dir():
        root = paths[0]
        listing = listed(root, most)
        models = listing.models
        if not models:
            links = [path for path in listing.special if path.lower().endswith(MODEL_SUFFIX)]
            remedy = f"{shown(links[0])} is a link: name it, with --into DIR" if links else "name the model file"
            raise UsageError(f"no .onnx file in {shown(str(root))}", remedy=remedy)
    else:
        root, names = _one_directory(paths)
        models = tuple(dict.fromkeys(names))
        listing = _with_links(listed(root, most, near=target is not None), models, copied=target is not None)
    made = Plan(root, models, listing, target or root)
    refuse_existing(made.target / MANIFEST_FILE, force=force)
    return made


def _with_links(listing: Listing, models: Sequence[str], *, copied: bool) -> Listing:
    """Return the listing with named models that are links (as in a cache of downloads) followed, for a copy."""
    links = {path: (listing.root / path).resolve() for path in models if path in listing.special}
    if links and not copied:
        raise UsageError(
            f"{shown(next(iter(links)))} is a link, and a bundle holds regular files alone",
            remedy="--into DIR copies what it leads to",
        )
    files = listing.files | {path: source.stat().st_size for path, source in links.items()}
    return replace(listing, files=files, followed=links)


def _one_directory(paths: Sequence[Path]) -> tuple[Path, list[str]]:
    for path in paths:
        if not path.is_file():
            raise UsageError(f"{shown(str(path))} is no file", remedy="name .onnx files, or one directory")
    root = paths[0].parent
    if any(path.parent != root for path in paths):
        raise UsageError(
            "the models lie in different directories", remedy="put what goes together into one directory"
        )
    return root, [path.name for path in paths]


@dataclass(frozen=True, slots=True)
class Made:
    """What ``init`` did."""

    proposal: Proposal
    looked: Looked
    target: Path
    files: int
    """Files of the bundle beside ``bundle.toml``."""


def start(place: Bench, todo: Plan, wishes: Wishes, *, force: bool) -> Made:
    """Inspect the models in the cell, write the proposal; with a target of its own copy what belongs to it.

    What was written was read back by a job before, and said the same.
    """
    looked = look(place, todo.listing, todo.models)
    name = todo.target.name if todo.copied or len(todo.models) > 1 else Path(todo.models[0]).stem
    if name == "model":
        name = todo.target.name  # what everybody calls it names nothing
    proposal = propose(looked, wishes, name=name)
    text = manifest_text(proposal)
    if read_manifest(place, text.encode()) != proposal.manifest:
        raise InternalError("the proposal does not read back as it was meant")
    if not todo.copied:
        replace_text(todo.target / MANIFEST_FILE, text, force=force)
        return Made(proposal, looked, todo.target, len(todo.listing.files) - (MANIFEST_FILE in todo.listing.files))
    return Made(proposal, looked, todo.target, _copied(place, todo, looked, text))


def _copied(place: Bench, todo: Plan, looked: Looked, text: str) -> int:
    """Fill a directory beside the target, which then takes its name: whole, or not there."""
    files = _belonging(todo, looked)
    limits = place.rules.policy.limits
    speakable(files, limits)
    room = Room(limits)
    staging = hidden_beside(todo.target, "part")
    if staging.exists():
        shutil.rmtree(staging)  # of an attempt that was killed
    staging.mkdir(parents=True)
    try:
        for path in files:
            (staging / path).parent.mkdir(parents=True, exist_ok=True)
            source = todo.listing.followed.get(path)
            root, inside = (todo.listing.root, path) if source is None else (source.parent, source.name)
            copy_file(root, inside, staging / path, room, where=path, mode=0o644)
        replace_text(staging / MANIFEST_FILE, text, force=False)
        os.rename(staging, todo.target)  # over an empty directory too
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return len(files)


def _belonging(todo: Plan, looked: Looked) -> list[str]:
    """Return models, the external data that they name, and the golden sets beside them."""
    files = dict.fromkeys(todo.models)
    for seen in looked.models:
        seen.whole()
        files |= dict.fromkeys(seen.external)
    for path in todo.listing.files:
        if any(path == name or path.startswith(f"{name}/") for name in looked.goldens.names):
            files[path] = None
    files.pop(MANIFEST_FILE, None)  # the proposal takes its place, whatever a model says of it
    return list(files)
