"""The page that compares summaries of results with every table and figure of the paper."""
