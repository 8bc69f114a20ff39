-- The tables of a study (docs/design.md 4). One row per what the first comment of each table says.
-- Numbers that are unknown are NULL. Tokens and seconds are counts and seconds; `usd` columns are US dollars.

CREATE TABLE sweeps (            -- invocation of the sweep command; a resumed one keeps its row
    sweep_id        VARCHAR NOT NULL,
    study           VARCHAR NOT NULL,
    status          VARCHAR NOT NULL,   -- running | finished | failed | stopped
    started_at      DOUBLE NOT NULL,    -- Unix seconds
    ended_at        DOUBLE,
    overrides       JSON,
    cell_ids        JSON,
    limits          JSON,
    git_revision    VARCHAR,
    versions        JSON,
    price_version   VARCHAR,
    host            VARCHAR,
    error           VARCHAR
);

CREATE TABLE cells (             -- cell: model x thinking x strategy x verifier x dataset x seed
    cell_id         VARCHAR NOT NULL,   -- hash of the cell's config
    sweep_id        VARCHAR NOT NULL,   -- the sweep that first ran it
    ordinal         INTEGER NOT NULL,   -- place in that sweep
    status          VARCHAR NOT NULL,   -- running | finished | failed | stopped
    error           VARCHAR,
    config          JSON NOT NULL,
    model           VARCHAR NOT NULL,
    endpoint        VARCHAR NOT NULL,
    simulated       BOOLEAN NOT NULL,
    priced          BOOLEAN NOT NULL,   -- whether the model has a price
    thinking_mode   VARCHAR NOT NULL,
    thinking_budget BIGINT,
    thinking_effort VARCHAR,
    thinking_label  VARCHAR NOT NULL,
    strategy        VARCHAR NOT NULL,
    strategy_label  VARCHAR NOT NULL,
    strategy_params JSON NOT NULL,
    verifier        VARCHAR,
    dataset         VARCHAR NOT NULL,
    split           VARCHAR NOT NULL,
    seed            BIGINT NOT NULL,
    n_planned       INTEGER NOT NULL,   -- problems that the cell is about
    started_at      DOUBLE,
    ended_at        DOUBLE
);

CREATE TABLE problems (          -- problem
    problem_id      VARCHAR NOT NULL,
    dataset         VARCHAR NOT NULL,
    split           VARCHAR NOT NULL,
    difficulty      VARCHAR,
    prompt          VARCHAR NOT NULL,   -- the last user message
    messages        JSON NOT NULL,
    reference       VARCHAR NOT NULL,
    contract        JSON NOT NULL
);

CREATE TABLE calls (             -- dispatched attempt, whatever came of it
    call_id             VARCHAR NOT NULL,
    key                 VARCHAR NOT NULL,   -- address of the draw's request
    pool                VARCHAR NOT NULL,   -- request configuration and seed that the draw belongs to
    sweep_id            VARCHAR NOT NULL,
    model               VARCHAR NOT NULL,
    role                VARCHAR NOT NULL,   -- generate | verify | revise | step | critic
    draw                INTEGER NOT NULL,
    segment             INTEGER NOT NULL,   -- place among the requests that make one draw
    attempt             INTEGER NOT NULL,   -- 1 for the first; each retry is a row. A cancelled one is not counted
    status              VARCHAR NOT NULL,   -- ok | error | cancelled
    error_kind          VARCHAR,
    error               VARCHAR,
    http_status         INTEGER,
    retryable           BOOLEAN,            -- NULL when it did not fail
    request             JSON NOT NULL,
    sent                JSON,               -- what was sent that the user did not write
    answer_text         VARCHAR,
    thinking_text       VARCHAR,
    blocks              JSON,
    token_logprobs      JSON,
    response_id         VARCHAR,
    stop_reason         VARCHAR,
    stop_reason_raw     VARCHAR,
    complete            BOOLEAN,
    requested_budget    BIGINT,             -- thinking budget that the user asked for
    max_output_tokens   BIGINT NOT NULL,    -- cap of this call
    input_tokens        BIGINT,             -- cached parts included
    cached_input_tokens BIGINT,
    cache_write_tokens  BIGINT,
    output_tokens       BIGINT,             -- reasoning included
    reasoning_tokens    BIGINT,
    usage_source        VARCHAR NOT NULL,   -- provider | counted | unknown
    usage_raw           JSON,
    reserved_input_tokens  BIGINT NOT NULL,
    reserved_output_tokens BIGINT NOT NULL,
    reserved_usd        DOUBLE,
    cost_usd            DOUBLE,             -- NULL: no price, or usage unknown
    price_version       VARCHAR,
    started_at          DOUBLE NOT NULL,
    first_token_s       DOUBLE,
    latency_s           DOUBLE NOT NULL,
    simulated           BOOLEAN NOT NULL
);

CREATE TABLE dispatches (        -- call whose outcome is not recorded: in flight now, or lost with a killed process
    call_id                VARCHAR NOT NULL,
    key                    VARCHAR NOT NULL,
    sweep_id               VARCHAR NOT NULL,
    started_at             DOUBLE NOT NULL,
    reserved_input_tokens  BIGINT NOT NULL,
    reserved_output_tokens BIGINT NOT NULL,
    reserved_usd           DOUBLE
);

CREATE TABLE uses (              -- (cell, problem, call): what the call was charged to that strategy
    cell_id                 VARCHAR NOT NULL,
    problem_id              VARCHAR NOT NULL,
    call_id                 VARCHAR NOT NULL,
    position                INTEGER NOT NULL,
    overshoot               BOOLEAN NOT NULL,   -- dispatched beyond the stopping point: billed, not charged
    charged_calls           INTEGER NOT NULL,
    charged_input_tokens    BIGINT NOT NULL,
    charged_output_tokens   BIGINT NOT NULL,
    charged_usd             DOUBLE              -- NULL: no price
);

CREATE TABLE candidates (        -- candidate
    cell_id         VARCHAR NOT NULL,
    problem_id      VARCHAR NOT NULL,
    position        INTEGER NOT NULL,
    draw            INTEGER NOT NULL,
    parent          INTEGER,
    depth           INTEGER NOT NULL,
    answer          VARCHAR,             -- as written
    answer_class    VARCHAR,
    complete        BOOLEAN NOT NULL,
    call_ids        JSON NOT NULL
);

CREATE TABLE scores (            -- (candidate, verifier)
    cell_id         VARCHAR NOT NULL,
    problem_id      VARCHAR NOT NULL,
    position        INTEGER NOT NULL,
    verifier        VARCHAR NOT NULL,
    kind            VARCHAR NOT NULL,
    score           DOUBLE,
    valid           BOOLEAN NOT NULL,
    steps           JSON,
    rationale       VARCHAR,
    call_id         VARCHAR
);

CREATE TABLE solutions (         -- (cell, problem)
    cell_id               VARCHAR NOT NULL,
    problem_id            VARCHAR NOT NULL,
    selected              BOOLEAN NOT NULL,
    answer                VARCHAR,
    answer_class          VARCHAR,
    stop_reason           VARCHAR NOT NULL,
    error                 VARCHAR,
    attempts              INTEGER NOT NULL,
    valid                 INTEGER NOT NULL,
    charged_calls         INTEGER NOT NULL,
    charged_verifier_calls INTEGER NOT NULL,
    charged_input_tokens  BIGINT NOT NULL,
    charged_output_tokens BIGINT NOT NULL,
    charged_usd           DOUBLE,             -- NULL: no price
    latency_s             DOUBLE NOT NULL,    -- critical path: what a user would have waited
    work_s                DOUBLE NOT NULL,    -- all calls, one after another
    ended_at              DOUBLE NOT NULL
);

CREATE TABLE grades (            -- (problem, answer class): the grader's verdict, after the fact
    problem_id      VARCHAR NOT NULL,
    answer_class    VARCHAR NOT NULL,
    correct         BOOLEAN NOT NULL,
    grader          VARCHAR NOT NULL,
    how             VARCHAR
);

CREATE TABLE journal_offsets (   -- journal: how far it has been loaded
    journal         VARCHAR NOT NULL,
    bytes_loaded    BIGINT NOT NULL,
    malformed_lines INTEGER NOT NULL
);
