"""`booksan chaos`: kills what it likes of a cluster, and tells how long it took to come back.

kinds      what can be hit, and how often
durations  2s, 500ms, 1m
schedule   when each kind is hit, from a seed
view       the cluster as it is now: which process is what
containers the same for a cluster in containers
locks      who holds a lock on a file
clients    the processes of this user's clients, by their locks
choice     whom a strike may hit, and whom mercy spares
wounds     what was hit, and whether it is back
probes     questions to gateways, beside the loop
report     lines, the table, the JSON
run        the loop
cli        the command
"""
