"""Suggestions for unknown names and missing files: synonyms of other libraries, earlier names, other tables, typos."""

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path

from seqloom.config.toml import KeyPath

_SYNONYM_TABLE = {  # key, table or task, best first; a dotted name includes its table → what people write instead
    # training
    "learning_rate": "lr rate base_lr max_lr peak_lr initial_lr eta step_size learningrate",
    "batch_size": "batch bsz bs minibatch minibatch_size mini_batch_size train_batch_size per_device_train_batch_size",
    "batch_tokens": "max_tokens tokens_per_batch max_tokens_per_batch",
    "epochs": "max_epochs num_epochs n_epochs num_train_epochs total_epochs nb_epoch passes",
    "updates": "max_steps max_updates max_update num_steps num_updates total_steps train_steps num_train_steps "
    "max_iters max_iter num_iterations n_iter iterations",
    "minutes": "max_time time_limit max_minutes",
    "bptt_steps": "steps bptt bptt_len tbptt tbptt_steps truncated_bptt_steps seq_len sequence_length block_size",
    "accumulate": "gradient_accumulation gradient_accumulation_steps accumulate_grad_batches accum_steps update_freq",
    "optimizer": "optim opt optimiser optimizer_name optimizer_type",
    "schedule": "scheduler lr_scheduler lr_schedule lr_scheduler_type",
    "warmup": "warmup_steps warmup_updates num_warmup_steps n_warmup_steps lr_warmup",
    "decay": "lr_decay gamma decay_rate decay_factor lr_shrink anneal",
    "decay_after_epochs": "decay_after start_decay_at",
    "plateau_patience": "decay_wait lr_patience scheduler_patience",
    "weight_decay": "wd l2 l2_penalty weight_penalty",
    "clip_norm": "clip grad_clip clip_grad clip_grad_norm max_grad_norm gradient_clip gradient_clipping "
    "gradient_clip_val clipnorm clip_gradients",
    "evaluate_every": "eval_every eval_steps eval_interval eval_frequency validate_interval validation_steps",
    "patience": "early_stopping early_stop early_stopping_patience",
    "average_checkpoints": "average checkpoint_averaging num_average avg_checkpoints swa",
    "save_every_minutes": "save_minutes save_every save_interval save_steps checkpoint_every",
    "log_every": "log_interval logging_steps log_steps report_every print_every",
    "seed": "random_seed manual_seed random_state rng_seed",
    "workers": "num_workers n_workers dataloader_workers",
    "precision": "dtype amp bf16 fp16 use_amp mixed_precision autocast float32_matmul_precision",
    "threads": "num_threads n_threads n_jobs cpu_threads",
    "shuffle_buffer": "pool shuffle_buffer_size buffer_size",
    "device": "cuda gpu gpus use_cuda use_gpu accelerator",
    # data and vocabulary
    "train": "train_file train_data train_path training_data trainset training trainer data_path",
    "dev": "dev_file dev_data valid valid_file valid_data validation validation_file validation_data val val_file "
    "eval_file",
    "dev_fraction": "dev_share validation_split val_split valid_split dev_split dev_size",
    "text_column": "text texts text_field text_key",
    "label_column target": "label labels label_field label_key target_column y y_column",
    "date": "date_column time_column time datetime timestamp ds",
    "word_column": "words_column token_column",
    "min_count": "minimum min_freq min_frequency min_df word_min_count",
    "vocab_size": "size vocabulary_size max_vocab max_vocab_size num_words max_features num_merges bpe_merges",
    "lowercase": "lower lower_case do_lower_case do_lowercase uncased",
    "unit": "tokenizer token tokens_type level token_level",
    # model
    "hidden_size": "hidden hidden_dim hidden_units units n_hidden num_hidden num_units nhid rnn_size lstm_size "
    "enc_hidden d_model d_hidden",
    "layers": "n_layers num_layers n_layer nlayers num_hidden_layers depth stacks",
    "embedding_size words.embedding_size": "embedding embedding_dim embed_dim emb_dim emb_size embed_size n_embd "
    "word_dim word_vec_size d_embed embeddings_dim vector_size",
    "dropout": "dropout_p dropout_rate dropout_prob p_dropout drop drop_rate hidden_dropout_prob resid_pdrop keep_prob",
    "cell": "cell_type rnn_type rnn_cell rnn recurrent_cell unit_type",
    "heads": "num_heads n_heads n_head nhead attention_heads num_attention_heads",
    "key_size": "key_dim kdim d_k",
    "value_size": "value_dim vdim d_v",
    "activation": "activation_fn activation_function act nonlinearity hidden_act",
    "bidirectional": "bidir bi bi_directional birnn bilstm",
    "connection": "connect skip_connection",
    "random_zoom": "zoom zoom_range random_resized_crop",
    "color_jitter": "colour_jitter brightness brightness_range contrast",
    "tie_embeddings": "tied tie_weights weight_tying tie_word_embeddings tied_weights share_decoder_input_output_embed",
    "model": "kind model_type architecture arch",
    "custom_layer": "own",
    "prenet": "front pre_net",
    "pretrained": "vectors pretrained_embeddings pretrained_vectors word_vectors glove",
    "fine_tune": "tune finetune trainable",
    "replace_embeddings": "alone replace_own",
    "unknown_dropout": "unknown unk_dropout",
    "label_smoothing": "smoothing label_smoothing_factor smooth_eps",
    "metric": "best_by metric_for_best_model eval_metric monitor early_stopping_metric",
    "too_long": "truncation truncating truncate overlong truncation_strategy",
    "max_length": "longest max_len max_output_length maxlen max_target_length max_new_tokens",
    "lm": "language language_model",
    "scheduled_sampling": "sampling",
    "attention.style": "place",
    "image_encoder": "sight",
    # search
    "search": "decode decoding generation decoding_method",
    "search.size": "beam_size num_beams n_beams beam_width beam beams",
    "nbest": "best n_best num_return_sequences num_hypotheses",
    "search.min_length": "minimum min_length min_len",
    "alpha": "length_penalty lenpen len_penalty length_alpha",
    "no_repeat_ngram": "no_repeat no_repeat_ngram_size block_ngram_repeat",
    # audio
    "augment": "change augmentation spec_augment specaugment",
    "freq_masks": "bands num_freq_masks",
    "freq_mask_width": "band freq_mask_param freq_mask",
    "time_masks": "stretches num_time_masks",
    "time_mask_width": "stretch time_mask_param time_mask",
    "vtlp": "warp",
    "preemphasis": "emphasis preemph pre_emphasis",
    "trim_db": "trim trim_silence vad",
    "top_db": "decibels",
    "n_mels": "mels num_mels num_mel_bins mel_bins n_mel_channels",
    "audio.sample_rate": "sampling_rate sr",
    "audio": "sound",
    # sections and tasks
    "task": "data dataset datasets model network",
    "language_model": "lm causal_lm language_modeling language_modelling gpt ngram",
    "translate": "seq2seq s2s nmt mt translation translator machine_translation encoder_decoder transliterate g2p "
    "phonetisaurus sequitur pair_ngram",
    "tag": "ner pos tagging tagger sequence_labeling sequence_labelling token_classification pos_tagging chunking crf "
    "hmm",
    "transcribe": "asr ctc stt ocr htr speech speech_recognition speech_to_text handwriting_recognition transcription",
    "embed": "word2vec w2v embedding embeddings skipgram cbow fasttext word_vectors",
    "classify": "classification classifier sentiment text_classification sentiment_analysis sequence_classification",
    "caption": "captioning image_captioning captions",
    "handwriting": "strokes sketch sketch_rnn drawing handwriting_synthesis",
    "music": "midi piano_roll polyphonic_music composition melody",
    "forecast": "forecasting time_series timeseries prediction regression",
}

SYNONYMS: dict[str, list[str]] = {}
"""From a word to the names that it may stand for, best first."""

for _names, _words in _SYNONYM_TABLE.items():
    for _word in _words.split():
        SYNONYMS.setdefault(_word, []).extend(_names.split())

MAX_SUGGESTIONS = 3  # suggestions in a message
CLEAR = 0.85  # similarity of a key that can only be a typo
_FIRST_TABLES = {"encoder", "decoder"}  # tables whose keys come first


def normalize(word: str) -> str:
    """A word without case, dashes and the leading dashes of an option."""
    return word.lower().lstrip("-").replace("-", "_")


def nearest(word: str, allowed: Iterable[str]) -> str:
    """The allowed value that a word stands for, or else the one closest in spelling; empty if there is none."""
    spelled = {normalize(name): name for name in allowed}
    for name in (normalize(word), *SYNONYMS.get(normalize(word), ())):
        if name in spelled:
            return spelled[name]
    close = get_close_matches(normalize(word), spelled, n=1)
    return spelled[close[0]] if close else ""


def nearest_file(path: Path) -> Path | None:
    """The file or folder beside a missing one whose name is most similar; an equal suffix does not count."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return None
    stems: dict[str, list[str]] = {}
    for name in names:
        stems.setdefault(Path(name).stem, []).append(name)
    similar = [name for stem in get_close_matches(path.stem, stems) for name in stems[stem]]
    best = max(similar, key=lambda name: SequenceMatcher(None, path.name, name).ratio(), default=None)
    return None if best is None else path.parent / best


def synonym_keys(path: KeyPath, keys: Mapping[KeyPath, bool], *, table: bool = False) -> list[KeyPath]:
    """The keys that an unknown key stands for: in its own table if there is one, else anywhere.

    ``keys`` has True for tables. A table stands for a table, a value for a value, if there is such a key.
    """
    *parent, last = path
    words = [normalize(str(last)), *SYNONYMS.get(normalize(str(last)), ())]
    for kinds in ({table}, {table, not table}):
        known = [key for key in keys if keys[key] in kinds and key != path]
        for options in ([key for key in known if key[:-1] == tuple(parent)], known):
            for word in words:
                ending = tuple(word.split("."))
                if matches := [key for key in options if key[-len(ending) :] == ending]:
                    return sorted(matches, key=lambda key: not _FIRST_TABLES.intersection(key))[:MAX_SUGGESTIONS]
    return []


def suggestions(path: KeyPath, keys: Mapping[KeyPath, bool], *, table: bool = False) -> list[KeyPath]:
    """The keys that an unknown key stands for, or else those closest in spelling: in its own table, then anywhere."""
    if matches := synonym_keys(path, keys, table=table):
        return matches
    here = [key for key in keys if key[:-1] == path[:-1]]
    for options, cutoff in ((here, 0.6), (keys, 0.8)):
        spelled = {normalize(str(key[-1])): key for key in options if key != path}
        if close := get_close_matches(normalize(str(path[-1])), spelled, n=1, cutoff=cutoff):
            return [spelled[close[0]]]
    return []


def belongs_to_its_table(path: KeyPath, keys: Mapping[KeyPath, bool]) -> bool:
    """Whether an unknown key is surely meant as one of its own table, whatever keys other tables have."""
    here = {key: table for key, table in keys.items() if key[:-1] == path[:-1]}
    if synonym_keys(path, here):
        return True
    word = normalize(str(path[-1]))
    return word not in SYNONYMS and bool(get_close_matches(word, [str(key[-1]) for key in here], cutoff=CLEAR))
