"""Tools with which a bot searches what it remembers: daily logs, notes and stored chats. The source is in `source.py`."""
