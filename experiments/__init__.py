"""The paper's experiments: its datasets, detectors, tables and figures. See `python -m experiments --help`.

Every dataset is read from its own files on disk. `python -m experiments generate` draws small ones, so that nothing has
to be downloaded.
"""
