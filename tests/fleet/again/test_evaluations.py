"""The tests of held-out evaluations, on PostgreSQL."""

from tests.fleet.again.conftest import collect
from tests.unit import test_record_evaluations

collect(__name__, test_record_evaluations, {})
