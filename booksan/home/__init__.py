"""The home of a client: the stage that decides about a run, and what others read of it."""
