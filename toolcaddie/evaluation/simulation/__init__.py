"""Scripted conversations played under every delivery strategy, and their bills: the evidence behind `toolcaddie eval costs`.

simulator  the runtimes that play, and the processes that share the work
costs      conversations, charged and compared
actors     the model and the tools of a script, without a network
billing    price rules and prompt caches          scripts  catalogs and conversations, generated
"""
