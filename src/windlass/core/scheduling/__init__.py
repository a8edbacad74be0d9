"""The scheduling engine: what waits, what runs, who gives way, and why. Pure; the door is `engine.py`."""
