"""The process tree of one host.

A supervisor (`python -m booksan.supervisor DATA_DIR`) forks one process per worker and restarts
what dies. Whoever starts a host does it through `booksan.supervisor.handle.Host`.

    states     the states and exit codes, plain data
    policy     when a dead worker starts again, and when the host gives up: pure code
    config     what host.json asks for
    status     what host-status.json tells
    locks      one supervisor per directory, one generation of workers
    wakeup     signals as bytes in a pipe
    tether     a worker dies with its supervisor
    logs       the log of events, and the files with the output of workers
    child      what a new process does before it is a worker
    workers    what the supervisor knows of each worker
    loop       wait, reap, restart
    handle     the driver's side

Nothing here is imported by this file, and nothing in the supervisor loads a library that may start
threads: it forks.
"""
