"""The HTTP door for clients: any number of them can run, since none keeps state of its own.

main        the process: configuration, listening, draining
config      what gateway.json asks for
door        every request passes here, every error ends here
limits      connections, heads and times
bodies      bodies: bounded, also after decompression, and in time
access      tokens, secrets, the cluster's word
errors      from errors to answers
app         the paths; those about the service itself
runs        the paths of one client's run
service     what requests share
parameters  paths and query parameters, checked
creation    what a client asks for when it begins, checked
clients     the beginning and the end of a run
batches     uploads over HTTP: tickets, permits, turns, room
uploads     a batch into messages, without HTTP
parse       one batch of CSV records into columns
queues      the way to the queues
homes       reading the homes on this host
neighbours  asking the gateways of other hosts
status      STATUS, and waiting for news
progress    stages, and where a run stands still
events      server-sent events
results     answers and rejected rows, by page and as files
describe    a data set in plain data
openapi     the document; schemas: its shapes
"""
