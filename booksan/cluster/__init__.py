"""Hosts of a topology on this machine: one in the foreground, or all of them in the background.

paths        where hosts and clusters are kept, cluster.json, and free ports
credentials  secrets, tokens and the queues' address, from the environment and from files
prepare      a data directory made ready for its supervisor
host         `booksan host`: prepare, then become the supervisor
processes    processes that are not our children, told apart from later ones with their pid
registry     the hosts on this machine find each other; whether one is at work
broker       the cluster's own RabbitMQ
start        `booksan cluster up` and `down`
status       what is running, also for a terminal; depths: how long the queues are
containers   the same for a cluster in containers
cli          the commands
"""
