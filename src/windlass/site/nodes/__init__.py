"""The machines of a site and their GPUs."""
