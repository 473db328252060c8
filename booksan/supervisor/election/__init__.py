"""Who leads: the bully algorithm as a pure state machine, and a thin shell that speaks UDP.

    timing     all timings with units and reasons, checked against each other
    messages   what hosts say to each other
    actions    what the machine asks its caller to do
    roles      what a host is in the election
    contacts   when the others were heard, and which have left
    member     what a host remembers, and the steps that the algorithm is made of
    machine    the algorithm: messages and time in, actions out; no socket, no clock
    claim      the hand-over: who has to agree before a host may lead
    health     which hosts answer the leader
    datagram   messages as bytes, with a keyed MAC
    guard      what was replayed or sent to an earlier life is refused
    memory     the term and the number of this life, on disk
    shell      the socket, for a single-threaded loop around select

Nothing here loads more than the standard library.
"""
