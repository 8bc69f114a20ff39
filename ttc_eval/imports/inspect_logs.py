"""`inspect`: logs of Inspect, as `.json` or as the `.eval` zip (one entry a sample, which is read one at a time).

A sample's epochs are the draws of its problem; a scorer's verdict is the label (C or 1: right; I, N or 0: wrong; anything between: none).
Tokens are those of the model calls outside the scorers, and so are the seconds: what grading cost is no part of the policy. Inspect counts
cached input apart from `input_tokens`; here it is part of it, as docs/design.md 3.2 says.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ttc_eval.errors import UserError
from ttc_eval.imports.reading import count, may, name_of, need, note_ignored, number, parsed, whole
from ttc_eval.imports.samples import Contents, Options, Sample, Tally
from ttc_eval.records import UNKNOWN_USAGE, AnswerContract, ContractKind, Message, Sampling, Usage, UsageSource

SUMMARY = "logs of Inspect, .json or .eval (samples, epochs, scores, model usage)"
_HEADERS = ("header.json", "_journal/start.json", "start.json")
_USED = ("id", "epoch", "input", "target", "messages", "output", "scores", "events", "attachments", "error")
_EPOCH = re.compile(r"_epoch_(\d+)\.json$")
_CUT = ("max_tokens", "model_length")
_VERDICTS = {"C": True, "I": False, "N": False}
_ATTACHMENT = "attachment://"


def read(path: Path, options: Options) -> Contents:
    """The samples of a log. Raises `UserError`, also while they are read."""
    header, samples = _zipped(path) if zipfile.is_zipfile(path) else _plain(path)
    spec, tally = need(header, "eval", dict, path.name), Tally()
    where = f"{path.name}, eval"
    config = may(spec, "model_generate_config", dict, where) or {}
    return Contents(
        dataset=options.dataset or name_of(spec, "task", where),
        split=options.split or "test",
        samples=_samples(samples, spec, options, tally),
        tally=tally,
        contract=AnswerContract(ContractKind.TEXT),
        comparable=False,
        sampling=Sampling(temperature=number(config, "temperature", where), top_p=number(config, "top_p", where)),
        answer_tokens=count(config, "max_tokens", where),
    )


def _plain(path: Path) -> tuple[Mapping[str, Any], Iterator[tuple[str, Any]]]:
    log = whole(path)
    if not isinstance(log, dict) or "eval" not in log:
        raise UserError(f"{path.name}: an Inspect log is an object with 'eval' and 'samples'")
    samples = may(log, "samples", list, path.name) or []
    # The draws of a problem are its epochs, in their order, however the log was written.
    ordered = sorted(samples, key=lambda sample: sample.get("epoch", 1) if isinstance(sample, dict) else 1)
    return log, ((f"{path.name}, sample {place}", sample) for place, sample in enumerate(ordered))


def _zipped(path: Path) -> tuple[Mapping[str, Any], Iterator[tuple[str, Any]]]:
    try:
        with zipfile.ZipFile(path) as log:
            names = log.namelist()
            header = next((name for name in _HEADERS if name in names), None)
            if header is None:
                raise UserError(f"{path.name}: there is no {' or '.join(_HEADERS)} in it: it is no Inspect log")
            found = parsed(log.read(header), f"{path.name}, {header}")
    except (zipfile.BadZipFile, NotImplementedError, OSError) as error:
        raise UserError(f"{path.name}: it cannot be unpacked ({error}); write it as JSON: inspect log convert --to json") from None
    if any(name.startswith("samples/") and name.endswith("/sample.json") for name in names):
        raise UserError(f"{path.name}: its samples are stored in chunks; write it as JSON: inspect log convert --to json")
    entries = sorted((name for name in names if name.startswith("samples/") and _EPOCH.search(name)), key=_epoch)
    return found, _entries(path, entries)


def _epoch(name: str) -> int:
    found = _EPOCH.search(name)
    return int(found[1]) if found else 1


def _entries(path: Path, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    try:
        with zipfile.ZipFile(path) as log:
            for name in names:
                where = f"{path.name}, {name}"
                yield where, parsed(log.read(name), where)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise UserError(f"{path.name}: it cannot be unpacked ({error}); write it as JSON: inspect log convert --to json") from None


def _samples(samples: Iterator[tuple[str, Any]], spec: Mapping[str, Any], options: Options, tally: Tally) -> Iterator[Sample]:
    where = "eval"
    prompts: dict[str, tuple[Message, ...]] = {}
    system, begun = options.model or name_of(spec, "model", where), _time(spec.get("created"))
    for where, sample in samples:
        if not isinstance(sample, dict):
            raise UserError(f"{where}: an object is needed")
        note_ignored(tally, sample, _USED)
        attachments = may(sample, "attachments", dict, where) or {}
        output = may(sample, "output", dict, where) or {}
        message, stop = _answer(output, where)
        text, thinking = _texts(message.get("content"), attachments)
        failed = may(sample, "error", (dict, str), where) is not None
        scorer, score = _score(sample, options, tally, where)
        answer = score.get("answer")
        usage, seconds = _spent(sample, output, where)
        if failed:
            tally.notes["samples that ended in an error, and never vote"] += 1
        yield Sample(
            problem=name_of(sample, "id", where),
            where=where,
            system=system,
            text=text,
            seed=options.seed or 0,
            messages=_first_prompt(sample, _prompt(sample, attachments, where), prompts, tally),
            reference=_target(sample, where),
            answer=(str(answer) if isinstance(answer, str | int | float) and not isinstance(answer, bool) else text).strip() or None,
            correct=_verdict(score.get("value"), scorer, tally),
            thinking=thinking,
            complete=not failed and stop not in (*_CUT, "content_filter"),
            stop="error" if failed else stop,
            usage=usage,
            latency_s=seconds,
            started_at=begun,
        )


def _time(stamp: object) -> float | None:
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except ValueError:
        return None


def _answer(output: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], str | None]:
    choices = may(output, "choices", list, where) or []
    first = choices[0] if choices and isinstance(choices[0], dict) else {}
    return may(first, "message", dict, where) or {}, may(first, "stop_reason", str, where)


def _texts(content: object, attachments: Mapping[str, Any]) -> tuple[str, str | None]:
    """The text and the reasoning of a message, whose content is a text or a list of parts."""
    if not isinstance(content, list):
        return _attached(content, attachments), None
    parts = [part for part in content if isinstance(part, dict)]
    text = "".join(_attached(part.get("text"), attachments) for part in parts if part.get("type") == "text")
    thoughts = [_attached(part.get("reasoning"), attachments) for part in parts if part.get("type") == "reasoning"]
    return text, "\n".join(thoughts) if thoughts else None


def _attached(text: object, attachments: Mapping[str, Any]) -> str:
    if not isinstance(text, str):
        return ""
    return str(attachments.get(text.removeprefix(_ATTACHMENT), text)) if text.startswith(_ATTACHMENT) else text


def _prompt(sample: Mapping[str, Any], attachments: Mapping[str, Any], where: str) -> tuple[Message, ...]:
    """The turns before the first that the model wrote; without them, the input."""
    turns: list[Message] = []
    for turn in may(sample, "messages", list, where) or []:
        role = turn.get("role") if isinstance(turn, dict) else None
        if role not in ("system", "user", "assistant") or (role == "assistant" and turn.get("source") != "input"):
            break
        turns.append(Message(role, _texts(turn.get("content"), attachments)[0]))
    if any(turn.role == "user" for turn in turns):
        return tuple(turns)
    given = need(sample, "input", (str, list), where)
    if isinstance(given, str):
        return (Message("user", _attached(given, attachments)),)
    return tuple(Message("user", _texts(turn.get("content"), attachments)[0]) for turn in given if isinstance(turn, dict))


def _first_prompt(
    sample: Mapping[str, Any], turns: tuple[Message, ...], prompts: dict[str, tuple[Message, ...]], tally: Tally
) -> tuple[Message, ...]:
    """The prompt of a problem is that of its first epoch, whatever a solver made of later ones."""
    first = prompts.setdefault(str(sample.get("id")), turns)
    if turns != first:
        tally.notes["samples whose prompt differs from that of the first epoch"] += 1
    return first


def _target(sample: Mapping[str, Any], where: str) -> str | None:
    target = may(sample, "target", (str, list), where)
    return target if target is None or isinstance(target, str) else " | ".join(map(str, target))


def _score(sample: Mapping[str, Any], options: Options, tally: Tally, where: str) -> tuple[str | None, Mapping[str, Any]]:
    scores = may(sample, "scores", dict, where) or {}
    if not scores:
        tally.notes["samples without a score, and so without a label"] += 1
        return None, {}
    name = options.scorer or next(iter(scores))
    if name not in scores:
        raise UserError(f"{where}: there is no score {name!r}; the scorers are: {', '.join(scores)}")
    if options.scorer is None and len(scores) > 1:
        tally.notes[f"samples with several scores, whose label is that of {name!r} (--scorer takes another)"] += 1
    return name, need(scores, name, dict, where)


def _verdict(value: object, scorer: str | None, tally: Tally) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _VERDICTS:
        return _VERDICTS[value]
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    if scorer is not None:
        tally.notes[f"samples that {scorer!r} calls neither right nor wrong, and so without a label"] += 1
    return None


def _spent(sample: Mapping[str, Any], output: Mapping[str, Any], where: str) -> tuple[Usage, float | None]:
    """Tokens and seconds of the model calls that made the sample, without those of its scorers; unknown where a call tells none."""
    calls = [event.get("output") or {} for event in _policy_calls(may(sample, "events", list, where) or [])]
    if not calls:
        # Without events only a single call can be told from the sample's sum, which holds the scorers'.
        turns = may(sample, "messages", list, where) or []
        written = sum(isinstance(turn, dict) and turn.get("role") == "assistant" and turn.get("source") != "input" for turn in turns)
        calls = [output] if written <= 1 else []
    usages = [_usage(call.get("usage"), where) for call in calls]
    seconds = [number(call, "time", where) for call in calls]
    latency = None if not calls or None in seconds else sum(value or 0.0 for value in seconds)
    return (usages[0] if len(usages) == 1 else _together(usages)), latency


def _policy_calls(events: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """The model events outside the spans of scorers (or, in older logs, outside their steps)."""
    scoring: set[str] = set()
    steps = 0
    for event in events:
        if not isinstance(event, dict):
            continue
        kind = event.get("event")
        if kind == "span_begin" and (event.get("type") in ("scorer", "scorers") or event.get("parent_id") in scoring):
            scoring.add(str(event.get("id")))
        elif kind == "step" and event.get("type") == "scorer":
            steps += 1 if event.get("action") == "begin" else -1
        elif kind == "model" and steps == 0 and event.get("span_id") not in scoring:
            yield event


def _usage(raw: object, where: str) -> Usage:
    if not isinstance(raw, dict):
        return UNKNOWN_USAGE
    fresh, output = count(raw, "input_tokens", where), count(raw, "output_tokens", where)
    cached, written = count(raw, "input_tokens_cache_read", where), count(raw, "input_tokens_cache_write", where)
    apart = (cached or 0) + (written or 0)
    # Some providers' counts came with the cached part inside: then the total says so.
    inside = raw.get("total_tokens") == (fresh or 0) + (output or 0) and apart > 0
    size = fresh if fresh is None or inside else fresh + apart
    reasoning = count(raw, "reasoning_tokens", where)
    if reasoning is not None and output is not None and reasoning > output:
        reasoning = None
    return Usage(size, output, cached, written, reasoning, UsageSource.PROVIDER, raw)


def _together(usages: Sequence[Usage]) -> Usage:
    def total(name: str) -> int | None:
        values = [getattr(usage, name) for usage in usages]
        return None if not values or None in values else sum(values)

    size, output = total("input_tokens"), total("output_tokens")
    parts = total("cached_input_tokens"), total("cache_write_tokens"), total("reasoning_tokens")
    return Usage(size, output, *parts, source=UsageSource.UNKNOWN if output is None else UsageSource.PROVIDER)
