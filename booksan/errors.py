"""The errors of the servers, beside those that they share with the client.

BooksanError            the root, in booksan_common.errors
├── MessageError        bytes that are not a message of ours
├── StateError          a database that does not fit what is asked of it
│   └── OtherVersion    its run was begun with a version of its data set that is not here
├── TransportError      the queues cannot do what is asked                      (exit 7)
│   ├── QueueBusy       the queue has a consumer already
│   └── QueuesFull      the queues had no room for a batch for too long
└── DataSetError        the code of a data set raised (stages/dataset_errors.py)

The text of an error says what happened, to which input, and what to do next.
"""

from booksan_common.errors import (
    BooksanError,
    InputError,
    NoSpace,
    RunFailed,
    TooManyRejected,
    UsageError,
)

__all__ = [
    "EXIT_CANNOT_START",
    "EXIT_NOT_WELL",
    "BooksanError",
    "InputError",
    "MessageError",
    "NoSpace",
    "OtherVersion",
    "QueueBusy",
    "QueuesFull",
    "RunFailed",
    "StateError",
    "TooManyRejected",
    "TransportError",
    "UsageError",
]

#: Exit code of a command that looked at something and found it not as it should be.
EXIT_NOT_WELL = 9
#: Exit code of a process that bad configuration keeps from starting: trying again cannot help.
EXIT_CANNOT_START = 78


class MessageError(BooksanError):
    pass


class StateError(BooksanError):
    pass


class OtherVersion(StateError):
    """A run was begun with a version of its data set that is not here; it waits for that one."""


class TransportError(BooksanError):
    exit_code = 7


class QueueBusy(TransportError):
    pass


class QueuesFull(TransportError):
    """The queues had no room for a batch for too long."""
