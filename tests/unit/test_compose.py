"""What docker-compose.yaml lets containers do, and what it keeps from them."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
HOSTS = ("alpha", "beta", "gamma")


def services_in(name: str) -> dict[str, Any]:
    yaml = importlib.import_module("yaml")
    return dict(yaml.safe_load((ROOT / name).read_text())["services"])


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return services_in("docker-compose.yaml")


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_writes_to_its_volume_only_and_has_limits(
    services: dict[str, Any], name: str
) -> None:
    host = services[name]
    assert host["read_only"] is True
    assert [place.partition(":")[0] for place in host["tmpfs"]] == ["/tmp"]
    assert f"{name}:/data" in host["volumes"]
    assert host["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in host["security_opt"]
    assert host["mem_limit"]
    # As a number: an engine takes no text for it.
    assert isinstance(host["pids_limit"], int)


def test_every_service_has_bounded_rights_and_logs(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert "no-new-privileges:true" in service["security_opt"], name
        assert "privileged" not in service
    for name in (*HOSTS, "broker"):
        assert services[name]["logging"]["options"]["max-size"]


def test_with_a_door_the_socket_is_in_one_container_that_has_no_network(
    services: dict[str, Any],
) -> None:
    found = services_in("docker-compose.door.yaml")
    door = found.pop("door")
    assert door["network_mode"] == "none"
    assert door["read_only"] is True
    assert door["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in door["security_opt"]
    assert any(volume.endswith(":/var/run/docker.sock") for volume in door["volumes"])
    place = door["command"][0].removeprefix("/data/")
    assert set(found) == set(HOSTS) <= set(services)
    for host in found.values():
        assert host["volumes"] == ["door:/engine"]
        assert host["environment"] == {"DOCKER_HOST": f"unix:///engine/{place}"}
        assert "door" in host["depends_on"]


def test_nothing_is_published_beyond_this_machine(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name


def test_the_broker_has_a_user_of_its_own_and_no_password_has_a_default(
    services: dict[str, Any],
) -> None:
    assert services["broker"]["environment"]["RABBITMQ_DEFAULT_USER"] == "booksan"
    text = (ROOT / "docker-compose.yaml").read_text()
    assert "guest" not in text
    for name in ("BOOKSAN_SECRET", "BOOKSAN_TOKEN", "BOOKSAN_BROKER_PASSWORD"):
        assert re.search(rf"\$\{{{name}:\?", text), name
        assert not re.search(rf"\$\{{{name}(:-|\}})", text), name


def test_the_locks_hold_every_library_with_hashes_and_no_address() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dev = project["optional-dependencies"]["dev"]
    for file, wanted in (
        ("requirements.lock", project["dependencies"]),
        ("requirements-dev.lock", project["dependencies"] + dev),
    ):
        text = (ROOT / file).read_text()
        locked = dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", text, re.MULTILINE))
        names = {re.split(r"[<>=\[]", each)[0] for each in wanted} - {"booksan"}
        assert names <= set(locked), file
        assert "://" not in text
        for entry in re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]:
            assert "--hash=sha256:" in entry, entry.splitlines()[0]
