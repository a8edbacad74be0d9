"""The command line, one file per command family. Start reading at main.py, which lists them all."""
