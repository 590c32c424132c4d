"""The attack `python -m security bots`, smaller."""

from __future__ import annotations

from security import bot_injections


def test_no_text_makes_a_bot_change_itself_call_somebody_or_begin_something_before_a_person_is_asked() -> None:
    """The last goal has teeth: if everything is allowed, each kind of demand takes effect."""
    for goal in bot_injections.attacked(None, quick=True):
        assert goal.met, goal.line()
