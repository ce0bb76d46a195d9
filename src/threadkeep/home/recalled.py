"""What surfaces need of memory, named in one place, so that none imports a service."""
