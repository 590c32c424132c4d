"""Wires: the formats of model APIs, one folder each, read and written in both directions. They do no I/O: they turn bytes into
values and values into bytes.

    chat/       OpenAI's chat completions, and the servers compatible with it
    responses/  OpenAI's Responses
    messages/   Anthropic's Messages
    gemini/     Gemini's generateContent, only for requests that we send

In each folder: `requests.py`, `replies.py`, `stream.py`, `errors.py` read and write what their names say; `strict.py` refuses
what the real server refuses; `__init__.py` holds the wire itself, which implements `ports.wires`.
"""
