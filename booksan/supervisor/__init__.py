"""The process tree of one host.

A supervisor (`python -m booksan.supervisor DATA_DIR`) forks one process per worker and restarts
what dies. Whoever starts a host does it through `booksan.host.handle.Host`.

    loop         wait, reap, restart
    workers      what the supervisor knows of each worker, and who hangs or takes too much
    forkserver   a process that has loaded everything; workers are forked from it
    child        what a new process does before it is a worker; it dies with its supervisor
    announcer    what people hear of a host

Nothing here is imported by this file, and nothing in the supervisor loads a library that may start
threads: it forks.
"""
