"""The formats of model APIs, one folder each, read and written in both directions. Pure: bytes and values, no I/O.

    chat/       OpenAI's chat completions, and the servers compatible with it
    responses/  OpenAI's Responses
    messages/   Anthropic's Messages
    gemini/     Gemini's generateContent, the client's side

In each folder: `requests.py`, `replies.py`, `stream.py`, `errors.py` read and write what their names say; `strict.py` refuses
what the real server refuses; `__init__.py` holds the wire itself, which implements `ports.wires`.
"""
