"""`booksan run`: the whole system on one machine, for one client, with one command."""
