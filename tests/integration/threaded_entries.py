"""Workers whose module starts a thread when it is imported: none can be forked after that."""

import threading

from tests.integration.supervisor_entries import describes_itself, steady

threading.Thread(target=threading.Event().wait, daemon=True).start()

__all__ = ["describes_itself", "steady"]
