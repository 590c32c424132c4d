"""Tools that bots write while they work: each waits until a person approves its exact bytes, and runs in the sandbox."""
