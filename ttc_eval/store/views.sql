-- The analyst's views (docs/design.md 4 and 5). Shares are over problems of a cell unless said otherwise; intervals are 95 %.
-- Every share of a cell has one 0/1 outcome per problem, so the problem is the unit and the Wilson interval applies.

CREATE OR REPLACE MACRO wilson_low(k, n) AS CASE WHEN n > 0 AND k IS NOT NULL THEN
    greatest(0.0, (k + 1.9207294103470547 - 1.959963984540054 * sqrt(k * (n - k) / n + 0.9603647051735273)) / (n + 3.8414588206941094)) END;
CREATE OR REPLACE MACRO wilson_high(k, n) AS CASE WHEN n > 0 AND k IS NOT NULL THEN
    least(1.0, (k + 1.9207294103470547 + 1.959963984540054 * sqrt(k * (n - k) / n + 0.9603647051735273)) / (n + 3.8414588206941094)) END;

-- (cell, problem): what came of it. `outcome` is one of right, wrong, unresolved, truncated, unparsed, refused, error, ungraded.
-- An imported answer may have no label: then `correct` and `candidate_right` are NULL where they depend on it, and the outcome is ungraded.
-- `candidate_right` needs labels: an oracle view, never deployable accuracy.
CREATE OR REPLACE VIEW problem_outcomes AS
WITH sets AS (
    -- A node of a search that is not meant to be an answer yet is no candidate here: neither cut nor without an answer.
    SELECT cell_id, problem_id,
           count(*) AS candidates,
           count(*) FILTER (complete AND answer_class IS NOT NULL) AS voting,
           count(*) FILTER (NOT complete AND stop IS DISTINCT FROM 'refusal') AS truncated,
           count(*) FILTER (stop = 'refusal') AS refused,
           count(*) FILTER (complete AND answer_class IS NULL) AS unparsed,
           count(*) FILTER (complete AND coalesce(grades.correct, false)) AS right_candidates,
           count(*) FILTER (complete AND answer_class IS NOT NULL AND grades.correct IS NULL) AS ungraded
    FROM candidates LEFT JOIN grades USING (problem_id, answer_class)
    WHERE NOT coalesce("partial", false)
    GROUP BY ALL
)
SELECT s.cell_id, s.problem_id, p.difficulty, s.selected, s.answer, p.reference, s.stop_reason, s.error, s.attempts, s.valid,
       CASE WHEN s.selected THEN g.correct ELSE false END AS correct,
       CASE WHEN coalesce(sets.right_candidates, 0) > 0 THEN true WHEN coalesce(sets.ungraded, 0) = 0 THEN false END AS candidate_right,
       CASE WHEN s.stop_reason = 'error' THEN 'error'
            WHEN s.selected THEN CASE WHEN g.correct THEN 'right' WHEN g.correct IS NULL THEN 'ungraded' ELSE 'wrong' END
            WHEN coalesce(sets.candidates, 0) > 0 AND sets.refused = sets.candidates THEN 'refused'
            WHEN coalesce(sets.candidates, 0) > 0 AND sets.truncated + sets.refused = sets.candidates THEN 'truncated'
            WHEN coalesce(sets.candidates, 0) > 0 AND sets.voting = 0 THEN 'unparsed'
            ELSE 'unresolved' END AS outcome,
       coalesce(sets.candidates, 0) AS candidates, coalesce(sets.voting, 0) AS voting, coalesce(sets.truncated, 0) AS truncated,
       coalesce(sets.refused, 0) AS refused, coalesce(sets.unparsed, 0) AS unparsed, coalesce(sets.right_candidates, 0) AS right_candidates,
       s.charged_calls, s.charged_verifier_calls, coalesce(s.charged_search_nodes, 0) AS charged_search_nodes, s.charged_input_tokens,
       s.charged_output_tokens, s.charged_usd, s.latency_s, s.work_s
FROM solutions s
LEFT JOIN problems p USING (problem_id)
LEFT JOIN grades g ON g.problem_id = s.problem_id AND g.answer_class = s.answer_class
LEFT JOIN sets ON sets.cell_id = s.cell_id AND sets.problem_id = s.problem_id;

-- (cell, problem, call): what the call was charged to the cell, and billed to it. A call is billed once, to the first cell
-- that used it, whoever else is charged for it, and to no replay, which pays for nothing. Unknown usage counts as its whole
-- reservation. Calls that no solution used (a sweep that was stopped) have a NULL cell and are billed all the same.
CREATE OR REPLACE VIEW call_costs AS
WITH turns AS (
    SELECT c.cell_id, dense_rank() OVER (ORDER BY w.started_at, c.ordinal) AS turn, w.kind IS DISTINCT FROM 'replay' AS pays
    FROM cells c LEFT JOIN sweeps w USING (sweep_id)
), firsts AS (
    -- An aggregate that keeps one row number a call: a window would sort all uses, with everything that is read of them.
    SELECT arg_min(u.rowid, row(t.turn, u.problem_id, u.position)) AS use_row FROM uses u JOIN turns t USING (cell_id) GROUP BY u.call_id
), ranked AS (
    SELECT u.*, t.pays AND f.use_row IS NOT NULL AS first_use
    FROM uses u JOIN turns t USING (cell_id) LEFT JOIN firsts f ON f.use_row = u.rowid
), given_up AS (
    -- Calls that made nothing but candidates which were given up for others. Only a solution that gave one up can have such a call.
    SELECT cell_id, problem_id, call_id, bool_and(pruned) AS pruned
    FROM (SELECT cell_id, problem_id, coalesce(pruned, false) AS pruned, unnest(from_json(call_ids, '["VARCHAR"]')) AS call_id
          FROM candidates SEMI JOIN (SELECT cell_id, problem_id FROM candidates WHERE pruned) USING (cell_id, problem_id))
    GROUP BY ALL
)
SELECT r.cell_id, r.problem_id, k.call_id, k.key, k.sweep_id, k.model, k.role, k.draw, k.segment, k.attempt, k.status, k.attempt > 1 AS retry,
       coalesce(r.overshoot, false) AS overshoot, coalesce(g.pruned, false) AS pruned,
       coalesce(r.charged_calls, 0) AS charged_calls,
       CASE WHEN r.call_id IS NULL THEN 0 ELSE r.charged_input_tokens END AS charged_input_tokens,
       CASE WHEN r.call_id IS NULL THEN 0 ELSE r.charged_output_tokens END AS charged_output_tokens,
       r.charged_usd,
       coalesce(r.first_use, true)::INTEGER AS billed_calls,
       CASE WHEN coalesce(r.first_use, true) THEN coalesce(k.input_tokens, k.reserved_input_tokens) ELSE 0 END AS billed_input_tokens,
       CASE WHEN coalesce(r.first_use, true) THEN coalesce(k.output_tokens, k.reserved_output_tokens) ELSE 0 END AS billed_output_tokens,
       CASE WHEN coalesce(r.first_use, true) THEN coalesce(k.cost_usd, k.reserved_usd)
            WHEN k.price_version IS NOT NULL THEN 0 END AS billed_usd,
       k.input_tokens, k.cached_input_tokens, k.cache_write_tokens, k.output_tokens, k.reasoning_tokens, k.usage_source, k.cost_usd, k.price_version,
       k.latency_s, k.simulated
FROM calls k LEFT JOIN ranked r USING (call_id)
LEFT JOIN given_up g ON g.cell_id = r.cell_id AND g.problem_id = r.problem_id AND g.call_id = r.call_id;

-- (candidate, verifier): `what` is candidate for a score that its strategy asked for, thinking or answer for one that `ttc-eval verify` gave
-- afterwards to a call of the candidate; `call_id` is the judge's call.
CREATE OR REPLACE VIEW verifier_scores AS
WITH later AS (
    SELECT c.cell_id, c.problem_id, c.position, t.verifier, t.kind, t.score, t.valid, t.rationale, t.judge_call_id AS call_id, t.what
    FROM (SELECT cell_id, problem_id, position, unnest(from_json(call_ids, '["VARCHAR"]')) AS call_id FROM candidates) c
    JOIN trace_scores t USING (call_id)
), given AS (
    SELECT cell_id, problem_id, position, verifier, kind, score, valid, rationale, call_id, 'candidate' AS what FROM scores
    UNION ALL BY NAME SELECT * FROM later
)
SELECT s.cell_id, s.problem_id, s.position, s.verifier, s.kind, s.score, s.valid, c.answer, c.answer_class, c.complete,
       CASE WHEN c.complete AND c.answer_class IS NOT NULL THEN g.correct ELSE false END AS correct, s.rationale, s.call_id, s.what
FROM given s
JOIN candidates c USING (cell_id, problem_id, position)
LEFT JOIN grades g ON g.problem_id = c.problem_id AND g.answer_class = c.answer_class;

CREATE OR REPLACE VIEW stop_reasons AS
WITH counted AS (
    SELECT cell_id, stop_reason, count(*) AS problems, count(*) FILTER (selected) AS selected FROM solutions GROUP BY cell_id, stop_reason
)
SELECT cell_id, c.model, c.strategy, c.strategy_label, c.thinking_label, stop_reason, problems,
       problems / sum(problems) OVER (PARTITION BY cell_id) AS share, selected
FROM counted JOIN cells c USING (cell_id);

-- cell: the metric words of the glossary, with intervals. Undefined is NULL.
CREATE OR REPLACE VIEW cell_metrics AS
WITH outcomes AS (
    SELECT cell_id,
           count(*) AS n,
           count(*) FILTER (selected) AS answered,
           -- A share of the problems that happen to have a label would be of others.
           CASE WHEN count(correct) = count(*) THEN count(*) FILTER (correct) END AS right_answers,
           CASE WHEN count(candidate_right) = count(*) THEN count(*) FILTER (candidate_right) END AS with_right_candidate,
           CASE WHEN count(candidate_right AND NOT correct) = count(*) THEN count(*) FILTER (candidate_right AND NOT correct) END AS gap,
           CASE WHEN count(candidate_right AND NOT correct) = count(*)
                THEN count(*) FILTER (candidate_right AND selected AND NOT correct) END AS wrong_despite,
           CASE WHEN count(candidate_right) = count(*) THEN count(*) FILTER (candidate_right AND NOT selected) END AS unresolved_despite,
           count(*) FILTER (outcome = 'error') AS errors,
           max(candidates) AS most_candidates, sum(candidates) AS candidates, sum(truncated) AS truncated, sum(refused) AS refused, sum(unparsed) AS unparsed,
           sum(attempts) AS attempts,
           sum(charged_calls) AS charged_calls, sum(charged_verifier_calls) AS charged_verifier_calls,
           sum(charged_search_nodes) AS charged_search_nodes,
           CASE WHEN count(charged_input_tokens) = count(*) THEN sum(charged_input_tokens) END AS charged_input_tokens,
           CASE WHEN count(charged_output_tokens) = count(*) THEN sum(charged_output_tokens) END AS charged_output_tokens,
           CASE WHEN count(charged_usd) = count(*) THEN sum(charged_usd) END AS charged_usd,
           -- A mean over the problems whose number happens to be known would be of others.
           CASE WHEN count(charged_output_tokens) = count(*) THEN avg(charged_output_tokens) END AS mean_output,
           CASE WHEN count(charged_output_tokens) = count(*) THEN stddev_samp(charged_output_tokens) / sqrt(count(*)) END AS se_output,
           CASE WHEN count(latency_s) = count(*) THEN avg(latency_s) END AS mean_latency_s,
           CASE WHEN count(latency_s) = count(*) THEN quantile_cont(latency_s, 0.5) END AS p50_latency_s,
           CASE WHEN count(latency_s) = count(*) THEN quantile_cont(latency_s, 0.95) END AS p95_latency_s
    FROM problem_outcomes GROUP BY cell_id
), costs AS (
    SELECT cell_id,
           sum(billed_calls) AS billed_calls,
           CASE WHEN bool_and(billed_input_tokens IS NOT NULL) THEN sum(billed_input_tokens) END AS billed_input_tokens,
           CASE WHEN bool_and(billed_output_tokens IS NOT NULL) THEN sum(billed_output_tokens) END AS billed_output_tokens,
           CASE WHEN bool_and(billed_usd IS NOT NULL) THEN sum(billed_usd) END AS billed_usd,
           count(*) FILTER (overshoot) AS overshoot_calls, count(*) FILTER (pruned AND NOT overshoot) AS pruned_calls,
           coalesce(sum(charged_output_tokens) FILTER (pruned AND NOT overshoot), 0) AS pruned_output_tokens, count(*) FILTER (retry AND NOT overshoot) AS retried_calls,
           count(*) FILTER (status <> 'ok' AND NOT overshoot) AS failed_calls,
           count(*) FILTER (usage_source = 'unknown' AND NOT overshoot) AS unknown_usage_calls,
           CASE WHEN bool_and(overshoot OR status <> 'ok' OR reasoning_tokens IS NOT NULL) THEN sum(reasoning_tokens) FILTER (NOT overshoot) END AS reasoning_tokens
    FROM call_costs WHERE cell_id IS NOT NULL GROUP BY cell_id
)
SELECT c.cell_id, c.sweep_id, c.model, c.strategy, c.strategy_label, c.verifier, c.dataset, c.split, c.thinking_mode, c.thinking_budget,
       c.thinking_effort, c.thinking_label, c.seed, c.simulated, c.status, c.larger_model,
       coalesce(o.n, 0) AS n_problems, c.n_planned,
       answered / n AS coverage, wilson_low(answered, n) AS coverage_low, wilson_high(answered, n) AS coverage_high,
       CASE WHEN answered > 0 THEN right_answers / answered END AS selected_accuracy,
       wilson_low(right_answers, answered) AS selected_accuracy_low, wilson_high(right_answers, answered) AS selected_accuracy_high,
       right_answers / n AS success, wilson_low(right_answers, n) AS success_low, wilson_high(right_answers, n) AS success_high,
       with_right_candidate / n AS candidate_success, wilson_low(with_right_candidate, n) AS candidate_success_low,
       wilson_high(with_right_candidate, n) AS candidate_success_high,
       gap / n AS selection_gap,   -- 0 by construction, and so without an interval, where no problem had two candidates
       CASE WHEN most_candidates > 1 THEN wilson_low(gap, n) END AS selection_gap_low,
       CASE WHEN most_candidates > 1 THEN wilson_high(gap, n) END AS selection_gap_high,
       1 - with_right_candidate / n AS lost_no_candidate, wrong_despite / n AS lost_answered_wrong, unresolved_despite / n AS lost_unresolved,
       CASE WHEN candidates > 0 THEN truncated / candidates END AS truncated_share,
       CASE WHEN candidates > 0 THEN unparsed / candidates END AS unparsed_share,
       CASE WHEN candidates > 0 THEN refused / candidates END AS refused_share,
       errors / n AS error_share,
       right_answers AS n_correct, attempts,
       charged_calls, charged_calls / n AS mean_calls, coalesce(billed_calls, 0) AS billed_calls, charged_verifier_calls,
       overshoot_calls, retried_calls, failed_calls, unknown_usage_calls, pruned_calls, pruned_output_tokens, charged_search_nodes,
       charged_input_tokens, billed_input_tokens, charged_output_tokens, billed_output_tokens,
       mean_output AS mean_output_tokens,
       CASE WHEN se_output IS NOT NULL THEN greatest(0, mean_output - 1.959963984540054 * se_output) END AS mean_output_tokens_low,
       mean_output + 1.959963984540054 * se_output AS mean_output_tokens_high,
       reasoning_tokens / n AS mean_reasoning_tokens,
       charged_usd, billed_usd,
       CASE WHEN right_answers > 0 THEN charged_usd / right_answers END AS usd_per_correct,
       CASE WHEN right_answers > 0 THEN charged_output_tokens / right_answers END AS output_tokens_per_correct,
       mean_latency_s, p50_latency_s, p95_latency_s, c.error
FROM cells c
LEFT JOIN outcomes o USING (cell_id)
LEFT JOIN costs USING (cell_id)
LEFT JOIN sweeps w USING (sweep_id)
ORDER BY w.started_at, c.ordinal;
