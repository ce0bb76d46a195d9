-- Projects that somebody gave another name, or joined with another one: from what a folder is called to what it is shown as.
CREATE TABLE IF NOT EXISTS tk_projects (
  name TEXT PRIMARY KEY,             -- the last component of the repository's folder
  shown TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS tk_projects_shown ON tk_projects (shown);
