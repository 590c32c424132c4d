"""A model of capacity, for `toolcaddie eval capacity`: what a number of requests a minute needs. Nothing is run or read.

plan       computes what a load needs
load       the load, and the machines
constants  measured costs, in constants.toml
recording  commits of the trail, and the lock on its head
queues     formulas of queues
"""
