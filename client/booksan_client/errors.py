"""The errors of the client, kept apart so that it can be used without the rest of booksan."""


class InputError(Exception):
    """An input file cannot be used; the text names the file and says why."""
