"""`python -m relation_tf.cli`."""

from relation_tf.cli import main

if __name__ == "__main__":
    main()
