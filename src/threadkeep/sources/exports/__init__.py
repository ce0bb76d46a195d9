"""Data exports of chat services: files that a person asks for, and hands over to be imported."""
