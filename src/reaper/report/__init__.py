"""The report on a folder of runs: an HTML page, Markdown, terminal tables, and figures and videos as files."""
