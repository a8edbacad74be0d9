"""The independent reader of what the compiler made: see `check.py`."""
