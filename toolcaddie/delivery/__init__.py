"""Decides how the tools of a selection are sent to the model, so that the provider's prompt cache stays valid where it pays."""
