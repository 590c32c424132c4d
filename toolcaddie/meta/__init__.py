"""Meta tools: Toolcaddie's own tools, with which a model finds, reads and calls the tools of the catalog.

Each file has the class of one meta tool. `definition` returns what the model reads; its argument, the offer, has the settings on
which the definition depends. `answer` runs a call; its argument, the scene, is the part of the run's state that a meta tool may
read. The view in it has the tools that the caller may see.

To add a meta tool, write a class like `respond.Respond`, and pass an object of it to `Runtime(meta_tools=[...])` or name it in
the entry points of `toolcaddie.meta_tools`. A preset then offers it by its name.
"""
