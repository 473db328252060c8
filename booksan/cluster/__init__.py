"""Hosts of a topology on this machine: one in the foreground, or all of them in the background.

places       where hosts and clusters are kept
credentials  secrets, tokens and the queues' address, from the environment and from files
unfinished   the clients that a data directory still works for
prepare      a data directory made ready for its supervisor
host         `booksan host`: prepare, then become the supervisor
processes    processes that are not our children, told apart from later ones with their pid
ports        free ones
record       cluster.json
broker       the cluster's own RabbitMQ
health       whether a host is at work
start, down  `booksan cluster up` and `down`
status       what is running
table        the same for a terminal
cli          the commands
"""
