"""Where the home of a client is that comes without its ticket."""

from booksan.gateway.access import Caller
from booksan.gateway.homes import Homes
from booksan.gateway.neighbours import Neighbours

HOME_PATH = "/internal/v1/homes"


async def home_of(homes: Homes, neighbours: Neighbours, caller: Caller, client: str) -> int:
    """The shard where its home is, or would be now.

    A run is pinned to the shard numbers that it began with. So another number of homes than at that
    time must not lead to a second home: all hosts are asked, once.
    """
    present = homes.shard(client)
    if homes.are_one:
        return present
    found = await homes.run(homes.known_shard, client)
    if found is not None or caller.gateway:
        return present if found is None else found
    async for _, answer in neighbours.ask_all(f"{HOME_PATH}/{client}"):
        if answer is not None and answer["shard"] is not None:
            return int(answer["shard"])
    return present
