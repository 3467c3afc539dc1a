"""The tests of rules before their use, on PostgreSQL."""

from tests.fleet.again.conftest import collect
from tests.unit import test_record_before_use

collect(__name__, test_record_before_use, {})
