-- Since version 23: Hippo's brain never takes tickets of programs that it does not read itself, and those would wait before its
-- eyes for ever. Whoever writes one, it is skipped for the brain, and waits for us by the name in `locked_by`.
CREATE TRIGGER tk_own_ticket_new AFTER INSERT ON agentic_enrichment_queue
WHEN NEW.status = 'pending' AND (SELECT harness FROM agentic_sessions WHERE id = NEW.session_id)
  NOT IN ('claude-code', 'opencode', 'codex', 'cursor')
BEGIN
  UPDATE agentic_enrichment_queue SET status = 'skipped', locked_by = 'threadkeep' WHERE id = NEW.id;
END;

CREATE TRIGGER tk_own_ticket_again AFTER UPDATE OF status ON agentic_enrichment_queue
WHEN NEW.status = 'pending' AND (SELECT harness FROM agentic_sessions WHERE id = NEW.session_id)
  NOT IN ('claude-code', 'opencode', 'codex', 'cursor')
BEGIN
  UPDATE agentic_enrichment_queue SET status = 'skipped', locked_by = 'threadkeep' WHERE id = NEW.id;
END;
