"""The tests of leases, on PostgreSQL."""

from tests.fleet.again.conftest import collect
from tests.unit import test_work_records

collect(__name__, test_work_records, {})
