CREATE TABLE trace_scores (      -- (trace, verifier, what of it): a score given after the fact, by `ttc-eval verify`
    trace_id        VARCHAR NOT NULL,   -- id of the response; the call's where it has none, or one that several responses share
    call_id         VARCHAR,            -- the call that brought the response; NULL: no such trace is stored
    verifier        VARCHAR NOT NULL,
    kind            VARCHAR NOT NULL,
    what            VARCHAR NOT NULL,   -- thinking | answer
    score           DOUBLE,
    valid           BOOLEAN NOT NULL,
    reason          VARCHAR,            -- why it is not valid
    steps           JSON,               -- the score of each step, where the verifier gives them
    rationale       VARCHAR,
    source          VARCHAR NOT NULL,   -- asked | imported
    model           VARCHAR,            -- the judge; NULL when imported
    judge_call_id   VARCHAR,
    scored_at       DOUBLE NOT NULL     -- Unix seconds
);
