"""Values: what everything else speaks of. They import nothing of ours but `util`."""
