-- Tickets that wait for us alone; see tk_own_tickets.sql.
CREATE INDEX IF NOT EXISTS tk_tickets_of_ours ON agentic_enrichment_queue (priority, id) WHERE locked_by = 'threadkeep';
