"""Content as text or blocks: what is no text keeps its place, its size and its words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from toolcaddie.core.content import (
    Audio,
    Block,
    Content,
    Image,
    Other,
    Refusal,
    Resource,
    Text,
    byte_size,
    placeholder,
    shown_text,
    split_data_url,
    with_text,
)
from toolcaddie.core.message import Message, is_empty_note
from toolcaddie.core.tool import ToolResult

PICTURE = Image.from_bytes(b"x" * 12_345, "image/png")
BLOCKS: tuple[Block, ...] = (
    Text(text="a chart", annotations={"audience": ["user"]}),
    PICTURE,
    Audio(url="https://x.example/a.wav"),
    Resource(uri="file:///notes.md", text="# Notes", mime_type="text/markdown"),
    Resource(uri="file:///big.csv", name="big.csv", mime_type="text/csv", size=2_000_000),
    Refusal(text="I cannot"),
    Other(wire="chat", part={"type": "smell", "of": "gas"}),
)


def test_the_text_of_content_is_its_words_and_those_of_embedded_documents() -> None:
    assert Message(role="user", content=BLOCKS).text == ToolResult(content=BLOCKS).text == "a chart\n# Notes"
    assert (Message(role="assistant").text, ToolResult(content="plain").text) == ("", "plain")


def test_a_line_stands_for_what_a_reader_of_text_cannot_see() -> None:
    assert shown_text(BLOCKS).splitlines() == [
        "a chart",
        "[image/png, 12 kB]",
        "[audio, https://x.example/a.wav]",
        "# Notes",
        "[text/csv, big.csv, 2 MB, file:///big.csv]",
        "[refusal: I cannot]",
        "[smell]",
    ]
    assert len(placeholder(Image(url="data:image/png," + "A" * 100_000))) < 300


def test_blocks_are_stored_and_read_again_as_they_were() -> None:
    assert msgspec.json.decode(msgspec.json.encode(BLOCKS), type=Content) == BLOCKS
    result = ToolResult(content=BLOCKS, structured={"rows": [1]})
    assert msgspec.json.decode(msgspec.json.encode(result), type=ToolResult) == result


@pytest.mark.parametrize("size", range(7))
def test_the_size_of_base64_is_that_of_the_bytes_it_stands_for(size: int) -> None:
    assert byte_size(Image.from_bytes(b"x" * size, "image/png").data) == size


@pytest.mark.parametrize("made", [lambda c: Message(role="user", content=c), lambda c: ToolResult(content=c)])
def test_a_list_of_blocks_will_do_and_anything_else_in_it_is_named(made: Any) -> None:
    assert made([PICTURE]).content == (PICTURE,)
    with pytest.raises(TypeError, match=r"content\[1\] is 'dict', not a block"):
        made([PICTURE, {"type": "text", "text": "x"}])


def test_words_are_put_behind_text_and_behind_blocks() -> None:
    assert with_text("a", "\n\nb") == "a\n\nb"
    assert with_text((PICTURE,), "\n\nb") == (PICTURE, Text(text="b"))


def test_only_words_make_a_system_message_worth_sending() -> None:
    assert is_empty_note(Message(role="system", content=(Text(text=" "),)))
    assert not is_empty_note(Message(role="system", content=(Resource(uri="x"),)))


@pytest.mark.parametrize(
    "url", ["https://x", "data:,x", "data:image/png,x", "data:;base64,x", "data:image/png;base64,"]
)
def test_what_is_no_data_url_with_a_type_and_base64_is_an_address(url: str) -> None:
    assert split_data_url(url) is None
