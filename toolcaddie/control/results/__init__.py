"""Middleware around the calls of tools: retries, timeouts, caching and checks. Most files contain one `ports.Middleware`."""
