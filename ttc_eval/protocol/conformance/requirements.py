"""Every MUST, MUST NOT and SHOULD of TTC-v2, in the words of its text, and how each is checked. Data only.

A sentence of a table or a schema ("required", "must be", "the maximum") binds like a MUST. What binds the client or the
verifier, or stays inside the server, cannot be seen from outside: `unobservable` says why, and it is never passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a requirement binds."""

    MUST = "MUST"
    MUST_NOT = "MUST NOT"
    SHOULD = "SHOULD"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement: its name, level, the sentence that states it, and how it is checked."""

    name: str
    level: Level
    sentence: str
    how: str
    unobservable: str | None = None


_CLIENT = "it binds the client, not the server"
_MUST, _MUST_NOT, _SHOULD = Level.MUST, Level.MUST_NOT, Level.SHOULD

_ALL = (
    Requirement(
        "request.accepted",
        _MUST,
        "The request payload MUST conform to the standard inference API structure of the provider, with the addition of a thinking object.",
        "A request of that form, with a budget, gets status 200.",
    ),
    Requirement("request.model", _MUST, "model: Must be a model that supports the TTC-v2 protocol.", "–", _CLIENT),
    Requirement("request.stream", _MUST, "stream: Must be set to `true`.", "–", _CLIENT),
    Requirement(
        "request.ordinary",
        _MUST,
        "If this object is absent, the server MUST process the request as a standard inference call without a thinking phase.",
        "Without `thinking`: status 200, no thinking block, thinking_tokens 0.",
    ),
    Requirement(
        "request.thinking_type",
        _MUST,
        "thinking.type: Must be the exact string `enabled` to activate the TTC protocol for this request.",
        "With type `Enabled`: refused, or answered without thinking.",
    ),
    Requirement(
        "stream.events",
        _MUST,
        "The server responds with a Server-Sent Events (SSE) stream. Each event is a JSON object.",
        "Every reply with status 200 is text/event-stream; every event is a JSON object, but [DONE] at the end of a chat stream.",
    ),
    Requirement(
        "stream.final_message",
        _MUST,
        "A response stream consists of a sequence of content block delta events, culminating in a final message.",
        "Every stream has a message with stop_reason or of type message_stop, and no object after it.",
    ),
    Requirement(
        "max_tokens.text",
        _MUST,
        "max_tokens: The maximum number of tokens to generate for the final `text` content block(s).",
        "usage.output_tokens is at most max_tokens in every reply, also with max_tokens 1.",
    ),
    Requirement(
        "max_tokens.distinct",
        _MUST,
        "This budget is distinct from and is only consumed after the thinking budget is utilized.",
        "With max_tokens 1, thinking may still take more than one token.",
    ),
    Requirement(
        "stop_sequences.text",
        _MUST,
        "stop_sequences: sequences that, if generated in a `text` block, will cause the completion to stop.",
        "Characters of earlier answers are sent as stop sequences: the text holds none, and stop_reason is stop_sequence. Four tries.",
    ),
    Requirement(
        "stop_sequences.not_thinking",
        _MUST_NOT,
        "These sequences do not apply to `thinking` block generation.",
        "The most common character of an earlier thinking is sent as a stop sequence; the thinking still holds it. Two tries.",
    ),
    Requirement(
        "budget.enforced",
        _MUST,
        "thinking.budget_tokens: The maximum number of tokens to allocate […]. The server MUST enforce this budget.",
        "usage.thinking_tokens is at most the budget and the slack, in every reply.",
    ),
    Requirement(
        "budget.tracked",
        _MUST,
        "The server model MUST internally track token generation for thinking blocks separately from text blocks.",
        "–",
        "it is internal to the server; budget.enforced and the usage.* checks see its effect",
    ),
    Requirement(
        "budget.ceases",
        _MUST,
        "The generation of thinking content MUST cease immediately once the number of generated thinking tokens meets […] the budget.",
        "Whatever usage says, the thinking text is not longer than 64 characters a token of budget and slack.",
    ),
    Requirement(
        "exhaustion.terminates",
        _MUST,
        "Upon exhaustion of the thinking budget, […] the server MUST terminate the request and signal the budget exhaustion to the client.",
        "With budget 1, a question that took 8 or more thinking tokens before is not answered.",
    ),
    Requirement(
        "exhaustion.signalled",
        _MUST,
        "The server MUST signal this termination in one of the following two ways. / This condition MUST be signaled via stop_reason.",
        "With budget 1: stop_reason budget_exceeded, or [WAIT] and stop_sequence.",
    ),
    Requirement(
        "exhaustion.stop_reason",
        _MUST,
        "The server MUST end the response stream and send a final message where stop_reason is set to the exact string budget_exceeded.",
        "With budget 1, unless the fallback is used.",
    ),
    Requirement(
        "exhaustion.no_text",
        _MUST_NOT,
        "The content array in this final message may contain the partial thinking trace but MUST NOT contain any blocks of type text.",
        "With budget_exceeded: no text block in the final message, and no text in the stream.",
    ),
    Requirement(
        "exhaustion.thinking_tokens",
        _MUST,
        "usage.thinking_tokens will be equal to or slightly greater than thinking.budget_tokens.",
        "With budget_exceeded: not below the budget (budget.enforced checks the other side).",
    ),
    Requirement(
        "wait.at_end",
        _MUST,
        "The model MUST generate a special token sequence, [WAIT], at the precise point of budget exhaustion within […] the block.",
        "In the fallback form: the last thinking block ends with [WAIT].",
    ),
    Requirement(
        "wait.hard_stop",
        _MUST,
        "This sequence MUST act as a hard stop.",
        "In the fallback form: no text follows the thinking.",
    ),
    Requirement(
        "wait.stop_reason",
        _MUST,
        "The server will then report stop_reason: 'stop_sequence'.",
        "In the fallback form.",
    ),
    Requirement(
        "client.wait",
        _MUST,
        "The client MUST parse for the [WAIT] sequence at the end of a thinking block and treat its presence as […] 'budget_exceeded'.",
        "–",
        _CLIENT,
    ),
    Requirement(
        "client.retry",
        _SHOULD,
        "A client receiving a budget_exceeded stop reason […] SHOULD retry the request with an increased thinking.budget_tokens value.",
        "–",
        _CLIENT,
    ),
    Requirement(
        "content.types",
        _MUST,
        "content[].type: Must be either `thinking` or `text`.",
        "Blocks of every final message and deltas of every stream.",
    ),
    Requirement(
        "content.order",
        _MUST_NOT,
        "A response MAY contain multiple `thinking` blocks but MUST NOT contain a `thinking` block after a `text` block.",
        "Blocks of every final message and deltas of every stream.",
    ),
    Requirement(
        "content.blocks",
        _MUST,
        "content: an array of objects with the required keys type and text, both strings (schema of the final message).",
        "The content of every final message, where there is one.",
    ),
    Requirement(
        "content.assembled",
        _MUST,
        "In the final message of the stream, this contains the fully assembled content blocks.",
        "The texts of the final message are those of the deltas, kind by kind; where the message has content.",
    ),
    Requirement("final.type", _MUST, "type: the constant message_stop, required (schema).", "Every final message."),
    Requirement("final.id", _MUST, "id: a string, required (schema).", "Every final message."),
    Requirement(
        "final.id_unique",
        _MUST,
        "id: A unique identifier for the entire inference response. Used for tracing and verification.",
        "No two replies share an id; ids inside one stream are that of its final message.",
    ),
    Requirement(
        "final.model", _MUST, "model: The identifier of the model that processed the request, required (schema).", "Every final message."
    ),
    Requirement(
        "final.stop_reason",
        _MUST,
        "stop_reason: one of end_turn, max_tokens, stop_sequence, budget_exceeded, required (schema).",
        "Every final message.",
    ),
    Requirement("usage.present", _MUST, "usage: an object, required (schema).", "Every final message."),
    Requirement("usage.input_tokens", _MUST, "usage.input_tokens: The number of tokens in the `messages` array.", "An integer above 0."),
    Requirement(
        "usage.output_tokens",
        _MUST,
        "usage.output_tokens: The total number of tokens in all `text` content blocks combined.",
        "An integer; above 0 where there is text, 0 where there is no text block.",
    ),
    Requirement(
        "usage.thinking_tokens",
        _MUST,
        "usage.thinking_tokens: The total number of tokens in all `thinking` content blocks combined.",
        "An integer; above 0 where there is thinking.",
    ),
    Requirement(
        "usage.cache_creation_input_tokens",
        _MUST,
        "usage.cache_creation_input_tokens: an integer, required (schema). It is a subset of `input_tokens`.",
        "An integer from 0 to input_tokens.",
    ),
    Requirement(
        "usage.cache_zero_if_unused",
        _MUST,
        "If unused, this value MUST be `0`.",
        "It is 0. Whether a number above 0 is of a real pass over the input cannot be seen.",
    ),
    Requirement(
        "verifier.output",
        _MUST,
        "The Verifier's output MUST be a single JSON object conforming to the schema below.",
        "–",
        "the verifier is out of band: a separate process that the server does not run",
    ),
    Requirement(
        "errors.predictable",
        _MUST,
        "Servers MUST handle TTC protocol errors in a predictable manner.",
        "A budget that is missing, 0 or text gets a status from 400 to 499 with a JSON object.",
    ),
    Requirement(
        "errors.budget",
        _MUST,
        "A 400 Bad Request MAY be returned. In such cases, the response body MUST be a JSON object conforming to the error schema.",
        "A budget of 2147483647: where it is refused, by status 400 with that object.",
    ),
)

REQUIREMENTS: Mapping[str, Requirement] = {requirement.name: requirement for requirement in _ALL}
