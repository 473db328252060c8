"""The worker: one process, one shard of one stage, one input queue."""
