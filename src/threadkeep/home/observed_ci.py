"""What surfaces need of CI, named in one place, so that none imports a service."""
