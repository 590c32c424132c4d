"""Reads the settings, and makes the runtime, the database and the other parts of the command line and the gateway from them."""
