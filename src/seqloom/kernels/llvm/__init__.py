"""Generation of LLVM IR, and its compilation."""
