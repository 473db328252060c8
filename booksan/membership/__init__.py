"""The hosts together: who leads, who is there, and who is brought back.

    machine        the bully algorithm as a pure state machine: messages and time in, actions out
    member         what a host remembers in the election, its timings, and the steps it is made of
    messages       what hosts say to each other, what the machine asks for, and both as bytes
                   with a keyed MAC; what was replayed is refused
    socket         the socket around the machine, and what must not be forgotten, on disk
    peers          the other hosts, as the supervisor's loop sees them
    names          names of hosts and of the broker, looked up outside of the loop
    reviver        bringing back whole hosts, without ever blocking the leader's loop
    revive         the process that brings back one host; revive_docker: one container
    liveness       whether a supervisor is at work, told and asked without a datagram
    engine_proxy   a Docker socket that can restart containers of one project, and nothing else

Nothing here loads more than the standard library, but for revive_docker.
"""
