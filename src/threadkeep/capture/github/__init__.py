"""CI of GitHub and servers like it: asked for runs, jobs, annotations and logs, over HTTP."""
