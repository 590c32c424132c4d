"""The rows of the trail, as far as `counting` reads them. Whatever else a row has is skipped."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

# Larger numbers would not fit into the columns after some thousand additions, and then nothing could be counted any more.
_Count = Annotated[int, Meta(ge=0, le=10**11)]
_Dollars = Annotated[float, Meta(ge=0, le=10**5)]


class PrincipalRow(Struct):
    tenant: str = "default"
    bot: str | None = None


class StartRow(Struct):
    principal: PrincipalRow = field(default_factory=PrincipalRow)


class EndRow(Struct):
    status: str = ""


class TokensRow(Struct):
    input: _Count = 0
    output: _Count = 0
    cached: _Count = 0
    written: _Count = 0


class NamedRow(Struct):
    name: str = ""


class AnswerRow(Struct):
    model: str = ""
    usage: TokensRow = field(default_factory=TokensRow)
    calls: tuple[NamedRow, ...] = ()


class ClassificationRow(Struct):
    how: str = "asked"
    model: str = ""
    usage: TokensRow = field(default_factory=TokensRow)


class CallRow(Struct):
    name: str
    error: str | None = None


class DecisionRow(Struct):
    name: str
    verdict: str = "allow"


class MetaRow(Struct):
    name: str
    arguments: str = ""
    content: str = ""
    error: str | None = None
    added: tuple[str, ...] = ()


class ArgumentsRow(Struct):
    query: str = ""
    reason: str = ""


class SelectionRow(Struct):
    categories: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()


class OptionRow(Struct):
    strategy: str
    tokens: _Count = 0
    expected: float = 0.0
    dollars: _Dollars | None = None


class SentTokensRow(Struct):
    all: _Count = 0
    sent: _Count = 0


class DeliveryRow(Struct):
    strategy: str = ""
    tools: tuple[str, ...] = ()
    tokens: SentTokensRow = field(default_factory=SentTokensRow)
    options: tuple[OptionRow, ...] = ()
