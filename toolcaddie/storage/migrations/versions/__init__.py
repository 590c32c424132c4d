"""The steps of the migration: one file for each, applied in the order of the file names."""
