"""End by counting: what a message means for its stream. Pure code, no database."""

from dataclasses import dataclass
from enum import Enum

from booksan.messages import Kind, Message


class Verdict(Enum):
    NEW = "new"
    REPEAT = "repeat"


class Conflict(Exception):
    """The stream contradicts itself, so the run cannot give right answers."""


@dataclass(frozen=True)
class Stream:
    """What is known of one stream from a sender to this shard."""

    sender: str
    #: Different batches recorded so far.
    received: int = 0
    #: Number of batches that the end told; None before the end came.
    length: int | None = None
    #: The highest batch number recorded; -1 before the first.
    highest: int = -1

    @property
    def complete(self) -> bool:
        # Numbers are unique and below the length, so counting them is enough.
        return self.length is not None and self.received == self.length

    def judge(self, message: Message, known_digest: str | None) -> Verdict:
        """Is it new or a repeat? `known_digest`: what is recorded under the same number."""
        if message.kind is Kind.END:
            return self._judge_end(message.seq)
        if known_digest is not None:
            if known_digest != message.digest:
                raise Conflict(f"batch {message.seq} of {self.sender} came twice, not the same")
            return Verdict.REPEAT
        if self.length is not None and message.seq >= self.length:
            raise Conflict(
                f"batch {message.seq} of {self.sender} is beyond its end at {self.length}"
            )
        return Verdict.NEW

    def _judge_end(self, length: int) -> Verdict:
        if self.length is not None:
            if self.length != length:
                raise Conflict(f"{self.sender} ended with {self.length} and with {length} batches")
            return Verdict.REPEAT
        if self.highest >= length:
            raise Conflict(
                f"{self.sender} ends with {length} batches, but number {self.highest} has come"
            )
        return Verdict.NEW

    def with_message(self, message: Message) -> "Stream":
        """The stream after a new message."""
        if message.kind is Kind.END:
            return Stream(self.sender, self.received, message.seq, self.highest)
        return Stream(self.sender, self.received + 1, self.length, max(self.highest, message.seq))
