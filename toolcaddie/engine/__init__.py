"""The loop between a model and its tools: asks, executes, applies, and stops."""
