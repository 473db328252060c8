"""`booksan doctor`: whether this machine can run booksan, and what to do where it cannot.

finding   one line of the report
versions  programs and libraries
machine   disk, permissions, clock, limits
network   queues, ports, other hosts
command   all of them, on a terminal or as JSON
"""
