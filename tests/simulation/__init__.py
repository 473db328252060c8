"""A whole cluster in one thread: same workers, same databases, seeded order, exact crashes."""
