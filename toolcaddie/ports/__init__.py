"""Every interface that a plugin may implement. Packages such as `selection`, `storage` and `control` do not import each other:
they implement these interfaces, and the runtime passes the implementations to the packages that use them."""

from __future__ import annotations

from toolcaddie.ports.bots import BotRunner, BotTalk, Chats, Messenger, PersonaFiles, WorkQueue
from toolcaddie.ports.channels import Channel, ChannelInbox, FileChannel
from toolcaddie.ports.control import ApprovalStore, Approver, ApproverPolicy, ImpersonalApprover, NamingPolicy, Policy
from toolcaddie.ports.jobs import Jobs, JobStore, SlotQueue
from toolcaddie.ports.meta import CallWrapper, MetaOffer, MetaScene, MetaTool, Prepare
from toolcaddie.ports.models import (
    AsymmetricEmbedder,
    Classifier,
    Embedder,
    Forwarder,
    Provider,
    RawResponse,
    RemoteEmbedder,
    request_vectors,
)
from toolcaddie.ports.programs import Interpreter, ProgramSession, ProgramTool
from toolcaddie.ports.ranking import (
    FixedWeight,
    Influence,
    LastWord,
    OwnWeight,
    Ranker,
    RankerFactory,
    Ranking,
    Scores,
    Visible,
)
from toolcaddie.ports.reviewing import Review, Reviewed, Reviewer
from toolcaddie.ports.sandbox import (
    Command,
    Egress,
    OnOutput,
    Outcome,
    RunningCommand,
    Sandbox,
    SandboxFact,
    SandboxLimits,
)
from toolcaddie.ports.search import SearchHit, SearchProvider
from toolcaddie.ports.selection import Planner, Selector
from toolcaddie.ports.states import MeasuringPlugin, StatePlugin
from toolcaddie.ports.storage import CacheStore, EventLog, EventSink, KeyMeter, KeyStore, StorageWatch, Store
from toolcaddie.ports.telephony import CallOrder, CallReport, PlacedCall, RefusedCall, Telephony
from toolcaddie.ports.tools import (
    AssessingSource,
    CallNext,
    ClaimingSource,
    HeldPages,
    Invocation,
    Middleware,
    OpenableSource,
    ToolSource,
    WrappingSource,
)
from toolcaddie.ports.vectors import VectorIndex, VectorSpace

__all__ = [
    "ApprovalStore",
    "Approver",
    "ApproverPolicy",
    "AssessingSource",
    "AsymmetricEmbedder",
    "BotRunner",
    "BotTalk",
    "CacheStore",
    "CallNext",
    "CallOrder",
    "CallReport",
    "CallWrapper",
    "Channel",
    "ChannelInbox",
    "Chats",
    "ClaimingSource",
    "Classifier",
    "Command",
    "Egress",
    "Embedder",
    "EventLog",
    "EventSink",
    "FileChannel",
    "FixedWeight",
    "Forwarder",
    "HeldPages",
    "ImpersonalApprover",
    "Influence",
    "Interpreter",
    "Invocation",
    "JobStore",
    "Jobs",
    "KeyMeter",
    "KeyStore",
    "LastWord",
    "MeasuringPlugin",
    "Messenger",
    "MetaOffer",
    "MetaScene",
    "MetaTool",
    "Middleware",
    "NamingPolicy",
    "OnOutput",
    "OpenableSource",
    "Outcome",
    "OwnWeight",
    "PersonaFiles",
    "PlacedCall",
    "Planner",
    "Policy",
    "Prepare",
    "ProgramSession",
    "ProgramTool",
    "Provider",
    "Ranker",
    "RankerFactory",
    "Ranking",
    "RawResponse",
    "RefusedCall",
    "RemoteEmbedder",
    "Review",
    "Reviewed",
    "Reviewer",
    "RunningCommand",
    "Sandbox",
    "SandboxFact",
    "SandboxLimits",
    "Scores",
    "SearchHit",
    "SearchProvider",
    "Selector",
    "SlotQueue",
    "StatePlugin",
    "StorageWatch",
    "Store",
    "Telephony",
    "ToolSource",
    "VectorIndex",
    "VectorSpace",
    "Visible",
    "WorkQueue",
    "WrappingSource",
    "request_vectors",
]
