"""How each family of servers speaks Chat Completions: one `Dialect` each, data instead of branches.

Sources: the OpenAI SDK's types; vLLM `entrypoints/openai/chat_completion/protocol.py`; the SGLang page "Thinking Budget"; llama.cpp
`tools/server/README.md` and pull request 23673; api-docs.deepseek.com/guides/thinking_mode; alibabacloud.com model-studio/deep-thinking;
openrouter.ai/docs/use-cases/reasoning-tokens; the typed schemas of the Together, Fireworks and Mistral SDKs; LiteLLM's xAI transformation;
Ollama's OpenAI route. As of 2026-11-30.

What could not be confirmed is marked so below. A model's config can say it otherwise: `model.forms` replaces the fields that ask for a
form of thinking, `model.extra_body` adds fields to every request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ttc_eval.errors import UserError
from ttc_eval.records import JSON
from ttc_eval.thinking import ThinkingMode

BUDGET = "{budget}"  # stands for the budget in a dialect's fields
EFFORT = "{effort}"  # stands for the level of effort

_THINK = {"chat_template_kwargs": {"enable_thinking": True}}
_NO_THINK = {"chat_template_kwargs": {"enable_thinking": False}}
_CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one family of servers speaks Chat Completions.

    Attributes:
        cap: name of the field for the cap on output tokens.
        ask_usage: the fields that make a stream report its usage.
        forms: per thinking mode, the fields to send, with `{budget}` and `{effort}` in them; a mode without an entry cannot be expressed.
        off_for_all: whether the fields of mode `off` may be sent to a model that cannot think as well.
        seed: name of the field for the sampling seed; None when the server takes none.
        continues: whether the server continues a last assistant message; `continue_body` and `continue_message` are the fields that
            say so in the request and in that message. No server here repeats that message in its reply.
        reasoning: names of the delta field that carries reasoning text, the first one present counts.
        min_top_logprobs: the smallest `top_logprobs` with which logprobs are returned at all.
        extra: fields that every request carries.
        stop_string: name of the choice's field that holds the stop string that was met, where `finish_reason` does not tell.
        reasoning_tokens, cached_tokens: where usage holds them, as paths, the first one present counts.
        reasoning_outside: whether reasoning is counted beside `completion_tokens`; asked only when usage has no total.
        keep_alive: whether a connection can be used again after a stream.
    """

    name: str
    cap: str = "max_tokens"
    ask_usage: JSON = field(default_factory=lambda: {"stream_options": {"include_usage": True}})
    forms: Mapping[ThinkingMode, JSON] = field(default_factory=dict)
    off_for_all: bool = False
    seed: str | None = "seed"
    continues: bool = False
    continue_body: JSON = field(default_factory=dict)
    continue_message: JSON = field(default_factory=dict)
    reasoning: tuple[str, ...] = ("reasoning_content", "reasoning")
    min_top_logprobs: int = 0
    extra: JSON = field(default_factory=dict)
    stop_string: str | None = None
    reasoning_tokens: tuple[tuple[str, ...], ...] = (("completion_tokens_details", "reasoning_tokens"), ("reasoning_tokens",))
    cached_tokens: tuple[tuple[str, ...], ...] = (("prompt_tokens_details", "cached_tokens"),)
    reasoning_outside: bool = False
    keep_alive: bool = True


_OFF, _BUDGET, _EFFORT, _ADAPTIVE = ThinkingMode.OFF, ThinkingMode.BUDGET, ThinkingMode.EFFORT, ThinkingMode.ADAPTIVE
_LEVEL = {"reasoning_effort": EFFORT}

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        # Nothing is known of the server: only what every one of them takes is sent.
        Dialect("generic", forms={_OFF: {}, _EFFORT: _LEVEL}),
        Dialect("openai", cap="max_completion_tokens", forms={_OFF: {"reasoning_effort": "none"}, _EFFORT: _LEVEL}),
        Dialect(
            "llama_cpp",
            # The budget's field is in pull requests and clients, not in the README: not confirmed.
            forms={_OFF: _NO_THINK, _BUDGET: _THINK | {"thinking_budget_tokens": BUDGET}, _EFFORT: _LEVEL, _ADAPTIVE: _THINK},
            off_for_all=True,
            continues=True,
            continue_body=_CONTINUE,
            min_top_logprobs=1,  # 0 turns logprobs off, and absent means 20
            keep_alive=False,  # it announces Keep-Alive and closes after every stream; a request sent in between is lost
        ),
        Dialect(
            "vllm",
            forms={_OFF: _NO_THINK, _BUDGET: _THINK | {"thinking_token_budget": BUDGET}, _EFFORT: _LEVEL, _ADAPTIVE: _THINK},
            off_for_all=True,
            continues=True,
            continue_body=_CONTINUE,
            reasoning=("reasoning", "reasoning_content"),
            stop_string="stop_reason",
        ),
        Dialect(
            "sglang",
            # The budget's field is that of the custom logit processor, from issues and users' configs: not confirmed.
            forms={_OFF: _NO_THINK, _BUDGET: _THINK | {"custom_params": {"thinking_budget": BUDGET}}, _EFFORT: _LEVEL, _ADAPTIVE: _THINK},
            off_for_all=True,
            continues=True,
            continue_body=_CONTINUE,
            stop_string="matched_stop",
            reasoning_tokens=(("reasoning_tokens",), ("completion_tokens_details", "reasoning_tokens")),
        ),
        Dialect(
            "deepseek",
            forms={
                _OFF: {"thinking": {"type": "disabled"}},
                _EFFORT: {"thinking": {"type": "enabled"}} | _LEVEL,
                _ADAPTIVE: {"thinking": {"type": "enabled"}},
            },
            seed=None,
            continues=True,  # at the base URL that ends in /beta
            continue_message={"prefix": True},
            cached_tokens=(("prompt_cache_hit_tokens",), ("prompt_tokens_details", "cached_tokens")),
        ),
        Dialect(
            "dashscope",
            forms={
                _OFF: {"enable_thinking": False},
                _BUDGET: {"enable_thinking": True, "thinking_budget": BUDGET},
                _ADAPTIVE: {"enable_thinking": True},
            },
            # The name of the reasoning field in compatible mode is not confirmed; both names are read.
        ),
        Dialect(
            "openrouter",
            forms={
                _OFF: {"reasoning": {"effort": "none"}},
                _BUDGET: {"reasoning": {"max_tokens": BUDGET}},
                _EFFORT: {"reasoning": {"effort": EFFORT}},
                _ADAPTIVE: {"reasoning": {"enabled": True}},
            },
            reasoning=("reasoning", "reasoning_content"),
            extra={"usage": {"include": True}},
        ),
        Dialect("xai", cap="max_completion_tokens", forms={_OFF: {"reasoning_effort": "none"}, _EFFORT: _LEVEL}, reasoning_outside=True),
        Dialect("together", forms={_OFF: {"reasoning": {"enabled": False}}, _EFFORT: _LEVEL, _ADAPTIVE: {"reasoning": {"enabled": True}}}),
        Dialect(
            "fireworks",
            forms={
                _OFF: {"reasoning_effort": "none"},
                _BUDGET: {"thinking": {"type": "enabled", "budget_tokens": BUDGET}},
                _EFFORT: _LEVEL,
            },
        ),
        # Models whose budget is enforced by a grammar (Qwen3): a number in place of a level is a hard cap.
        Dialect("fireworks_grammar", forms={_OFF: {"reasoning_effort": "none"}, _BUDGET: {"reasoning_effort": BUDGET}, _EFFORT: _LEVEL}),
        Dialect(
            "mistral",
            ask_usage={},  # usage always comes with the last chunk, and the schema forbids unknown fields
            forms={_OFF: {"reasoning_effort": "none"}, _EFFORT: _LEVEL},
            seed="random_seed",
            continues=True,
            continue_message={"prefix": True},
        ),
        Dialect(
            "ollama",
            forms={_OFF: {"reasoning": {"effort": "none"}}, _EFFORT: {"reasoning": {"effort": EFFORT}}},
            reasoning=("reasoning", "reasoning_content"),  # the name on the OpenAI route is not confirmed; both are read
        ),
    )
}

GENERIC = DIALECTS["generic"]


def dialect_named(name: str) -> Dialect:
    """The dialect of that name. Raises `UserError` that lists the names there are."""
    if name not in DIALECTS:
        raise UserError(f"dialect={name}: there is no such dialect; there are: {', '.join(sorted(DIALECTS))}")
    return DIALECTS[name]
