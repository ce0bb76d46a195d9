"""Health: rules about capture judged by what is really there, and a doctor who tells."""
