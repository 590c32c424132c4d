"""Selection of tools inside frameworks for agents and the SDKs of providers: one module for each, imported by the application.

`import toolcaddie` imports none of them, because each imports its framework.
"""
