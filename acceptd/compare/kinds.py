"""What is measured of one pair: its elements always, and what its kind of output has beside them."""

from __future__ import annotations

from acceptd.compare import decode
from acceptd.compare.audio import Sound
from acceptd.compare.boxes import Matched
from acceptd.compare.distribution import Distributed
from acceptd.compare.embedding import Pool, Vectors
from acceptd.compare.gauge import Gauge
from acceptd.compare.ranked import Ranked
from acceptd.compare.sequence import Tokens
from acceptd.compare.tally import Tally
from acceptd.compare.task import Pair
from acceptd.values import Evidence

_NO_CLASSES = frozenset({"int64", "uint64", "complex64", "complex128", "bool", "string"})


class Measures:
    """The measures of one pair, fed with every tensor of its value. ``pool`` holds the rows of embeddings."""

    def __init__(self, pair: Pair, pool: Pool | None = None) -> None:
        how, kind = pair.how, pair.kind
        self.tally = Tally(pair.rtol, pair.atol)
        self.ranked = Ranked(how.top_k) if kind in {"logits", "probabilities"} else None
        self.distributed = Distributed(how.sum_error) if kind == "probabilities" else None
        self.vectors = Vectors(how.neighbours, pool or Pool()) if kind == "embedding" else None
        self.sound = Sound() if kind == "audio" else None
        self.tokens = Tokens(how) if kind == "sequence" else None
        self.boxes = Matched(how) if kind == "boxes" else None

    def gauges(self, dtype: str) -> list[Gauge]:
        """Return the measures of a tensor's rows that make sense for its element type."""
        rows: list[Gauge | None] = []
        if dtype in decode.FLOATS:
            rows += [self.ranked, self.distributed]
        if dtype not in _NO_CLASSES:
            rows += [self.vectors, self.sound]
        return [one for one in rows if one is not None]

    @property
    def range_violations(self) -> int:
        """Elements outside [0, 1] and rows with another sum than 1."""
        found = self.distributed
        return found.outside + found.sum_violations if found is not None else 0

    def figures(self) -> dict[str, Evidence]:
        """Return the filled parts of ``OutputStats`` by field name; a measure that was never fed has none."""
        fed = (
            (self.ranked, self.ranked and self.ranked.rows),
            (self.distributed, self.distributed and self.distributed.rows),
            (self.vectors, self.vectors and self.vectors.rows),
            (self.sound, self.sound and self.sound.channels),
            (self.tokens, self.tokens and self.tokens.rows),
            (self.boxes, self.boxes and (self.boxes.expected or self.boxes.got)),
        )
        found: dict[str, Evidence] = {}
        for one, amount in fed:
            if one is not None and amount:
                found |= one.figures()
        return found
