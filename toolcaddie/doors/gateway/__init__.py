"""The gateway, an HTTP server with OpenAI's chat API: a client changes its `base_url`, and its requests carry the tools that fit.

Two words are used in all files. The upstream is the model's API behind the gateway. A wire translates between one such API and
Toolcaddie's own types.
"""
