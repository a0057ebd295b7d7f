"""Models as object files and WebAssembly modules, compiled with their weights: they need no runtime."""
