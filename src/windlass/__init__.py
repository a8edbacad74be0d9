"""Windlass: a control plane for GPU platforms. Start reading at ARCHITECTURE.md."""

__version__ = "0.1.0"
