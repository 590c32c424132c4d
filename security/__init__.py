"""What an attacker does to a real server, played and measured: `python -m security`."""
