"""What the Messages API refuses in the fields of a request, for the local server: its own words, and a table of its models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VERSIONS = {"2023-06-01", "2026-10-21"}
# What the models take: the types of `thinking`, the levels of effort, and whether a last assistant turn is continued.
MODELS: dict[str, tuple[set[str], set[str], bool]] = {
    "claude-haiku-4-5": ({"enabled", "disabled"}, set(), True),
    "claude-opus-4-5": ({"enabled", "disabled"}, {"low", "medium", "high"}, True),
    "claude-opus-4-6": ({"enabled", "adaptive", "disabled"}, {"low", "medium", "high", "max"}, False),
    "claude-opus-4-8": ({"adaptive", "disabled"}, {"low", "medium", "high", "xhigh", "max"}, False),
    "claude-sonnet-5-5": ({"adaptive", "between_tools"}, {"low", "medium", "high", "xhigh", "max"}, False),
    "claude-opus-5-5": ({"adaptive"}, {"low", "medium", "high", "xhigh", "max"}, False),
}


def bad_fields(body: Mapping[str, Any], version: str) -> str | None:
    """The message of the 400 that a body gets; None for one that is taken."""
    types, efforts, continues = MODELS.get(body.get("model", ""), MODELS["claude-haiku-4-5"])
    thinking, cap = body.get("thinking") or {"type": "disabled"}, body.get("max_tokens")
    sampling = [name for name in ("temperature", "top_p", "top_k") if name in body]
    thinks = thinking["type"] in ("enabled", "adaptive")
    if not isinstance(cap, int) or cap < 1:
        return "max_tokens: Field required"
    if not body.get("messages"):
        return "messages: at least one message is required"
    if sampling and version == "2026-10-21":
        return f"{sampling[0]}: Extra inputs are not permitted"
    if thinks and body.get("temperature", 1) != 1:
        return "`temperature` may only be set to 1 when thinking is enabled"
    if thinks and body.get("top_p", 1) < 0.95:
        return "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled"
    if "thinking" in body and thinking["type"] not in types:
        return f"thinking.type: {thinking['type']!r} is not supported for this model"
    if thinking["type"] == "enabled":
        if thinking["budget_tokens"] < 1024:
            return "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        if thinking["budget_tokens"] >= cap:
            return "`max_tokens` must be greater than `thinking.budget_tokens`"
    effort = body.get("output_config", {}).get("effort")
    if effort is not None and effort not in efforts:
        return f"output_config.effort: {effort!r} is not supported for this model"
    last = body["messages"][-1]
    if last["role"] == "assistant":
        if not continues:
            return "This model does not support assistant message prefill. The conversation must end with a user message."
        if thinks:
            return "When thinking is enabled, a final assistant message must start with a thinking block"
        if isinstance(last["content"], str) and last["content"] != last["content"].rstrip():
            return "messages: final assistant content cannot end with trailing whitespace"
    if any(not stop.strip() for stop in body.get("stop_sequences", ())):
        return "stop_sequences: each stop sequence must contain non-whitespace"
    return None
