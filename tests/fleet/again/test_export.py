"""The tests of the export, on PostgreSQL."""

from tests.fleet.again.conftest import collect
from tests.unit import test_record_export

collect(__name__, test_record_export, {})
