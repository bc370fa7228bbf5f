"""`python -P -m relation_tf.cli`; without -P, Python searches the current folder first."""

from relation_tf.cli import main

if __name__ == "__main__":
    main()
