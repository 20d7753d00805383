if __name__ == "__main__":  # a forked server imports this module too, and must not begin another run
    from mainstem.testing.soak.command import soak

    soak()
