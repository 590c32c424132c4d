"""What stands around a call on its way to its source: each file one `ports.Middleware`."""
