"""The interpreters by their names in the settings."""

from __future__ import annotations

import importlib

from toolcaddie.core.errors import ConfigError
from toolcaddie.ports import Interpreter


def monty(*, workers: int = 16) -> Interpreter:
    """Returns Monty, an interpreter of Python without access to the host. Its programs run in processes of their own.

    `workers`: the largest number of programs at the same time; further ones wait. Raises `ConfigError`, with the command that
    installs it, if the package is missing.
    """
    if workers < 1:
        raise ConfigError(f"the interpreter 'monty' needs at least 1 worker, not {workers}")
    try:  # imported here because the package is optional
        module = importlib.import_module("toolcaddie.programs.monty")
    except ImportError as error:
        raise ConfigError(
            f"the interpreter 'monty' needs the package pydantic-monty ({error}); run: pip install 'toolcaddie[programs]'"
        ) from error
    interpreter: Interpreter = module.Monty(workers=workers)
    return interpreter
