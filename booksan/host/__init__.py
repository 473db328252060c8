"""One host on its machine, as others see it: configuration, state, locks, logs, and a handle."""
