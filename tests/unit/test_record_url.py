"""The URL of the record: what cannot be meant, gives a secret away or is acceptd's own is refused in words."""

from __future__ import annotations

import pytest

from acceptd.postgres_url import record_url

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "url",
    [
        "",
        "postgresql://w1@database.example/acceptd",
        "postgres:///acceptd?host=/run/postgresql&sslmode=verify-full",
        "postgresql://w1@[::1]:5432/acceptd?application_name=w1",
        "postgresql:///a%23b",
    ],
)
def test_a_url_without_a_secret_is_taken_as_it_is(url: str) -> None:
    assert record_url(url) == url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://w1:SECRET@h/a", "holds a password"),
        ("postgresql://w1:@h/a", "holds a password"),
        ("postgresql://h/a?password=SECRET", "holds a password"),
        ("postgresql://h/a?PassWord=SECRET", "holds a password"),
        ("postgresql://h/a?sslpassword=SECRET&x=1", "holds a password"),
        ("postgresql://h/a?oauth_client_secret=", "holds a password"),
        ("mysql://w1:SECRET@h/a", "holds a password"),
        ("mysql://h/a", "begins with postgresql://"),
        ("/var/lib/ledger.sqlite3", "begins with postgresql://"),
        ("postgresql://h/a?options=-cx", "'options' in the URL of the record is acceptd's own"),
        ("postgresql://h/a?client_encoding=latin1", "'client_encoding' in the URL of the record is acceptd's own"),
        ("postgresql://h/a#SECRET", "holds a #: write it as %23"),
        ("postgresql://h/a b", "holds blanks or control characters"),
        ("postgresql://h/a\n", "holds blanks or control characters"),
        ("postgresql://[::1/a", "is malformed: postgresql://user@host:port/database"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_and_not_repeated(url: str, said: str) -> None:
    with pytest.raises(ValueError, match="the URL of the record") as caught:
        record_url(url)
    assert said in str(caught.value)
    assert "SECRET" not in str(caught.value)
