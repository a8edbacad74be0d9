"""How people meet the platform: the command line now, the portal later. Sees only the SDK and core."""
