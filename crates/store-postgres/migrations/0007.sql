-- Version 7. What the status of a run does not tell by itself, and what few runs have (JSON). Both NULL for most runs.
-- Processes of version 6 go on beside it: they write neither column, and call the function that they know.

ALTER TABLE runs ADD COLUMN conclusion text;
ALTER TABLE runs ADD COLUMN more text;

CREATE FUNCTION write_rows(
    uuid, bigint, bigint, bigint,
    text[], uuid[], text[], text[], uuid[], bytea[], text[], bigint[], bigint[], bigint[], text[], boolean[], bigint[],
    text[], uuid[], text[], text[], bigint[], text[], bigint[], bigint[], boolean[], bigint[], bigint[], uuid[], bigint[], bigint[], uuid[], uuid[], bigint[], uuid[], text[], boolean[], uuid[], bigint[], text[], text[], text[], bigint[], bigint[], bigint[], bigint[], boolean[], boolean[], text[], text[], bigint[],
    text[], uuid[], text[], text[], text[], text[], text[],
    text[], text[], text[], uuid[],
    text[], uuid[], bigint[], bigint[], bigint[], bytea[], bytea[], bigint[], bigint[],
    text[], uuid[], bigint[], bigint[], text[], text[], text[],
    text[], bigint[], text[], text[], text[], text[], text[], text[], text[], uuid[], bytea[], text[], text[], uuid[], bigint[], boolean[], text[], text[], uuid[], bigint[], text[], bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE batches SET counter = $3, clock_ms = greatest(clock_ms, $4) WHERE node = $1 AND writer = $2 AND counter = $3 - 1 AND NOT fenced;
    PERFORM must(FOUND, 'SM002');
    INSERT INTO claims (ws, hash, key, scope, run, fingerprint, state, generation, first_seen, completed_at, keep, expire_live, forget_at) SELECT * FROM unnest($5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17);
    INSERT INTO runs (ws, id, namespace, flow_id, revision, status, epoch, version, active, open_intents, open_doubts, logical, take, generation, claim, lane, lane_limit, parent, parent_step, parent_waits, root, depth, correlation_id, door, key, created_at, started_at, ended_at, updated_at, warned, erased, conclusion, more, owner) SELECT * FROM unnest($18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48, $49, $50, $51);
    INSERT INTO run_values (ws, run, inputs, trigger, outputs, failure, labels) SELECT * FROM unnest($52, $53, $54, $55, $56, $57, $58);
    INSERT INTO run_labels (ws, name, value, run) SELECT * FROM unnest($59, $60, $61, $62);
    INSERT INTO journal (ws, run, seq, at, format, events, vals, digest, val_digest) SELECT * FROM unnest($63, $64, $65, $66, $67, $68, $69, $70, $71);
    INSERT INTO logs (ws, run, seq, at, level, step, message) SELECT * FROM unnest($72, $73, $74, $75, $76, $77, $78);
    INSERT INTO decisions (ws, at, door, occurrence, namespace, flow_id, scope, key, key_source, claim, fingerprint, policy, prior, prior_run, prior_generation, same_payload, decision, reason, run, generation, caller, rules_version) SELECT * FROM unnest($79, $80, $81, $82, $83, $84, $85, $86, $87, $88, $89, $90, $91, $92, $93, $94, $95, $96, $97, $98, $99, $100);
END $$;
