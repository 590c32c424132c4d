"""Measures the search of a bot's memory: time over 50,000 chunks, and recall@5 beside plain BM25, in one run.

python -m benchmarks.memory --bench FOLDER [--chunks 50000] [--pairs 500]

A pair is made of a dialogue of the labelled set `sgd`: the query is a later turn that calls a tool, and right is a chunk with the
earlier turn in which the person said a value that the messages around the later turn repeat. Each person has one chat of twenty
dialogues without the turns that are asked about; the rest of the chunks are texts of other sets, which everybody sees. Shares of
signals were chosen on two fifths of the dialogues (`crc32(id) % 5 < 2`), and the pairs are of the others. Exits with 1 if p50 is
15 ms or more, or recall is not above BM25.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.labelled import resident_mb
from toolcaddie.core.bots import ChatTurn
from toolcaddie.selection.query import content_words, split_words
from toolcaddie.tools.memory.index import ChunkIndex
from toolcaddie.tools.memory.reading import chunks_of, turn_lines
from toolcaddie.tools.memory.values import Chunk, Label

GOAL_MS = 15.0
_VALUE = re.compile(
    r"\d{1,2}:\d\d(?:\s?[ap]m)?|\b\d{1,2} ?[ap]m\b|\b(?:[A-Z][a-z]+ )?\d+(?:st|nd|rd|th)\b"
    r"|(?<=[a-z,] )(?!I\b)[A-Z]\w+(?: [A-Z]\w+)*"
)
_DIALOGUES_A_CHAT = 20
_OTHERS = ("toole/queries.train", "clinc150/queries.train", "seal/queries.train", "ace_en/queries.dev")


def dialogues(bench: Path) -> dict[str, tuple[list[str | None], dict[int, bool]]]:
    """Returns the messages of each dialogue, and for the turns of the person whether they call a tool."""
    rows = defaultdict(list)
    for split in ("train", "dev"):
        for line in (bench / f"sets/sgd/queries.{split}.jsonl").open(encoding="utf-8"):
            row = json.loads(line)
            rows[row["group"]].append(row)
    made = {}
    for group, turns in rows.items():
        messages: dict[int, str] = {}
        calls: dict[int, bool] = {}
        for turn in turns:
            number, history = int(turn["id"].rsplit("-t", 1)[1]), turn.get("history", [])
            messages |= {number - len(history) + place: text for place, text in enumerate(history)}
            messages[number], calls[number] = f"user: {turn['query']}", bool(turn["gold"])
        made[group] = ([messages.get(place) for place in range(max(messages) + 1)], calls)
    return made


def pairs(messages: Sequence[str | None], calls: dict[int, bool]) -> list[tuple[int, int]]:
    """Returns (later turn, earlier message) of each pair. Messages from the first later turn on are left out of memory."""
    made: list[tuple[int, int]] = []
    for number in sorted(calls):
        query = messages[number]
        if number < 4 or not calls[number] or query is None or None in messages[:number]:
            continue
        if len(content_words(query[6:], "english")) < 4:
            continue
        around = " ".join(each or "" for each in messages[number - 1 : number + 2]).lower()
        for place in range(min(made[0][0] - 1 if made else number, number - 2)):
            text = messages[place] or ""
            if text.startswith("user") and any(v.lower() in around for v in _VALUE.findall(text[6:]) if v != "March"):
                made.append((number, place))
                break
    return made


def okapi(chunks: Sequence[Chunk]) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Returns the counts of each word by row, and the lengths: all that plain BM25 needs."""
    rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    lengths = np.zeros(len(chunks))
    for row, chunk in enumerate(chunks):
        words = Counter(split_words(chunk.text))
        lengths[row] = words.total()
        for word, count in words.items():
            rows[word].append((row, count))
    return {word: (np.array(each)[:, 0], np.array(each)[:, 1]) for word, each in rows.items()}, lengths


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the search of memory.")
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--chunks", type=int, default=50_000)
    parser.add_argument("--pairs", type=int, default=500)
    arguments = parser.parse_args()
    told = dialogues(arguments.bench)
    groups = sorted(told, key=lambda group: zlib.crc32(group.encode()))
    chunks: list[Chunk] = []
    asked: list[tuple[str, str, str]] = []  # person, query, the right line
    for start in range(0, len(groups), _DIALOGUES_A_CHAT):
        person, lines = f"default/{start}", []
        for group in groups[start : start + _DIALOGUES_A_CHAT]:
            messages, calls = told[group]
            made = pairs(messages, calls)
            for at, message in enumerate(messages[: made[0][0] - 1] if made else messages):
                role, _, text = (message or "").partition(": ")
                turn = ChatTurn(role="user" if role == "user" else "assistant", text=text, at=0.0, who="default/user")
                if text:
                    place = len(lines) + 1
                    lines += turn_lines(f"c:{start}", turn, person, number=place)
                    if zlib.crc32(f"{group}s".encode()) % 5 >= 2:
                        asked += [
                            (person, (messages[later] or "")[6:], f"{start}:{place}")
                            for later, early in made
                            if early == at
                        ]
        chunks += chunks_of(f"sessions/{start}.md", lines)
    rng = random.Random(7)
    pool = [json.loads(line)["query"] for name in _OTHERS for line in (arguments.bench / f"sets/{name}.jsonl").open()]
    while len(chunks) < arguments.chunks:
        text = "\n".join(rng.choice(pool) for _ in range(22))[:1_440]
        chunks.append(Chunk(path="notes/a.md", first=1, last=22, at=0.0, label=Label(kind="note"), text=text))
    asked = rng.sample(asked, min(arguments.pairs, len(asked)))
    began, before, index = time.perf_counter(), resident_mb(), ChunkIndex()
    for start in range(0, len(chunks), 128):
        index.change((), chunks[start : start + 128])
    print(
        f"{len(index):,} chunks indexed in {time.perf_counter() - began:.1f} s, {index.bytes / 1e6:,.0f} MB of arrays and text"
    )
    print(f"resident memory grew by {resident_mb() - before:,.0f} MB")
    words, lengths = okapi(chunks)
    owners = np.array([chunk.label.who for chunk in chunks])
    times, ours, plain = [], 0, 0
    for person, query, right in asked:
        chat, line = right.split(":")

        def is_right(chunk: Chunk, chat: str = chat, line: str = line) -> bool:
            return chunk.path == f"sessions/{chat}.md" and chunk.first <= int(line) <= chunk.last

        began = time.perf_counter()
        matches = index.search(query, lambda label, who=person: label.who in ("", who), most=5, least=0.0)
        times.append((time.perf_counter() - began) * 1e3)
        ours += any(is_right(match.chunk) for match in matches)
        visible = (owners == person) | (owners == "")
        scores = np.zeros(len(chunks))
        for word in dict.fromkeys(split_words(query)):
            rows, counts = words.get(word, (np.zeros(0, int), np.zeros(0)))
            rarity = np.log(1 + (len(chunks) - len(rows) + 0.5) / (len(rows) + 0.5))
            scores[rows] += rarity * counts * 2.5 / (counts + 1.5 * (0.25 + 0.75 * lengths[rows] / lengths.mean()))
        scores[~visible] = -1
        plain += any(is_right(chunks[row]) for row in np.argpartition(-scores, 5)[:5])
    p50, p95 = statistics.median(times), sorted(times)[int(0.95 * len(times))]
    print(f"{len(asked)} pairs: p50 {p50:.1f} ms, p95 {p95:.1f} ms (goal: p50 below {GOAL_MS:.0f} ms)")
    print(f"recall@5: ours {ours / len(asked):.3f}, plain BM25 {plain / len(asked):.3f} (goal: above it)")
    sys.exit(0 if p50 < GOAL_MS and ours > plain else 1)


if __name__ == "__main__":
    main()
