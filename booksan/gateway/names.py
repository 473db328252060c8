"""By which names a gateway may be called, and from which pages: a defence against web browsers.

A page of anybody can make a browser on this machine call a gateway here: by a name of its own that
it lets point to 127.0.0.1, or across origins. A browser tells both, in Host and Origin. Addresses
cannot be made to point elsewhere, so they are always taken.
"""

import ipaddress
import os
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Problem

HOSTS = "BOOKSAN_HOSTS"


class Names:
    def __init__(self, given: Iterable[str], own: Iterable[str], *, any_host: bool) -> None:
        """Pages may come from the `given` names too; with `any_host` only origins are checked."""
        self._given = frozenset(name.lower() for name in given)
        self._names = self._given | {name.lower() for name in own}
        self._any_host = any_host

    def check(self, headers: Headers) -> None:
        """Refuses what a browser sends for somebody else's page."""
        hosts = headers.getlist("host")
        for host in hosts:
            if not self._any_host and not self._is_known(_name_of(host)):
                raise Problem(
                    403, "wrong_host", f"the gateway is not known by this name; see {HOSTS}"
                )
        for origin in headers.getlist("origin"):
            place = origin.partition("://")[2]
            if place not in hosts and _name_of(place) not in self._given:
                raise Problem(403, "wrong_origin", "pages of other origins may not ask this")

    def _is_known(self, name: str) -> bool:
        return name in self._names or name.endswith(".localhost") or _is_address(name)


def names_of(config: GatewayConfig, *, has_token: bool) -> Names:
    """Whoever names hosts has them checked; else a token is as good: no page knows it."""
    given = [*config.hosts, *os.environ.get(HOSTS, "").replace(",", " ").split()]
    return Names(given, _own_names(config), any_host=has_token and not given)


def _own_names(config: GatewayConfig) -> Iterator[str]:
    yield from ("localhost", config.host, config.address.host)
    for url in (*config.gateways.values(), *config.homes.values()):
        yield urlsplit(url).hostname or "localhost"


def _name_of(place: str) -> str:
    """Without the port; nothing for what is no place."""
    try:
        return (urlsplit(f"//{place}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
