"""`[objects]` of acceptd.toml: what may stand there, and above all what may not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from acceptd.config import load_settings
from acceptd.errors import ConfigError, UsageError
from acceptd.objectstore.objects import open_objects
from acceptd.objectstore.settings import ObjectsTable

pytestmark = pytest.mark.unit


def settings(state: Path, text: str) -> object:
    """Return the table of an acceptd.toml that says this."""
    (state / "acceptd.toml").write_text(f"[objects]\n{text}\n")
    (state / "acceptd.toml").chmod(0o600)
    return load_settings(state).objects


@pytest.mark.parametrize(
    "text",
    [
        'url = "s3://models/acceptd/fleet-1"\nendpoint = "https://objects.example:9000"\nregion = "eu-central-1"',
        'url = "s3://models"',
        'url = "file:///srv/acceptd/objects"',
        'url = ""\ncache_bytes = 1048576\nseconds = 5\ntries = 1\ntogether = 1\nunconditional = true',
    ],
)
def test_a_place_that_can_be_meant_is_taken(tmp_path: Path, text: str) -> None:
    """Amazon's, another's, a directory, the state's own."""
    settings(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('key = "AKIA"', "AWS_ACCESS_KEY_ID"),
        ('secret = "x"', "AWS_ACCESS_KEY_ID"),
        ('aws_secret_access_key = "x"', "~/.aws"),
        ('session_token = "x"', "AWS_ACCESS_KEY_ID"),
        ('url = "s3://me:word@models/x"', "no user and no password"),
        ('url = "s3://models/x"\nendpoint = "https://me:word@host"', "no user and no password"),
        ('url = "s3://models/../x"', "prefix"),
        ('url = "s3://Models/x"', "no name of a bucket"),
        ('url = "s3://m..x/y"', "no name of a bucket"),
        ('url = "s3:///x"', "no name of a bucket"),
        ('url = "s3://models/x?versionId=1"', "ends with its path"),
        ('url = "file://host/path"', "absolute"),
        ('url = "file:///"', "absolute"),
        ('url = "file:///srv/../etc"', "leads nowhere"),
        ('url = "https://models/x"', "there are file"),
        ('url = "/srv/objects"', "there are file"),
        ('url = "s3://[::1"', "no URL"),
        ('endpoint = "https://host"', "only an s3"),
        ('url = "s3://models"\nendpoint = "host:9000"', "https://host:port"),
        ('url = "s3://models"\nendpoint = "https://host/path"', "no path"),
        ('url = "s3://models"\nendpoint = "https://host:99999"', "no URL"),
        ("cache_bytes = 0", "cache_bytes"),
        ("tries = 0", "tries"),
        ("seconds = 0", "seconds"),
        ("together = 1000", "together"),
        ("color = 1", "color"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_line(tmp_path: Path, text: str, words: str) -> None:
    """With the key, and where it is about credentials, with where those belong."""
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, text)
    assert words in str(caught.value)
    assert "objects" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "word" not in str(caught.value).replace("password", "")


def test_without_the_extra_the_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory needs nothing; a bucket says which extra, and not before it is opened."""
    monkeypatch.setitem(sys.modules, "s3fs", None)
    table = ObjectsTable(url="s3://models/x")
    with pytest.raises(UsageError, match=r"s3fs, which is not installed.*acceptd\[fleet\]"):
        open_objects(table, tmp_path)
    open_objects(ObjectsTable(), tmp_path).put_blob(b"x")
