"""The MCP server door: any client of the Model Context Protocol lists, searches and calls the tools of the catalog.

`toolcaddie serve` mounts it at `/mcp` (`door.py`), `toolcaddie mcp serve` runs it over stdio (`stdio.py`). The package `mcp`
takes most of a second to load, so only `server.py` and the modules around it import it, and they are loaded with the first
request.
"""
