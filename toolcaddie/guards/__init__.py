"""Protection that all other packages use: limits on outgoing requests, on child processes and on JSON, and a thread for heavy
work."""
