"""Cedar policies: who may see which tool, who may call it, and which calls a person must approve first."""

from toolcaddie.control.policy.cedar.policy import CedarPolicy
from toolcaddie.control.policy.cedar.short_forms import Restrictions

__all__ = ["CedarPolicy", "Restrictions"]
