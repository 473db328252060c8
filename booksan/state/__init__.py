"""State on disk: SQLite in WAL mode, one database per client and shard, one per shard."""
