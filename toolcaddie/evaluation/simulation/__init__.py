"""Simulated conversations and their costs, for `toolcaddie eval costs`. No model is asked.

A script is a generated conversation. It is played under each strategy, that is, each way of sending tools to a model, and billed
under the price rules of several providers.

simulator  runs the conversations in several processes
costs      bills conversations, and compares the strategies
actors     the model and the tools that follow a script
billing    price rules and prompt caches
scripts    generated catalogs and conversations
"""
