"""Selects the tools that fit a request: `selector` is the entrance, and production code calls it once for each request.

The selector scores all tools by `rankers`, makes a pool of candidates, and selects as many of these as the budget allows
(`allot`). Facts about a catalog that do not depend on the request are in `index`.
"""
