"""The commands of `python -m experiments`, one module each; `experiments.__main__` lists them."""
