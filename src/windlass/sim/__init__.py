"""The scheduling engine in virtual time: a day of a fleet in a minute, and what it was like for everybody."""
