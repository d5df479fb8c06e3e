"""The pipeline of the book: notebooks are executed by papermill and rendered by Jupyter Book.

Every function takes the root folder of the book (through `layout.Layout`), so that a book can
stand anywhere; nothing that a notebook does depends on this package.
"""
