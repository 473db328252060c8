"""Tokens of letters and digits, of which no two are equal, without remembering any."""

from booksan.generate.chance import Chance

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_PIECES = 1 << 12
_TOKENS = _PIECES**4
#: Odd, so that steps of it visit each token once.
_STEP = 0x9E3779B97F4B


class Tokens:
    """The i-th token, for i from 0 on: four pieces of four characters."""

    def __init__(self, chance: Chance) -> None:
        self._start = chance.below(_TOKENS)
        size = len(_ALPHABET)
        self._pieces = [
            "".join([_ALPHABET[number // size**i % size] for i in range(4)])
            for number in chance.distinct(_PIECES, size**4)
        ]

    def at(self, i: int) -> str:
        number = (self._start + i * _STEP) % _TOKENS
        pieces = self._pieces
        return (
            pieces[number >> 36]
            + pieces[number >> 24 & 4095]
            + pieces[number >> 12 & 4095]
            + pieces[number & 4095]
        )
