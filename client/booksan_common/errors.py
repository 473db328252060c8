"""Every error that is raised on purpose: those that client and servers share, and the client's own.

BooksanError            the root: its text is for the user, all else is a bug
├── UsageError          the command line asks for something that cannot be      (exit 2)
├── InputError          an input file cannot be used                            (exit 3)
│   └── FileChanged     it is not what it was when its upload began
├── TooManyRejected     more rows were rejected than the user allows            (exit 4)
├── RunFailed           the run ended without answers                           (exit 5)
├── NoSpace             a disk is full, here or at the server                   (exit 6)
├── ServerError         no server can be reached, or it does not do as it should (exit 7)
│   └── Refused         it answers with an error that trying again cannot heal
├── RunGone             the server has deleted the run                          (exit 8)
└── Interrupted         the user asked to stop; everything is kept              (exit 130)

`booksan.errors` has those of the servers. The text of an error says what happened, to which input,
and what to do next.
"""

#: What the exit codes mean, the same for all commands. The README has this very table.
EXIT_CODES = {
    0: "done",
    1: "internal error, or a host that does not start; the message says where the log is",
    2: "usage: an unknown option, parameter or data set, or a data directory of another run",
    3: "an input is not usable: missing, not CSV, a column is missing, changed since its upload "
    "began",
    4: "more rows were rejected than `--max-rejected` allows",
    5: "the run failed; the message gives the cause",
    6: "no space left; make room and type the same command again",
    7: "no server or queue can be reached, or it refuses the token or the secret",
    8: "the run is gone at the server: cancelled or expired",
    9: "not all is well: `cluster status`, `doctor`, `chaos` or `bench` found something amiss",
    70: "`host` gave up: a worker died again and again; its log says why",
    75: "`host` runs already, in another process",
    78: "`host` cannot start with this configuration; the log says why",
    130: "interrupted; the same command goes on",
}


class BooksanError(Exception):
    """The root: whoever catches it gets all of them."""

    exit_code = 1


class UsageError(BooksanError):
    exit_code = 2


class InputError(BooksanError):
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


class TooManyRejected(BooksanError):
    exit_code = 4


class RunFailed(BooksanError):
    exit_code = 5


class NoSpace(BooksanError):
    exit_code = 6


class ServerError(BooksanError):
    exit_code = 7


class Refused(ServerError):
    """The server's own words, with the status and the code that it gave."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class RunGone(BooksanError):
    exit_code = 8

    def __init__(self, message: str, how: str = "") -> None:
        super().__init__(message)
        #: How it ended: done, cancelled, expired or idle; empty if the server does not know it.
        self.how = how


class Interrupted(BooksanError):
    exit_code = 130

    def __init__(self, message: str = "interrupted; the same command goes on where it was") -> None:
        super().__init__(message)
