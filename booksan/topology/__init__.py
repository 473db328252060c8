"""Which host runs which shards: the files in `hosts/`, read and checked.

model   a topology, its hosts and their addresses; those picked by hand among them: plain data
parse   from a name or a path to a checked topology, with errors that name the file and the key
"""
