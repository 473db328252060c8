"""Slow, plain answers to compare the system with. Nothing of the system is imported here."""
