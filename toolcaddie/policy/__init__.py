"""Who may see and call what: implementations of `ports.Policy`."""
