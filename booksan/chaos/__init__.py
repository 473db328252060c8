"""`booksan chaos`: kills what it likes of a cluster, and tells how long it took to come back.

kinds       what can be hit, how often, and durations as people write them
view        the cluster as it is now: which process is what, by locks; the clients of this user
containers  the same for a cluster in containers
targets     whom a strike may hit, whom mercy spares, and what is back
run         the schedule from a seed, the loop, and the report
cli         the command
"""
