"""Meta tools, with which a model finds, reads and calls the tools of the catalog. Each file has one: definition and behaviour.

To add one, write a file with a class like `respond.Respond`, and give it to `Runtime(meta_tools=[...])` or name it in the
entry points of `toolcaddie.meta_tools`; a preset then offers it by its name.
"""
