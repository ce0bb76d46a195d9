"""What keeps a home alive: serving, supervising, upkeep, health and the doctor."""
