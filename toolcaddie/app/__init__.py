"""From settings to running parts."""
