"""The tests of the log, on PostgreSQL."""

from tests.fleet.again.conftest import collect
from tests.unit import test_record_log

collect(
    __name__,
    test_record_log,
    {
        "test_the_database_itself_refuses_to_change_history": "test_record.py has PostgreSQL's statements",
        "test_the_database_file_is_private_and_never_opened_when_others_can_write_it": "there is no file",
        "test_evidence_that_was_exchanged_is_never_given_out": "a column of bytes holds bytes there",
        "test_an_entry_whose_bytes_became_text_or_a_number_is_refused_in_one_line": "bytes stay bytes there",
        "test_what_is_no_ledger_or_a_newer_one_is_refused_in_one_line": "test_record_migrate.py has the same",
    },
)
