"""Orchestrators execute what was decided. `port.py` is the boundary; one adapter each beside it."""
