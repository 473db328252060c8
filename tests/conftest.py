"""Settings for all tests."""

import os

# As in every process of booksan: read by polars when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")
