"""Ports of the loopback interface."""

import random
import socket

from booksan.errors import BooksanError

#: Below the ports that systems give to outgoing connections. A client that knocks again and again
#: while the node is down could otherwise be given the node's own port, and hold it.
FIRST, LAST = 12000, 31999

#: What a client of AMQP 0-9-1 says first; the server answers with a frame of type 1.
GREETING = b"AMQP\x00\x00\x09\x01"


def free_ports(number: int) -> list[int]:
    # Not the generator that tests seed: two of them would pick the same ports at once.
    choice = random.SystemRandom()
    ports: list[int] = []
    for _ in range(1000):
        port = choice.randint(FIRST, LAST)
        if port not in ports and is_free(port):
            ports.append(port)
        if len(ports) == number:
            return ports
    raise BooksanError(f"there are no free ports from {FIRST} to {LAST}")


def is_free(port: int) -> bool:
    with socket.socket() as one:
        # As servers do: the remains of old connections do not matter.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def speaks_amqp(port: int, timeout: float = 2.0) -> bool:
    """Whether a broker answers there; an open port alone may belong to one that still boots."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.sendall(GREETING)
            return connection.recv(1) == b"\x01"
    except OSError:
        return False
