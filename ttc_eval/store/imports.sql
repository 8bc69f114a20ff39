ALTER TABLE sweeps ADD COLUMN kind VARCHAR;               -- import | replay; NULL: a sweep, which made the calls itself
-- How far an imported sample could have grown is often not recorded: unknown is NULL.
ALTER TABLE calls ALTER COLUMN max_output_tokens DROP NOT NULL;

CREATE TABLE imports (           -- (file, options): samples of another tool that were taken in
    import_id       VARCHAR NOT NULL,   -- hash of the format, the file's contents and the options
    sweep_id        VARCHAR NOT NULL,   -- the invocation that took it in; its cells belong to it
    format          VARCHAR NOT NULL,
    path            VARCHAR NOT NULL,   -- the file's name, without its folder
    sha256          VARCHAR NOT NULL,
    bytes           BIGINT NOT NULL,
    rows            BIGINT NOT NULL,    -- samples taken in
    problems        BIGINT NOT NULL,
    options         JSON NOT NULL,
    imported_at     DOUBLE NOT NULL,    -- Unix seconds
    notes           JSON NOT NULL       -- what a reader of the numbers must know: a list of sentences
);
