"""Looking into data directories, and what a person does about dead letters.

inspect   what clients are made of; all databases of one united
letters   dead letters, in all data directories of this user: found, replayed, removed
datasets  `booksan datasets`
cli       `booksan letters ...` and `booksan inspect`
"""
