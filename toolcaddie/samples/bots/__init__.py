"""Two bots to begin with, in Spanish: an assistant who may do much, and a therapist who may do little.

`toolcaddie init --sample bots` writes the settings and the personas into the current folder. `conversations` has what a person
says to each bot, and what a scripted model answers or calls; tests play it.
"""
