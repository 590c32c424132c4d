"""Channels: people talk to bots in messaging services.

    channels.py    all channels while they run, and `ports.Messenger`
    setup.py       makes them from the settings
    http.py        their webhooks, as an ASGI application
    station.py     one channel of the settings, and names that follow from it

A message walks through these files, in this order:

    inbox.py       what a channel is given; `put` begins the walk
    admission.py   who may talk to the bot, with `people.py`, which keeps pairings
    journal.py     the message and its answer on disk, until the last part is sent
    dispatch.py    puts it into the queue of its chat (`lanes.py`), or obeys it (`commands.py`)
    answering.py   asks the bot (`contents.py`, `attachments.py`, `histories.py`), and people about calls (`questions.py`)
    outbox.py      sends the answer in parts (`splitting.py`), with patience

`leading.py` chooses the process that does this, and `listening.py` listens to each channel there. `telegram/`, `whatsapp/` and
`webhook.py` speak with their services, with `base.py` and `calls.py` in common. `sentences.toml` has what the door itself says.
"""
