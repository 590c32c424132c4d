"""The loop between a model and its tools: asks the model, executes the calls of its answer, enters their results into the run,
and stops at an answer or a limit. `loop.drive` is the entrance; the runtime calls it."""
