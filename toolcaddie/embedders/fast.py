"""Models of the package fastembed, by onnxruntime in this process. The package downloads a model at its first use; without a
network, `FASTEMBED_CACHE_PATH` names a folder that already has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from fastembed import TextEmbedding

from toolcaddie.core.errors import ConfigError
from toolcaddie.embedders.bert import Floats, unit

_DEFAULT = "BAAI/bge-small-en-v1.5"
_MOST_CHARACTERS = 16_000


class FastEmbed:
    """Implements `ports.Embedder` by a model of fastembed. Raises `ConfigError` if it does not exist or cannot be loaded."""

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
        except Exception as error:  # a download, a file, a runtime: each fails with classes of its own
            raise ConfigError(
                f"fastembed's model {exact!r} cannot be loaded: {str(error)[:300]}; it is downloaded at first use, so try "
                "once with a network, or set FASTEMBED_CACHE_PATH to a folder that holds it"
            ) from error

    def embed(self, texts: Sequence[str]) -> Floats:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        places = [place for place, text in enumerate(texts) if text.strip()]
        if places:
            cut = [texts[place][:_MOST_CHARACTERS] for place in places]
            vectors[places] = np.stack([np.asarray(row, dtype=np.float32) for row in self._model.embed(cut)])
        return unit(vectors)
