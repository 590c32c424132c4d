"""The tests share a server and a browser, which end with this package."""
