"""Which host runs which shards: the files in `hosts/`, read and checked.

model      a topology, its hosts and their addresses: plain data
section    one table of a TOML file, with errors that name the file and the key
parse      from the file's text to a topology
check      what holds for a topology as a whole
files      a topology by its name or its path
members    the hosts that run a topology on one machine, those picked by hand among them
picks      `q3-join,q5-sentiment.1`: shards picked by hand
"""
