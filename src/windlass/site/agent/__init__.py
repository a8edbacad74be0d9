"""The agent converges one site: `diff.py` decides, `loop.py` tells the story."""
