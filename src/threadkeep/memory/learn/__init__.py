"""Enrichment: what was captured becomes knowledge, by rules alone or with a model."""
