"""The page and the HTTP API: server-rendered, on loopback, behind a token."""
