"""Every socket a plugin may fill. Rooms meet here and nowhere else: they implement, the runtime hands in."""

from __future__ import annotations

from toolcaddie.ports.control import ApprovalStore, Approver, Policy
from toolcaddie.ports.meta import CallWrapper, MetaOffer, MetaScene, MetaTool, Prepare
from toolcaddie.ports.models import Classifier, Embedder, Forwarder, Provider, RawResponse, RemoteEmbedder
from toolcaddie.ports.selection import (
    DeliveryPlan,
    Planner,
    QueryWords,
    Ranker,
    RankerFactory,
    SelectionQuery,
    Selector,
)
from toolcaddie.ports.storage import CacheStore, EventLog, EventSink, KeyStore, Store
from toolcaddie.ports.tools import (
    CallNext,
    ClaimingSource,
    HeldPages,
    Invocation,
    Middleware,
    OpenableSource,
    ToolSource,
)

__all__ = [
    "ApprovalStore",
    "Approver",
    "CacheStore",
    "CallNext",
    "CallWrapper",
    "ClaimingSource",
    "Classifier",
    "DeliveryPlan",
    "Embedder",
    "EventLog",
    "EventSink",
    "Forwarder",
    "HeldPages",
    "Invocation",
    "KeyStore",
    "MetaOffer",
    "MetaScene",
    "MetaTool",
    "Middleware",
    "OpenableSource",
    "Planner",
    "Policy",
    "Prepare",
    "Provider",
    "QueryWords",
    "Ranker",
    "RankerFactory",
    "RawResponse",
    "RemoteEmbedder",
    "SelectionQuery",
    "Selector",
    "Store",
    "ToolSource",
]
