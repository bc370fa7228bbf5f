"""Generated tasks that show what a mechanism can and cannot do."""
