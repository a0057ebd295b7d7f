"""Sound, frames, images and videos: features, and encoders that read them."""
