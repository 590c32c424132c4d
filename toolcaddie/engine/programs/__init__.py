"""Programs of the model: which tools they may call, and how their calls pass through the loop of a run."""
