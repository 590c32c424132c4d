"""Jobs that run at moments of a schedule, and the durable queue through which they and bots work."""
