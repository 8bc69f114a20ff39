ALTER TABLE problems ADD COLUMN given JSON;              -- what the problem states in a form that a program can check
ALTER TABLE cells ADD COLUMN larger_model VARCHAR;        -- the second model of a cascade or a route
ALTER TABLE calls ADD COLUMN top_logprobs JSON;           -- log-probabilities of the likeliest tokens, a list for each output token
ALTER TABLE candidates ADD COLUMN "partial" BOOLEAN;      -- a node of a search that is not meant to be an answer yet
ALTER TABLE candidates ADD COLUMN pruned BOOLEAN;         -- given up for others
ALTER TABLE candidates ADD COLUMN stop VARCHAR;           -- why its text ended, as calls.stop_reason says it
ALTER TABLE candidates ADD COLUMN content VARCHAR;        -- what a node holds, where that is not what a call said
ALTER TABLE scores ADD COLUMN latency_s DOUBLE;           -- of a verifier that runs here; NULL for one that is a call
ALTER TABLE solutions ADD COLUMN charged_search_nodes INTEGER;
ALTER TABLE solutions ADD COLUMN signals JSON;             -- values that the strategy decided by, by name; NULL: it has none

CREATE TABLE comparisons (       -- two candidates that a verifier chose between, asked in both orders
    cell_id         VARCHAR NOT NULL,
    problem_id      VARCHAR NOT NULL,
    first           INTEGER NOT NULL,   -- position of the candidate that was shown first in the forward order
    second          INTEGER NOT NULL,
    verifier        VARCHAR NOT NULL,
    forward         VARCHAR,            -- first | second | tie, in terms of the columns; NULL: the reply was not valid
    backward        VARCHAR,
    winner          INTEGER,            -- position of the one preferred in both orders; NULL: a tie
    valid           BOOLEAN NOT NULL,
    call_ids        JSON NOT NULL
);

-- An imported sample may come without usage, reservation or time: unknown is NULL.
ALTER TABLE calls ALTER COLUMN reserved_input_tokens DROP NOT NULL;
ALTER TABLE calls ALTER COLUMN reserved_output_tokens DROP NOT NULL;
ALTER TABLE calls ALTER COLUMN latency_s DROP NOT NULL;
ALTER TABLE uses ALTER COLUMN charged_input_tokens DROP NOT NULL;
ALTER TABLE uses ALTER COLUMN charged_output_tokens DROP NOT NULL;
ALTER TABLE solutions ALTER COLUMN charged_input_tokens DROP NOT NULL;
ALTER TABLE solutions ALTER COLUMN charged_output_tokens DROP NOT NULL;
ALTER TABLE solutions ALTER COLUMN latency_s DROP NOT NULL;
ALTER TABLE solutions ALTER COLUMN work_s DROP NOT NULL;
