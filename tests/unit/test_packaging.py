"""An installed wheel has what the checkout has: policies, schemas, extras; one place is the source of each."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from acceptd import config
from acceptd.config import Settings, policies_directory
from acceptd.errors import ConfigError
from acceptd.json_schemas import TEXTS
from acceptd.policy.load import load_policy

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_wheel_takes_every_schema_and_the_policies_from_their_one_place() -> None:
    taken = project()["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    schemas = {f"docs/{name}.schema.json": f"acceptd/schemas/{name}.schema.json" for name in TEXTS}
    assert taken == {"policies": "acceptd/policies", **schemas}
    assert all((ROOT / source).exists() for source in taken)
    assert {str(one.relative_to(ROOT)) for one in ROOT.glob("docs/*.schema.json")} == set(schemas)


def test_the_wheel_names_its_licence_and_a_command_that_can_be_imported() -> None:
    facts = project()["project"]
    assert facts["scripts"] == {"acceptd": "acceptd.__main__:run"}
    assert [ROOT.joinpath(name).is_file() for name in facts["license-files"]] == [True]
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")


def test_extras_are_those_of_their_own_environments() -> None:
    extras = project()["project"]["optional-dependencies"]
    wanted = (ROOT / "oms" / "requirements.in").read_text("utf-8")
    for one in extras["oms"]:
        assert one.partition(">=")[0] in wanted


def test_python_m_acceptd_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "acceptd", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, "acceptd", "")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The places of an installation: site-packages beside the code, /etc empty, the wheel's own policies."""
    shipped = tmp_path / "site-packages" / "acceptd" / "policies"
    shipped.parent.mkdir(parents=True)
    shipped.symlink_to(ROOT / "policies")
    monkeypatch.setattr(config, "CHECKOUT", tmp_path / "site-packages")
    monkeypatch.setattr(config, "INSTALLED_POLICIES", tmp_path / "etc")
    monkeypatch.setattr(config, "SHIPPED_POLICIES", shipped)
    return tmp_path


def test_without_a_checkout_the_wheels_own_policies_are_read(installed: Path) -> None:
    directory = policies_directory(Settings())
    assert directory == installed / "site-packages" / "acceptd" / "policies"
    assert load_policy(directory / "default.toml").name == "default"


def test_the_operators_policies_come_before_the_wheels_and_the_named_ones_before_all(installed: Path) -> None:
    (installed / "etc").mkdir()
    assert policies_directory(Settings()) == installed / "etc"
    assert policies_directory(Settings(policies="/srv/rules")) == Path("/srv/rules")


def test_another_packages_policies_beside_an_installed_acceptd_are_not_taken_for_ours(installed: Path) -> None:
    (installed / "site-packages" / "policies").mkdir()
    assert policies_directory(Settings()) != installed / "site-packages" / "policies"
    assert config.default_state() != installed / "site-packages" / "var"


def test_the_wheels_policies_are_refused_where_others_may_write_them(installed: Path, tmp_path: Path) -> None:
    loose = tmp_path / "default.toml"
    loose.write_bytes((ROOT / "policies" / "default.toml").read_bytes())
    loose.chmod(0o664)
    with pytest.raises(ConfigError, match="chmod go-w"):
        load_policy(loose)
