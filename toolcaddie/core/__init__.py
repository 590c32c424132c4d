"""Values that all other packages share. They import nothing of ours but `util`."""
