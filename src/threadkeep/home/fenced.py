"""How surfaces give stored text to an agent: fenced, labelled, with its age."""
