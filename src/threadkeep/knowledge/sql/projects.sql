-- name: put_project_name
INSERT INTO tk_projects (name, shown) VALUES (:name, :shown) ON CONFLICT (name) DO UPDATE SET shown = excluded.shown

-- name: pass_project_names_on
UPDATE tk_projects SET shown = :shown WHERE shown = :name

-- name: drop_own_project_names
DELETE FROM tk_projects WHERE name = shown

-- name: names_of_projects
SELECT p.name FROM tk_projects AS p WHERE p.shown IN ({texts:shown}) ORDER BY p.name

-- name: rename_sessions_of_project
UPDATE tk_sessions SET project = :shown WHERE project = :name

-- name: folders_of_project
SELECT s.cwd, count(*) FROM tk_sessions AS s WHERE s.project = :project AND s.cwd <> '' GROUP BY s.cwd ORDER BY 2 DESC, 1

-- name: move_folder_to_project
UPDATE tk_sessions SET project = :project WHERE cwd = :cwd
