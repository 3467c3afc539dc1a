"""The tests of the log among processes, on PostgreSQL."""

from tests.fleet.again.conftest import collect
from tests.unit import test_record_log_beside

collect(
    __name__,
    test_record_log_beside,
    {
        "test_entries_of_other_processes_in_between_are_seen": "as test_record.py has it",
        "test_a_writer_that_waits_too_long_hears_it_in_our_words": "as test_record.py has it",
        "test_entries_are_written_with_full_synchronisation_and_the_queue_without": "asks SQLite; as above",
    },
)
