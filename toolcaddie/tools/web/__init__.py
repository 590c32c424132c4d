"""Tools that search the web and fetch pages. The source is in `source.py`; this file imports nothing, because the process that
reads pages (`page_process.py`) must start fast."""
