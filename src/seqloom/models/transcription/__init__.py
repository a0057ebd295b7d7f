"""CTC transcription: audio or image features, the model, streaming, transcripts."""
