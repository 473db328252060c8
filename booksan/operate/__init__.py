"""Looking into data directories, and what a person does about dead letters.

directories  all data directories of this user, and the queues of each
letters      dead letters: found, replayed, removed
clients      what unfinished clients are made of
tables       both on a terminal
cli          `booksan letters ...` and `booksan inspect`
"""
