"""Services that speak OpenAI's chat completions, by name.

    groq(model="openai/gpt-oss-120b")              # the key from GROQ_API_KEY
    ollama(base_url="http://gpu-box:11434/v1")

Their addresses and variables are in `vendors`.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolcaddie.providers.openai_chat import Service
from toolcaddie.providers.vendors import VENDORS

SERVICES: Mapping[str, Service] = {
    name: Service(VENDORS[name])
    for name in ("azure", "deepseek", "groq", "mistral", "ollama", "openrouter", "together", "vllm", "xai")
}
azure = SERVICES["azure"]
deepseek = SERVICES["deepseek"]
groq = SERVICES["groq"]
mistral = SERVICES["mistral"]
ollama = SERVICES["ollama"]
openrouter = SERVICES["openrouter"]
together = SERVICES["together"]
vllm = SERVICES["vllm"]
xai = SERVICES["xai"]
