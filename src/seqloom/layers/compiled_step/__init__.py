"""One step of generation by compiled code, for decoders without gradients."""
