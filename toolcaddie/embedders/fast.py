"""The embedder `fastembed`: models of the package fastembed, run by onnxruntime in this process. The package downloads a model at
its first use. Without a network, set `FASTEMBED_CACHE_PATH` to a folder that already contains the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from fastembed import TextEmbedding

from toolcaddie.core.errors import ConfigError
from toolcaddie.embedders.bert import Floats, unit

_DEFAULT = "BAAI/bge-small-en-v1.5"
"""The model if the settings name none."""
_MOST_CHARACTERS = 16_000
"""The number of characters of a text that are read."""


class FastEmbed:
    """Makes vectors by a model of fastembed. Raises `ConfigError` if the model does not exist or cannot be loaded. Implements
    `ports.Embedder`."""

    languages = None

    def __init__(self, model: str | None = None) -> None:
        model = model or _DEFAULT
        dimensions_of = {
            str(described["model"]): int(described["dim"]) for described in TextEmbedding.list_supported_models()
        }
        exact = next((name for name in dimensions_of if name.lower() == model.lower()), None)
        if exact is None:
            raise ConfigError(f"fastembed has no model {model!r}; there are {', '.join(sorted(dimensions_of))}")
        self.name = f"fastembed:{exact}"
        self.dimensions = dimensions_of[exact]
        try:
            self._model = TextEmbedding(exact, threads=1)
        except Exception as error:  # the download, the file and the runtime each raise their own classes
            raise ConfigError(
                f"fastembed's model {exact!r} cannot be loaded: {str(error)[:300]}; it is downloaded at first use, so start "
                "once with a network, or set FASTEMBED_CACHE_PATH to a folder that contains it"
            ) from error

    def embed(self, texts: Sequence[str]) -> Floats:
        """Returns float32 [texts, dimensions], each row of length 1; zeros for a blank text."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        places = [place for place, text in enumerate(texts) if text.strip()]
        if places:
            cut = [texts[place][:_MOST_CHARACTERS] for place in places]
            vectors[places] = np.stack([np.asarray(row, dtype=np.float32) for row in self._model.embed(cut)])
        return unit(vectors)
