"""The HTTP door for clients: parse batches, split them by key, publish."""
