"""The knowledge store: what agents and people did on this machine, and what was learnt from it.

The contract is schema 18 or 23 of Hippo's database; a file of either program is good for both.
"""
