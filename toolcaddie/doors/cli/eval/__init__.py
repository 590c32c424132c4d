"""`toolcaddie eval`: measures how well tools are found in a catalog. Its subcommands read recorded runs and report how tools are
used, simulate conversations and report their costs, or compute the machines that a load needs."""

from toolcaddie.doors.cli.eval.capacity import capacity
from toolcaddie.doors.cli.eval.costs import costs
from toolcaddie.doors.cli.eval.goals import goals
from toolcaddie.doors.cli.eval.measure import command
from toolcaddie.doors.cli.eval.misses import misses
from toolcaddie.doors.cli.eval.queued import cancel, show
from toolcaddie.doors.cli.eval.replay import replay
from toolcaddie.doors.cli.eval.usage import usage

for _subcommand in (usage, misses, replay, costs, goals, capacity, show, cancel):
    command.add_command(_subcommand)

__all__ = ["command"]
