"""Headers of an answer that tell the client about its run."""

from __future__ import annotations

from toolcaddie.core.run import RunResult
from toolcaddie.core.selection import Selection


def report_headers(run_id: str, selection: Selection, number: int) -> dict[str, str]:
    """Returns the headers of the answer that tell the client about the run: its id, the number of tools in the catalog and in the
    request (`number`), and names of catalog tools that the client's own tools replaced."""
    headers = {
        "x-toolcaddie-run": run_id,
        "x-toolcaddie-tools": f"{selection.catalog_size}->{number}",
    }
    if selection.shadowed:
        headers["x-toolcaddie-shadowed"] = ",".join(selection.shadowed[:50])
    return headers


def claim_headers(result: RunResult) -> dict[str, str]:
    """Returns the header that marks an answer which says that something was done that no call did: the classes of what was done,
    such as `destroy,send`. A stream has it only if its whole text came at the end; the trail has it always."""
    actions = dict.fromkeys(claim.action for claim in result.unsupported_claims)
    return {"x-toolcaddie-unsupported-claims": ",".join(actions)} if actions else {}


def ending_headers(ending: str) -> dict[str, str]:
    """Returns the header that says with what kind of text a tool ended the run. A stream has it unless text came before."""
    return {"x-toolcaddie-ending": ending} if ending else {}


def sent_count(result: RunResult) -> int:
    """Returns the number of tools that were sent to the model, including Toolcaddie's own tools for finding tools."""
    return len(result.state.delivered) + len(result.state.meta)
