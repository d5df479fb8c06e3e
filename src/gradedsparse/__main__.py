"""`python -m gradedsparse` is the command `gradedsparse`."""

from gradedsparse.cli import app

if __name__ == "__main__":
    app()
