"""Takes what the record still wants done into the task queue: what found no place, and what was lost on the way.

The record is the whole queue, and the task queue a window on it. A place that becomes free is filled with its
team's oldest submission (:meth:`Refill.team`, after each decision); :meth:`Refill.all` looks at every team, at a
start and as housekeeping: so a task that an accident lost is deferred again, whatever it was. What either costs
depends on teams and places, not on how many submissions wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import structlog
from sqlalchemy import text

from acceptd.errors import FleetAwayError
from acceptd.fleet.tasks import TEAM_PLACES, Offered

if TYPE_CHECKING:
    from sqlalchemy import Connection

BATCHES: Final = 64
"""So many times as many rows of one team are looked at, where none of the older ones can be offered."""
log = structlog.get_logger("acceptd.fleet")

# One step of the index for each team (a loose scan: PostgreSQL wiki, "Loose indexscan").
_TEAMS: Final = text("""
    WITH RECURSIVE teams AS (
        (SELECT team FROM submissions WHERE state = 'sealed' ORDER BY team LIMIT 1)
      UNION ALL
        SELECT (SELECT next.team FROM submissions AS next WHERE next.state = 'sealed' AND next.team > teams.team
                ORDER BY next.team LIMIT 1)
        FROM teams WHERE teams.team IS NOT NULL
    ) SELECT team FROM teams WHERE team IS NOT NULL
""")
_OLDEST: Final = text("""
    SELECT id FROM submissions WHERE state = 'sealed' AND team = :team AND NOT EXISTS (
        SELECT 1 FROM procrastinate_jobs
        WHERE args->>'submission' = submissions.id AND status IN ('todo', 'doing'))
    ORDER BY received_at, id LIMIT :most OFFSET :behind
""")


class Refill:
    """Offers sealed submissions of which the queue has no task. ``reading`` is the ledger's, on PostgreSQL.

    ``offer`` defers whatever the record wants of one submission next (order, examinations, decision) and says what
    became of it: with ``full`` its team's turn here is over. Safe from threads: what two offer is queued once.
    """

    def __init__(
        self,
        reading: Callable[[], AbstractContextManager[Connection]],
        offer: Callable[[str], Offered],
        *,
        most: int = TEAM_PLACES,
    ) -> None:
        self._reading, self._offer, self._most = reading, offer, most

    def team(self, team: str) -> int:
        """Offer one team's oldest submissions until a place is wanting; return how many found one."""
        for batch in range(BATCHES):
            found = self._ask(_OLDEST, team=team, most=self._most, behind=batch * self._most)
            offered = [*self._offers(found)]
            # Where nothing of a whole batch can be worked, it does not hide what stands behind it.
            if len(found) < self._most or set(offered) - {"known"}:
                return offered.count("queued")
        return 0

    def _offers(self, found: list[str]) -> Iterator[Offered]:
        for submission in found:
            try:
                offered = self._offer(submission)
            except FleetAwayError:
                raise
            except Exception:  # one submission keeps nobody else's waiting, whatever is the matter with it
                log.exception("not offered", submission=submission[:160])
                continue
            yield offered
            if offered == "full":
                return

    def all(self) -> int:
        """Do so for every team; return how many found a place."""
        return sum(self.team(team) for team in self._ask(_TEAMS))

    def _ask(self, query: Any, **values: Any) -> list[str]:
        with self._reading() as connection:
            return list(connection.execute(query, values).scalars())
