"""Every error that booksan raises on purpose.

BooksanError
├── UsageError          the command line asks for something that cannot be      (exit 2)
├── InputError          an input file cannot be used                            (exit 3)
├── TooManyRejected     more rows were rejected than the user allows            (exit 4)
├── RunFailed           the run ended without answers                           (exit 5)
├── NoSpace             the disk is full                                        (exit 6)
├── MessageError        bytes that are not a message of ours
├── StateError          a database that does not fit what is asked of it
│   └── OtherVersion    its run was begun with a version of its data set that is not here
└── TransportError      the queues cannot do what is asked
    └── QueueBusy       the queue has a consumer already

The text of an error says what happened, to which input, and what to do next.
"""

#: Exit code of a process that bad configuration keeps from starting: trying again cannot help.
EXIT_CANNOT_START = 78


class BooksanError(Exception):
    """The root: whoever catches it gets all of them."""

    exit_code = 1


class UsageError(BooksanError):
    exit_code = 2


class InputError(BooksanError):
    exit_code = 3


class TooManyRejected(BooksanError):
    exit_code = 4


class RunFailed(BooksanError):
    exit_code = 5


class NoSpace(BooksanError):
    exit_code = 6


class MessageError(BooksanError):
    pass


class StateError(BooksanError):
    pass


class OtherVersion(StateError):
    """A run was begun with a version of its data set that is not here; it waits for that one."""


class TransportError(BooksanError):
    pass


class QueueBusy(TransportError):
    pass
