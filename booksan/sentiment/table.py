"""A table of what was worked out before, of bounded size."""

from typing import TypeVar

Value = TypeVar("Value")

#: Entries of a table. A full one forgets every other entry: what is frequent comes back at once,
#: and what was frequent only once goes in time.
MAX_ENTRIES = 1 << 17
#: Longer keys are not remembered (characters): they are rare, and would take up the memory.
MAX_KEY = 32


class Table(dict[str, Value]):
    """A dictionary that works out what it lacks: the fastest look-up that Python has."""

    def __missing__(self, key: str) -> Value:
        value = self.work_out(key)
        if len(key) <= MAX_KEY:
            if len(self) >= MAX_ENTRIES:
                self._forget_half()
            self[key] = value
        return value

    def _forget_half(self) -> None:
        # The list is made at once; another thread may add to the table meanwhile.
        kept = dict(list(self.items())[::2])
        self.clear()
        self.update(kept)

    def work_out(self, key: str) -> Value:
        """The value of a key, which depends on nothing else."""
        raise NotImplementedError
