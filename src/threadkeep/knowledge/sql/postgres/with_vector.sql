-- What knowledge has on a server with the extension pgvector: each vector in a row of its own, so that
-- the server can compare them. The chunks stay the truth: rows are made of one that is as it is now.

CREATE TABLE tk_vector_rows (
  chunk bigint NOT NULL,
  slot bigint NOT NULL,
  id bigint NOT NULL,
  v {vector}.halfvec NOT NULL,
  {own},
  PRIMARY KEY (chunk, slot, tk_owner),
  FOREIGN KEY (chunk, tk_owner) REFERENCES tk_vector_chunks (id, tk_owner) ON DELETE CASCADE
);
CREATE INDEX tk_vector_rows_id ON tk_vector_rows (id, tk_owner);

CREATE FUNCTION tk_vector_chunk_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM tk_vector_rows WHERE chunk = OLD.id AND tk_owner = OLD.tk_owner;
  RETURN NULL;
END$$;
CREATE TRIGGER tk_vector_chunk_changed AFTER UPDATE ON tk_vector_chunks
FOR EACH ROW EXECUTE FUNCTION tk_vector_chunk_changed();
