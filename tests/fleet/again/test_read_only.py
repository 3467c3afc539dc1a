"""The tests of a ledger for reading alone, on PostgreSQL."""

from tests.fleet.again.conftest import collect
from tests.unit import test_record_read_only

collect(
    __name__,
    test_record_read_only,
    {"test_sqlite_itself_refuses_what_goes_around_the_ledger": "test_record.py has what PostgreSQL refuses"},
)
