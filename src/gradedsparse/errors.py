"""The one exception that every part of gradedsparse raises for bad input."""


class GradedSparseError(ValueError):
    """Bad input, named with its place; the command line shows it as one line."""
