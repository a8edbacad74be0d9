"""Other platforms, measured beside ours: installed from the package index, started with their own
defaults, and spoken to only through their public HTTP interface and command line.

    cache.py       a virtual environment per peer, outside the checkout; <peer>.txt pins what is in it
    family.py      all processes of a server: their CPU and memory, and their end
    sides.py       what a comparison asks of a side, and our own side of it
    dstack.py, skypilot.py   the peers
    comparing.py   the same work for both, in turns
"""
