"""Mixed bundles for a fleet: so many drops of every family, the same ones for the same seed.

A model's verdict may depend on the release before it (regression, numbers of releases). So drops come in waves:
whoever drops them waits for every verdict of one wave before the next, and no two drops of one wave may promote
the same model. Then what is judged depends on no order inside a wave, whatever machine is first.
"""

from __future__ import annotations

import random
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper

from examples import evidence_classifier as classifier
from examples import hostile_bundles
from examples.bundle_text import lock, toml_text, write_set
from examples.evidence_classifier import DRIFTS, Variant

TEAMS: Final = ("mosaic", "atlas", "harbor")
"""Whose inboxes the drops go into, unless others are named; the catalogue of hostile bundles is mosaic's."""
ACCEPTED: Final = frozenset({"accepted"})
HELD: Final = frozenset({"held"})
REJECTED: Final = frozenset({"rejected"})
WAVES: Final = 3
"""Versions of one model at most, less the first wave, in which the one model with a contract is released."""
_GOOD_SETS: Final = 3

SHARES: Final[dict[str, int]] = {
    "valid": 34,
    "version": 14,
    "models": 6,
    "external": 6,
    "archive": 8,
    "goldens": 8,
    "drift": 8,
    "hostile": 8,
    "no-manifest": 3,
    "wrong-team": 3,
    "again": 2,
}
"""Parts of each family in the whole."""
HEAVY: Final = frozenset({"wire-flood", "zip-bomb", "allocates-in-loop", "allocates-at-load", "loops"})
"""Of the catalogue: seconds of a core or hundreds of MiB each. One in fifty drops at most, unless told."""
UNFIT: Final = frozenset({"other-team"})
"""Of the catalogue: there is a family of its own for it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One drop: what is written, into whose inbox and when, and what must become of it."""

    name: str
    """Of the drop without an archive's suffix; no other piece has it."""
    team: str
    wave: int
    family: str
    write: Callable[[Path], Path]
    verdicts: frozenset[str]
    model: str = ""
    """The model that it would be a release of, where its verdict lets it."""


def mixed(
    count: int, seed: int = 1, heavy: bool = True, *, teams: Sequence[str] = TEAMS, one_heavy_in: int = 50
) -> list[Piece]:
    """Return ``count`` pieces, in the order in which they are dropped; ``heavy`` ones too where wanted.

    A team that stands several times in ``teams`` drops as many times as much.
    """
    chance = random.Random(seed)
    first = _published()
    rest = [_MAKERS[family] for family in _families(count - 1)]
    chance.shuffle(rest)
    desk = _Desk(chance, count // one_heavy_in if heavy else -1, teams)
    made = [first, *(make(desk, number) for number, make in enumerate(rest, 1))]
    return sorted(made, key=lambda piece: (piece.wave, piece.name))


def waves(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Yield the pieces of one wave after another."""
    for wave in sorted({piece.wave for piece in pieces}):
        yield [piece for piece in pieces if piece.wave == wave]


def _families(count: int) -> list[str]:
    """Return a family for each drop, by their shares."""
    whole = sum(SHARES.values())
    parts = {family: count * share / whole for family, share in SHARES.items()}
    # At least one of each, where there are as many drops as families; the rest are valid ones.
    numbers = {family: max(int(part), int(count >= len(SHARES))) for family, part in parts.items()}
    numbers["valid"] += count - sum(numbers.values())
    return [family for family, number in numbers.items() for _ in range(number)]


def _published() -> Piece:
    """Return the first drop, in a wave of its own: the model with a contract, whose release all later ones
    meet."""
    return Piece(
        f"{0:04d}-published", classifier.MODEL_ID.split("/")[0], 0, "valid",
        lambda path: classifier.write_bundle(path, version="1.4.0", sets=_GOOD_SETS), ACCEPTED,
        classifier.MODEL_ID,
    )  # fmt: skip


class _Desk:
    """What the makers share: chance, and what there is already."""

    def __init__(self, chance: random.Random, heavy: int, teams: Sequence[str]) -> None:
        self.chance, self.teams = chance, tuple(teams)
        self.released: dict[str, list[tuple[int, Variant]]] = {}
        self.plain: list[Piece] = []
        self._heavy = max(1, heavy) if heavy >= 0 else 0
        catalogue = [one for one in hostile_bundles.CATALOGUE if one.name not in UNFIT]
        chance.shuffle(catalogue)
        self._catalogue = catalogue
        self._next = 0

    def hostile(self) -> hostile_bundles.Hostile:
        """Return the next of the catalogue, in turn; a heavy one only while there are some left."""
        while True:
            one = self._catalogue[self._next % len(self._catalogue)]
            self._next += 1
            if one.name not in HEAVY:
                return one
            if self._heavy > 0:
                self._heavy -= 1
                return one

    def wave(self) -> int:
        return self.chance.randrange(1, WAVES + 1)

    def variant(self) -> Variant:
        """Return a classifier of its own: another bias within what the published points still tell apart."""
        bias = tuple(round(one + self.chance.uniform(-0.2, 0.2), 3) for one in classifier.BIAS)
        return Variant(bias=bias)


def _bundle(path: Path, model: str, version: str, variant: Variant) -> Path:
    return classifier.write_bundle(path, version=version, variant=variant, model_id=model, sets=_GOOD_SETS)


def _valid(desk: _Desk, number: int) -> Piece:
    team = desk.chance.choice(desk.teams)
    model, wave, variant = f"{team}/model-{number:04d}", desk.wave(), desk.variant()
    desk.released[model] = [(wave, variant)]
    piece = Piece(
        f"{number:04d}-valid", team, wave, "valid",
        lambda path: _bundle(path, model, f"1.{wave}.0", variant), ACCEPTED, model,
    )  # fmt: skip
    desk.plain.append(piece)
    return piece


def _version(desk: _Desk, number: int) -> Piece:
    """Return a later version of a model that there is, with the weights that it has, in a wave of its own."""
    there = sorted(model for model, past in desk.released.items() if max(past)[0] < WAVES)
    if not there:
        return _valid(desk, number)
    model = desk.chance.choice(there)
    wave, variant = max(desk.released[model], key=lambda one: one[0])
    wave += 1
    desk.released[model].append((wave, variant))
    return Piece(
        f"{number:04d}-version", model.split("/")[0], wave, "version",
        lambda path: _bundle(path, model, f"1.{wave}.0", variant), ACCEPTED, model,
    )  # fmt: skip


def _models(desk: _Desk, number: int) -> Piece:
    """Return a bundle of two models that are released together."""
    team = desk.chance.choice(desk.teams)
    model, one, other = f"{team}/pair-{number:04d}", desk.variant(), desk.variant()

    def write(path: Path) -> Path:
        path.mkdir(parents=True)
        document = classifier.manifest(one, version="1.0.0", model_id=model, file="first.onnx", sets="first/set_*")
        second = classifier.manifest(other, file="second.onnx", sets="second/set_*")["models"][0]
        document["models"] = [document["models"][0] | {"name": "first"}, second | {"name": "second"}]
        for name, variant in (("first", one), ("second", other)):
            (path / f"{name}.onnx").write_bytes(classifier.build_model(variant))
            classifier.write_goldens(path / name, variant, count=_GOOD_SETS)
            for made in sorted((path / name).glob("test_data_set_*")):
                made.rename(made.with_name(f"set_{made.name.rsplit('_', 1)[1]}"))
        document["files"] = lock(path)
        (path / "bundle.toml").write_text(toml_text(document), encoding="utf-8")
        return path

    return Piece(f"{number:04d}-models", team, desk.wave(), "models", write, ACCEPTED, model)


def write_chain(path: Path, model: str, width: int, layers: int, seed: int) -> Path:
    """Write a bundle of ``layers`` weights of ``width`` squared (float32), in external data beside the model.

    Its golden values come from numpy in float64; it is as deep as it is large, and runs in milliseconds.
    """
    path.mkdir(parents=True)
    chance = np.random.default_rng(seed)
    nodes, initializers, name = [], [], "features"
    values = chance.uniform(0.0, 1.0, (2, width)).astype(np.float32)
    expected = values.astype(np.float64)
    with (path / "weights.bin").open("wb") as file:
        for layer in range(layers):
            weight = (chance.uniform(-1.0, 1.0, (width, width)) / np.sqrt(width)).astype(np.float32)
            tensor = TensorProto(name=f"weight_{layer}", data_type=TensorProto.FLOAT, dims=weight.shape)
            tensor.data_location = TensorProto.EXTERNAL
            for key, text in (("location", "weights.bin"), ("offset", file.tell()), ("length", weight.nbytes)):
                tensor.external_data.add(key=key, value=str(text))
            file.write(weight.tobytes())
            initializers.append(tensor)
            nodes.append(helper.make_node("MatMul", [name, f"weight_{layer}"], [f"product_{layer}"]))
            nodes.append(helper.make_node("Tanh", [f"product_{layer}"], [f"layer_{layer}"]))
            expected = np.tanh(expected @ weight.astype(np.float64))
            name = f"layer_{layer}"
    nodes[-1].output[0] = "values"
    ports = [
        helper.make_tensor_value_info(port, TensorProto.FLOAT, ["batch", width]) for port in ("features", "values")
    ]
    graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:], initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (path / "model.onnx").write_bytes(proto.SerializeToString(deterministic=True))
    write_set(path / "test_data_set_0", [("features", values)], [("values", expected.astype(np.float32))])
    document = classifier.manifest(version="1.0.0", model_id=model)
    port: dict[str, Any] = {"dtype": "float32", "shape": ["batch", width]}
    document["models"][0] |= {
        "inputs": [{"name": "features", **port, "range": [0.0, 1.0]}],
        "outputs": [{"name": "values", **port, "kind": "values", "tolerance": {"rtol": 1e-4, "atol": 1e-5}}],
    }
    (path / "bundle.toml").write_text(toml_text(document), encoding="utf-8")
    return path


def _external(desk: _Desk, number: int) -> Piece:
    """Return a bundle with some MiB of weights in a file beside the model."""
    team = desk.chance.choice(desk.teams)
    model, layers, seed = f"{team}/chain-{number:04d}", desk.chance.randrange(1, 9), desk.chance.randrange(1 << 30)
    return Piece(
        f"{number:04d}-external", team, desk.wave(), "external",
        lambda path: write_chain(path, model, 512, layers, seed), ACCEPTED, model,
    )  # fmt: skip


def packed(made: Path, suffix: str) -> Path:
    """Pack a bundle that is written already; ``made`` goes, and what is returned lies beside it."""
    target = made.with_name(made.name + suffix)
    members = [path for path in sorted(made.rglob("*")) if path.is_file()]
    if suffix == ".zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in members:
                archive.writestr(zipfile.ZipInfo(path.relative_to(made).as_posix()), path.read_bytes())
    else:
        with tarfile.open(target, "w:gz" if suffix == ".tar.gz" else "w", format=tarfile.PAX_FORMAT) as archive:
            for path in members:
                archive.add(path, path.relative_to(made).as_posix(), filter=_bare)
    shutil.rmtree(made)
    return target


def _bare(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 0, 0, "", ""
    return member


def _archive(desk: _Desk, number: int) -> Piece:
    team, suffix = desk.chance.choice(desk.teams), desk.chance.choice((".zip", ".tar", ".tar.gz"))
    model, variant = f"{team}/packed-{number:04d}", desk.variant()
    return Piece(
        f"{number:04d}-archive", team, desk.wave(), "archive",
        lambda path: packed(_bundle(path, model, "1.0.0", variant), suffix), ACCEPTED, model,
    )  # fmt: skip


def _goldens(desk: _Desk, number: int) -> Piece:
    """Return a good model with the expected values of another bias."""
    team = desk.chance.choice(desk.teams)
    model, variant = f"{team}/wrong-{number:04d}", desk.variant()

    def write(path: Path) -> Path:
        _bundle(path, model, "1.0.0", variant)
        bias = tuple(one + 0.4 * (index == 0) for index, one in enumerate(variant.bias))
        classifier.write_goldens(path, replace(variant, bias=bias), count=_GOOD_SETS)
        return path

    return Piece(f"{number:04d}-goldens", team, desk.wave(), "goldens", write, REJECTED, model)


def _drift(desk: _Desk, number: int) -> Piece:
    """Return the model of a drifted interface with the manifest that it had: of a model without a contract, or
    with."""
    name = desk.chance.choice(("renamed-input", "float64", "float16", "width-4", "extra-input", "renamed-output"))
    contract = desk.chance.random() < 0.5
    team = "mosaic" if contract else desk.chance.choice(desk.teams)
    model = classifier.MODEL_ID if contract else f"{team}/drift-{number:04d}"
    return Piece(
        f"{number:04d}-drift-{name}", team, desk.wave(), "drift",
        lambda path: classifier.write_bundle(
            path, version="1.5.0", sets=_GOOD_SETS, variant=DRIFTS[name], declared=Variant(), model_id=model
        ),
        REJECTED, model,
    )  # fmt: skip


def _hostile(desk: _Desk, number: int) -> Piece:
    one = desk.hostile()
    return Piece(f"{number:04d}-{one.name}", "mosaic", desk.wave(), "hostile", one.write, one.verdicts)


def _no_manifest(desk: _Desk, number: int) -> Piece:
    team, variant = desk.chance.choice(desk.teams), desk.variant()

    def write(path: Path) -> Path:
        _bundle(path, f"{team}/bare-{number:04d}", "1.0.0", variant)
        (path / "bundle.toml").unlink()
        return path

    return Piece(f"{number:04d}-no-manifest", team, desk.wave(), "no-manifest", write, HELD)


def _wrong_team(desk: _Desk, number: int) -> Piece:
    team = desk.chance.choice(desk.teams)
    other = desk.chance.choice(sorted({*desk.teams} - {team}))
    variant = desk.variant()
    return Piece(
        f"{number:04d}-wrong-team", team, desk.wave(), "wrong-team",
        lambda path: _bundle(path, f"{other}/taken-{number:04d}", "1.0.0", variant), REJECTED,
    )  # fmt: skip


def _again(desk: _Desk, number: int) -> Piece:
    """Return the same bytes as an earlier drop of an earlier wave: one digest twice in the store."""
    there = [piece for piece in desk.plain if piece.wave < WAVES]
    if not there:
        return _valid(desk, number)
    piece = desk.chance.choice(there)
    # In the last wave, where no later version of it is promoted at the same time.
    past = desk.released[piece.model]
    if max(past, key=lambda one: one[0])[0] >= WAVES:
        return _valid(desk, number)
    past.append((WAVES, past[0][1]))
    return replace(piece, name=f"{number:04d}-again", wave=WAVES, family="again")


_MAKERS: Final[dict[str, Callable[[_Desk, int], Piece]]] = {
    "valid": _valid,
    "version": _version,
    "models": _models,
    "external": _external,
    "archive": _archive,
    "goldens": _goldens,
    "drift": _drift,
    "hostile": _hostile,
    "no-manifest": _no_manifest,
    "wrong-team": _wrong_team,
    "again": _again,
}
