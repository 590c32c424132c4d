"""Content parts of chat completions: what comes in by this wire goes out by it as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcaddie.core.content import Audio, Block, Image, Other, Resource, Text, Video
from toolcaddie.core.errors import RequestError
from toolcaddie.wires.chat.content import read_content, write_content

PNG = "data:image/png;base64,AAAA"
PARTS: list[tuple[dict[str, Any], Block]] = [
    ({"type": "text", "text": "hi", "cache_control": {}}, Text(text="hi", wire="chat", extra={"cache_control": {}})),
    (
        {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}},
        Image(data="AAAA", mime_type="image/png", detail="high", wire="chat"),
    ),
    ({"type": "image_url", "image_url": {"url": "https://x/a"}}, Image(url="https://x/a", wire="chat")),
    (
        {"type": "image_url", "image_url": {"url": PNG, "x": 1}, "y": 2},
        Image(data="AAAA", mime_type="image/png", wire="chat", extra={"image_url": {"x": 1}, "y": 2}),
    ),
    (
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}},
        Audio(data="AA", mime_type="audio/mp3", wire="chat"),
    ),
    ({"type": "video_url", "video_url": {"url": "https://x/v"}}, Video(url="https://x/v", wire="chat")),
    (
        {"type": "file", "file": {"filename": "a.csv", "file_data": "data:text/csv;charset=utf-8;base64,YQ=="}},
        Resource(name="a.csv", mime_type="text/csv;charset=utf-8", data="YQ==", wire="chat"),
    ),
    ({"type": "file", "file": {"file_id": "f1"}}, Resource(file_id="f1", wire="chat")),
    ({"type": "smell", "of": "gas"}, Other(wire="chat", part={"type": "smell", "of": "gas"})),
]


@pytest.mark.parametrize(("part", "block"), PARTS)
def test_a_part_becomes_a_block_and_then_the_same_part_again(part: dict[str, Any], block: Block) -> None:
    assert read_content([part]) == (block,)
    assert write_content((block,)) == [part]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5) | st.just(PNG),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
    max_leaves=4,
)
FIELDS = ["text", "refusal", "url", "detail", "data", "format", "file_data", "file_id", "filename"]
INSIDE = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4)
KINDS = ["text", "refusal", "image_url", "video_url", "input_audio", "file", "smell"]


@given(
    st.fixed_dictionaries(
        {}, optional={"type": st.sampled_from(KINDS) | JSON, **dict.fromkeys(KINDS, INSIDE | JSON), "mark": JSON}
    )
)
def test_any_part_goes_out_unchanged(part: dict[str, Any]) -> None:
    assert write_content(read_content([part])) == [part]
    assert write_content(read_content([part]), role="tool") == [part]


def test_a_picture_in_a_result_becomes_a_line_of_text_and_a_callers_own_part_goes_out_unchanged() -> None:
    made = (Text(text="a chart"), Image.from_bytes(b"x" * 3_000, "image/png"))
    assert write_content(made, role="tool") == "a chart\n[image/png, 3 kB]"
    part = {"type": "image_url", "image_url": {"url": PNG}}
    assert write_content(read_content([part]), role="tool") == [part]


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            Audio(data="AA", mime_type="audio/mpeg"),
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}},
        ),
        (Resource(uri="file:///a", text="words"), {"type": "text", "text": "words"}),
        (
            Resource(uri="file:///a", data="AA", mime_type="application/pdf", name="a.pdf"),
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}},
        ),
    ],
)
def test_blocks_of_other_wires_become_parts_of_this_one(block: Block, part: dict[str, Any]) -> None:
    assert write_content((block,)) == [part]


@pytest.mark.parametrize(
    "block", [Image(file_id="f1"), Audio(url="https://x/a"), Other(wire="messages", part={"type": "document"})]
)
def test_a_block_without_a_part_on_this_wire_is_refused_by_its_type(block: Block) -> None:
    with pytest.raises(RequestError, match="chat completions do not accept content of type"):
        write_content((block,))
