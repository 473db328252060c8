"""Whether the hosts of a topology on this machine can hear each other."""

from collections.abc import Iterator, Mapping

from booksan.doctor.finding import Finding, fail, ok
from booksan.tickets import SECRET_FILE, load_keys
from booksan.topology.members import Member


def check_secrets(members: Mapping[str, Member]) -> Iterator[Finding]:
    """A host hears whom it has the first secret of."""
    keys = {
        one.name: load_keys(one.data_dir)
        for one in members.values()
        if (one.data_dir / SECRET_FILE).exists()
    }
    deaf = [
        (name, other)
        for name, mine in keys.items()
        for other, theirs in keys.items()
        if theirs[0] not in mine
    ]
    for name, other in deaf:
        yield fail(
            f"host {name}",
            f"does not hear {other}: it does not know its secret",
            "start all hosts with the same secret; docs/service.md tells how it is changed",
        )
    if len(keys) > 1 and not deaf:
        yield ok("secrets", f"{len(keys)} hosts on this machine know each other's")
