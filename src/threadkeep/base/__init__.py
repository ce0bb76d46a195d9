"""The ground everything stands on: databases, ids, JSON, text; knows no contract."""
