"""Benchmarks: what the platform costs, measured from outside. README.md says how to run and read them.

    world.py       the tenants, projects and components every benchmark uses
    platforms.py   a real platform in a process of its own
    clients.py     lean HTTP clients, in another process
    measuring.py   CPU time and memory of a process
    peers/         other platforms, measured beside ours
    performance.py, performance_page.py, plotting.py   the page docs/performance.md
    reporting.py   measures against their budgets: a table, or JSON

`python -m benchmarks` runs all of them in quick form; each is also a module with `--help` and `--json`.
"""
