"""The system prompt of a bot: instructions for the tools it is offered, and behind them who it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolcaddie.control.bots import Bot
from toolcaddie.core.bots import BotCard, is_group_chat
from toolcaddie.core.personas import GOALS, IDENTITY, MOTIVATIONS, SOUL, PersonaKey
from toolcaddie.core.run import RunContext
from toolcaddie.engine.prompt import PromptFacts, persona_text, prompt_of
from toolcaddie.ports import PersonaFiles

_SHOWN = (IDENTITY, SOUL, MOTIVATIONS, GOALS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BotPrompt:
    """Makes the system prompt of each run of a bot; calling it does. Runs without a bot have none.

    `personas`: the files of the bots; None: there are none.
    """

    bots: Mapping[str, Bot]
    personas: PersonaFiles | None = None

    async def __call__(self, context: RunContext) -> str:
        name = context.principal.bot
        bot = None if name is None else self.bots.get(name)
        if name is None or bot is None:
            return ""
        others = (BotCard(name=other, description=each.description) for other, each in self.bots.items())
        facts = PromptFacts(
            bots=[card for card in others if card.name != name],
            memory_fetched=context.recalled,
            group_chat=is_group_chat(context.conversation),
        )
        blocks = prompt_of(mode=context.mode, language=bot.language, offered=context.offered, facts=facts)
        persona = await self._persona(PersonaKey(tenant=context.principal.tenant, bot=name), bot)
        return "\n\n".join(filter(None, (blocks, persona)))

    async def _persona(self, key: PersonaKey, bot: Bot) -> str:
        personas = self.personas
        if personas is None:
            return ""
        files = await personas.read_many(key, _SHOWN)
        return persona_text({path: file.text for path, file in files.items()}, bot.language)
