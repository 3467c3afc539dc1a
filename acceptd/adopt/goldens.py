"""Golden sets for a bundle that has none: random inputs, computed by whoever can, with an origin that says so."""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from acceptd.bundling.oracles import OUT_OF_TIME, SpentError
from acceptd.bundling.origins import REFERENCE, RUNTIME
from acceptd.bundling.propose import Proposal, Wishes, propose
from acceptd.bundling.readback import MANIFEST_FILE
from acceptd.bundling.render import manifest_text
from acceptd.bundling.start import Made
from acceptd.bundling.vectors import Wanted, make
from acceptd.bundling.write import replace_text
from acceptd.errors import UsageError
from acceptd.local import Bench

SETS: Final = 4
SEED: Final = "acceptd adopt"
"""One for all models: a second run draws the same inputs."""
SECONDS: Final = 5.0
"""Of the evaluator for the sets of one model: with hundreds of them, less than `bundle vectors` gives it."""
SIZES: Final = ((1, 1), (1, 16), (1, 64), (1, 256), (1, 16_000))
"""Sizes of a first axis and of the others that are tried where the model runs at no guessed ones."""
PREFIX: Final = "goldens_"
"""How directories begin that `bundle vectors` makes."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A proposal that stands in ``bundle.toml`` now, with golden sets or without.

    ``said`` is what to say of the sets, in one line that may quote a model.
    """

    proposal: Proposal
    said: str
    made: bool = True
    """Whether there are golden sets."""
    last: bool = False
    evaluated: bool = False
    """Whether expected values are those of onnx's own evaluator."""
    spent: bool = False
    """Whether the runtime was ended by a limit: greater sizes take no less."""


def trials(bench: Bench, bundle: Path, made: Made, wishes: Wishes) -> Iterator[Trial]:
    """Yield proposals for the model in ``bundle``, the best guess first, until whoever asks is content with one.

    Where no golden sets lie beside the model, they are made: onnx's own evaluator computes them where it can,
    which shows parity; else onnxruntime itself, which shows regression alone. Further trials have fixed sizes of
    what has no number, one pair after the other, until a limit ends one. The last one is the first again.
    """
    found = made.looked.goldens
    if found.names:
        smoke = f", {len(found.smoke)} without outputs" if found.smoke else ""
        yield Trial(made.proposal, f"{len(found.names)} lay beside the model{smoke}", last=True)
        return
    others = SIZES if any(_loose(made.proposal)) else ()
    first = _tried(bench, bundle, made, made.proposal, last=not others)
    yield first
    for sizes in others:
        proposal = propose(made.looked, replace(wishes, sizes=sizes))
        if _elements(proposal) <= bench.rules.policy.probes.max_elements:
            trial = _tried(bench, bundle, made, proposal, fixed=" at fixed sizes")
            yield trial
            if trial.spent:
                break
    if first.spent:  # a model that never ends is not waited for again
        _laid(bundle, made, made.proposal)
        yield replace(first, last=True)
    elif others:
        yield _tried(bench, bundle, made, made.proposal, last=True)


def regression(bench: Bench, bundle: Path, made: Made, trial: Trial, why: str) -> Trial:
    """Return the trial with golden sets of onnxruntime alone, where it gives other values than the evaluator.

    Which of the two is right nobody knows here: a run beside the evaluator is a part of the check, and holds.
    """
    _laid(bundle, made, trial.proposal)
    try:
        make(bench, bundle, Wanted(random=SETS, seed=SEED, oracle=RUNTIME))
    except UsageError as error:
        return replace(trial, said=f"none: {error.message}", made=False, evaluated=False)
    said = f"{SETS} of random inputs, computed by onnxruntime itself"
    return replace(trial, said=f"{said}; onnx's own evaluator gives other values: {why}", evaluated=False)


def loosened(bench: Bench, bundle: Path, made: Made, wishes: Wishes) -> Trial:
    """Return a trial that leaves open in outputs what no input has: the runtime knows it better than the file."""
    return _tried(bench, bundle, made, propose(made.looked, replace(wishes, loose=True)), last=True)


def _clear(bundle: Path, made: Made) -> None:
    """Remove the sets of the trial before; what was copied stays, however it is named."""
    copied = {path.partition("/")[0] for seen in made.looked.models for path in (seen.file, *seen.external)}
    for path in bundle.glob(f"{PREFIX}*"):
        if path.name not in copied:
            shutil.rmtree(path)


def _tried(
    bench: Bench, bundle: Path, made: Made, proposal: Proposal, *, fixed: str = "", last: bool = False
) -> Trial:
    _laid(bundle, made, proposal)
    spent = False
    try:
        said, why = _computed(bench, bundle)
    except SpentError as error:
        said, why, spent = "", error.message, True
    evaluated = "onnx's own evaluator" in said and not why
    return Trial(proposal, said + fixed if said else f"none: {why}", bool(said), last, evaluated, spent)


def _laid(bundle: Path, made: Made, proposal: Proposal) -> None:
    _clear(bundle, made)
    replace_text(bundle / MANIFEST_FILE, manifest_text(proposal), force=True)


def _loose(proposal: Proposal) -> Iterator[str]:
    for model in proposal.manifest.models:
        for port in model.inputs:
            yield from (dim for dim in port.shape or () if isinstance(dim, str))


def _elements(proposal: Proposal) -> int:
    """Return how many elements all inputs have at the least sizes."""
    dims = proposal.manifest.dims
    return sum(
        math.prod(dim if isinstance(dim, int) else dims[dim].min if dim in dims else 1 for dim in port.shape or ())
        for model in proposal.manifest.models
        for port in model.inputs
    )


def _computed(bench: Bench, bundle: Path) -> tuple[str, str]:
    """Return what was made, and why the evaluator did not make all; or nothing, and why.

    Raises SpentError where a limit ended the runtime.
    """
    wanted = Wanted(random=SETS, seed=SEED, oracle=REFERENCE, patience=SECONDS)
    try:
        make(bench, bundle, wanted)
    except UsageError as error:
        why = error.message
    else:
        return f"{SETS} of random inputs, computed by onnx's own evaluator", ""
    try:
        make(bench, bundle, Wanted(random=SETS, seed=f"{SEED} more", oracle=RUNTIME))
    except SpentError:
        raise
    except UsageError as error:
        return "", error.message
    by_runtime = f"{SETS} of random inputs, computed by onnxruntime itself"
    if OUT_OF_TIME in why:  # some were computed: one of them shows more than none
        with contextlib.suppress(UsageError):
            make(bench, bundle, replace(wanted, random=1))
            return f"{by_runtime}, and 1 by onnx's own evaluator", ""
    return f"{by_runtime}: {why}", why
