"""Memory: one question over everything that was kept, answered with the places it stands."""
