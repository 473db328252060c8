"""HTTP for clients: any number of gateways can run, since none keeps state of its own.

main        the process: configuration, listening, draining
config      what gateway.json asks for
protocol    one connection: its limits, heads and times
boundary    every request passes here, every error ends here
bodies      bodies: bounded, also after decompression, and in time
access      tokens, secrets, and calls between gateways, signed one by one
errors      from errors to answers
app         the paths, and health
service     what requests share
clients     the beginning and the end of a run
uploads     a batch: who may send it, when there is room, and its way to the queues
ingest      one batch of CSV records into columns
homes       reading the homes on this host, and asking the gateways of others
status      STATUS, waiting for news, server-sent events
progress    stages, and where a run stands still
results     answers and rejected rows, by page and as files
openapi     the document; schemas: its shapes
"""
