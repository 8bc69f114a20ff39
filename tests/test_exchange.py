"""What the exchange holds is given back, whatever goes wrong before a call is sent."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ttc_eval.exchange import Exchange, RetryPolicy, Tally, call_bound
from ttc_eval.forcing import Segment
from ttc_eval.ledger import Account, Ledger, Limits, Scope
from ttc_eval.models.scripted import ScriptedModel
from ttc_eval.records import Amounts, Message, Request, Sampling
from ttc_eval.store import Journal, JournalFailed
from ttc_eval.thinking import Thinking


def test_a_call_that_cannot_be_noted_holds_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        model, wallet = ScriptedModel(("42",)), Account(Scope.SWEEP, Limits(calls=1))
        request = Request("m", "e", (Message("user", "?"),), Thinking(), Sampling(), 8, 8)
        async with model.connect() as connection, Journal(tmp_path) as journal:
            writable = os.dup(journal._file or 0)
            unwritable = os.open(tmp_path, os.O_RDONLY)
            os.dup2(unwritable, journal._file or 0)
            with pytest.raises(JournalFailed):
                await journal.append({})
            os.dup2(writable, journal._file or 0)
            os.close(writable)
            os.close(unwritable)
            exchange = Exchange(
                info=model.info,
                connection=connection,
                journal=journal,
                ledger=Ledger(),
                wallet=wallet,
                sweep_id="s",
                retry=RetryPolicy(),
                tally=Tally(),
            )
            for _ in range(2):
                with pytest.raises(JournalFailed):
                    await asyncio.wait_for(exchange.fetch(Segment(request), "pool", lambda: None), 5)
                assert wallet.held == wallet.spent == Amounts()

    asyncio.run(scenario())


def test_what_a_tool_loop_sends_back_is_reserved_for(tmp_path: Path) -> None:
    info = ScriptedModel(replies=("4",)).info
    plain = Request("m", "e", (Message("user", "q"), Message("assistant", "")), Thinking(), Sampling(), 8, 8)
    seal = {"type": "thinking", "thinking": "", "signature": "x" * 5000}
    sealed = replace(plain, messages=(plain.messages[0], Message("assistant", "", (seal,))))
    tools = replace(plain, tools=({"name": "add", "description": "y" * 700},))
    bare = call_bound(info, plain, priced=False).input_tokens
    assert call_bound(info, sealed, priced=False).input_tokens >= bare + 5000
    assert call_bound(info, tools, priced=False).input_tokens >= bare + 700
