"""The embedded executor: jobs as processes (or containers) of this machine, each under a supervisor."""
