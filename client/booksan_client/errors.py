"""Every error that the client raises on purpose, apart from those of the rest of booksan.

ClientError
├── UsageError          the command line asks for something that cannot be      (exit 2)
├── InputError          an input file cannot be used                            (exit 3)
│   └── FileChanged     it is not what it was when its upload began
├── TooManyRejected     more rows were rejected than the user allows            (exit 4)
├── RunFailed           the run ended without answers                           (exit 5)
├── NoSpace             the server's disk is full, or the local one             (exit 6)
├── ServerError         no server can be reached, or it does not do as it should (exit 7)
│   └── Refused         it answers with an error that trying again cannot heal
├── RunGone             the server has deleted the run                          (exit 8)
└── Interrupted         the user asked to stop; everything is kept              (exit 130)

The text of an error says what happened, to which input, and what to do next.
"""


class ClientError(Exception):
    """The root: whoever catches it gets all of them."""

    exit_code = 1


class UsageError(ClientError):
    exit_code = 2


class InputError(ClientError):
    """An input file cannot be used; the text names the file and says why."""

    exit_code = 3


class FileChanged(InputError):
    """A file is not what it was when its upload began."""

    def __init__(self, path: object, detail: str = "") -> None:
        super().__init__(
            f"{path}: has changed since its upload began{detail}; put the old file back, or begin "
            "a new run with --new, which cancels the old one"
        )
        self.path = path


class TooManyRejected(ClientError):
    exit_code = 4


class RunFailed(ClientError):
    exit_code = 5


class NoSpace(ClientError):
    exit_code = 6


class ServerError(ClientError):
    exit_code = 7


class Refused(ServerError):
    """The server's own words, with the status and the code that it gave."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class RunGone(ClientError):
    exit_code = 8

    def __init__(self, message: str, how: str = "") -> None:
        super().__init__(message)
        #: How it ended: done, cancelled, expired or idle; empty if the server does not know it.
        self.how = how


class Interrupted(ClientError):
    exit_code = 130

    def __init__(self, message: str = "interrupted; the same command goes on where it was") -> None:
        super().__init__(message)
