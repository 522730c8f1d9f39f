"""What can go wrong with an image, as one message for people."""


class ImageError(Exception):
    """An image cannot be built or stored; the message says why and what to do."""
