"""The hooks that interactive shells load, as files of their own languages."""
