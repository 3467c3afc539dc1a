"""The comparer: a trusted, unprivileged process that streams raw outputs into error statistics."""
