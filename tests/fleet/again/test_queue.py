"""The tests of the queue, on PostgreSQL."""

from tests.fleet.again.conftest import collect
from tests.unit import test_record_queue

collect(__name__, test_record_queue, {})
