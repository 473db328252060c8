"""The gateway's way to the queues, which may be away when it starts and come back later."""

import threading
from collections.abc import Sequence
from pathlib import Path

from booksan.gateway.config import GatewayConfig
from booksan.gateway.uploads import Gateway
from booksan.transport import check_address, open_transport, queues_address


class Queues:
    """Opens the transport when it is first needed, and again until it can be opened."""

    def __init__(self, data_dir: Path, config: GatewayConfig, keys: Sequence[bytes]) -> None:
        """UsageError for an address that cannot be one."""
        self._address = queues_address(data_dir)
        check_address(self._address)
        self._config = config
        self._keys = keys
        self._lock = threading.Lock()
        self._gateway: Gateway | None = None

    def gateway(self) -> Gateway:
        """May block, so it is called in threads only; raises what opening raises."""
        with self._lock:
            if self._gateway is None:
                self._gateway = Gateway(
                    open_transport(self._address),
                    self._keys,
                    # A batch is let in when there is room; between that and its publishing,
                    # other batches may have taken it, but never for long.
                    room_seconds=self._config.room_seconds,
                )
            return self._gateway

    def close(self) -> None:
        with self._lock:
            gateway, self._gateway = self._gateway, None
        if gateway is not None:
            gateway.transport.close()
