"""What is looked at in each node that can run: one table from operator to the questions asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sandbox.inspect import modes, traps, trees
from sandbox.inspect.look import Look
from sandbox.inspect.problems import Problems
from sandbox.inspect.quantised import Quantised
from sandbox.inspect.weights import IntegerFacts

Question = Callable[["Looks", Look], None]


class Looks:
    """Asks each node its questions; one finding per code and place, however often a function is called."""

    def __init__(self, problems: Problems, integers: Mapping[str, IntegerFacts]) -> None:
        self.quantised = Quantised()
        self.integers = integers
        """Facts of large integer tensors by name; their values are not in the copy that is looked at."""
        self._problems = problems
        self._told: set[tuple[str, str]] = set()

    def wants(self, domain: str, op_type: str) -> bool:
        """Whether anything is asked of an operator: most nodes are never looked at closer."""
        return (domain, op_type) in ASKED

    def node(self, look: Look) -> None:
        """Look at one node."""
        key = (look.domain, look.op_type)
        asked = TABLE.get(key)
        if asked is not None:
            for question in asked:
                question(self, look)
        if key in self.quantised.operators:
            self.quantised.node(look)

    def tell(self, code: str, look: Look, message: str) -> None:
        """Add a problem of this node, once."""
        place = look.place
        if (code, place) not in self._told:
            self._told.add((code, place))
            self._problems.add(code, place, message)


def _division(looks: Looks, look: Look) -> None:
    found = traps.division(look, looks.integers)
    if found is not None:
        looks.tell(found[0], look, found[1])


def _sizes(looks: Looks, look: Look) -> None:
    message = traps.sizes(look)
    if message:
        looks.tell("structure/attribute-range", look, message)


def _mode(looks: Looks, look: Look) -> None:
    message = modes.training(look)
    if message:
        looks.tell("structure/training-mode", look, message)


def _random(looks: Looks, look: Look) -> None:
    if look.attributes.get("seed") is None:
        looks.tell("structure/unseeded-random", look, f"{look.op_type} has no seed")


def _tree(looks: Looks, look: Look) -> None:
    for code, message in trees.faults(look.op_type, look.attributes):
        looks.tell(code, look, message)


TABLE: Final[dict[tuple[str, str], tuple[Question, ...]]] = {
    **{("ai.onnx", name): (_division,) for name in ("Div", "Mod")},
    **{("ai.onnx", name): (_sizes,) for name in traps.SIZED},
    **{("ai.onnx", name): (_mode,) for name in ("BatchNormalization", "Dropout")},
    ("com.microsoft", "BiasDropout"): (_mode,),
    **{("ai.onnx", name): (_random,) for name in modes.RANDOM},
    **{("ai.onnx.ml", name): (_tree,) for name in trees.OPERATORS},
}
"""(domain, operator) to its questions."""
ASKED: Final = frozenset(TABLE) | Quantised.operators
