"""What PostgreSQL needs to run the queries that are written for both engines."""
