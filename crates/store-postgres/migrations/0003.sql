-- Version 3. A batch that only adds rows is one call, whose plans the connection keeps.
-- Its first four arguments are the row of the writer: node, writer, counter, clock.
--
-- Processes of version 2 go on beside it: they do not call it. A version that changes one of these tables adds a function
-- of the same name with other arguments, and leaves this one to those who call it.

CREATE FUNCTION write_rows(
    uuid, bigint, bigint, bigint,
    text[], uuid[], text[], text[], uuid[], bytea[], text[], bigint[], bigint[], bigint[], text[], boolean[], bigint[],
    text[], uuid[], text[], text[], bigint[], text[], bigint[], bigint[], boolean[], bigint[], bigint[], uuid[], bigint[], bigint[], uuid[], uuid[], bigint[], uuid[], text[], boolean[], uuid[], bigint[], text[], text[], text[], bigint[], bigint[], bigint[], bigint[], boolean[], boolean[], bigint[],
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
    INSERT INTO runs (ws, id, namespace, flow_id, revision, status, epoch, version, active, open_intents, open_doubts, logical, take, generation, claim, lane, lane_limit, parent, parent_step, parent_waits, root, depth, correlation_id, door, key, created_at, started_at, ended_at, updated_at, warned, erased, owner) SELECT * FROM unnest($18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48, $49);
    INSERT INTO run_values (ws, run, inputs, trigger, outputs, failure, labels) SELECT * FROM unnest($50, $51, $52, $53, $54, $55, $56);
    INSERT INTO run_labels (ws, name, value, run) SELECT * FROM unnest($57, $58, $59, $60);
    INSERT INTO journal (ws, run, seq, at, format, events, vals, digest, val_digest) SELECT * FROM unnest($61, $62, $63, $64, $65, $66, $67, $68, $69);
    INSERT INTO logs (ws, run, seq, at, level, step, message) SELECT * FROM unnest($70, $71, $72, $73, $74, $75, $76);
    INSERT INTO decisions (ws, at, door, occurrence, namespace, flow_id, scope, key, key_source, claim, fingerprint, policy, prior, prior_run, prior_generation, same_payload, decision, reason, run, generation, caller, rules_version) SELECT * FROM unnest($77, $78, $79, $80, $81, $82, $83, $84, $85, $86, $87, $88, $89, $90, $91, $92, $93, $94, $95, $96, $97, $98);
END $$;
