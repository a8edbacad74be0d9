"""What developers run on this repository; nothing here is shipped."""
