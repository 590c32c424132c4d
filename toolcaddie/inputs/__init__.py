"""Arguments of the public functions, checked by name and read into our own words."""
