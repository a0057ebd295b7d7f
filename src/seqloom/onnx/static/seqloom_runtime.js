// Run models that `seqloom export` has written, with onnxruntime-web: the twin of seqloom_runtime.py.
//
//     import * as ort from "./onnxruntime-web/ort.wasm.min.mjs";
//     import { load } from "./seqloom_runtime.js";
//     const model = await load(ort, await (await fetch("model.json")).json());
//     const [answer] = await model.predict(["the clouds are in the sky"]);
//
// The answers are those of `seqloom predict --json`. Texts are split into the same tokens, and searches are the same.

const FORMAT = 1; // of a description; a larger one needs a newer runtime
const PADDING = 0, UNKNOWN = 1, BLANK = 0, END = "</s>";
const RESERVED = new Set(["<pad>", "<s>", "</s>"]); // unknown if they occur in a text

const EMPTY_INPUT = "the input is empty, so that this answer says nothing about it";

export class ModelError extends Error {}

// Models

export async function load(ort, description, { base = "." } = {}) {
  if (description.format > FORMAT) throw new ModelError(`The model is of format ${description.format}; this runtime reads formats up to ${FORMAT}.`);
  const open = (name) => ort.InferenceSession.create(`${base}/${name}`, { executionProviders: ["wasm"], logSeverityLevel: 3 });
  const sessions = {};
  for (const [part, name] of Object.entries(description.files)) sessions[part] = await open(name);
  const kind = { tokens: Translator, transcript: Transcriber }[description.output.kind];
  const Kind = kind ?? (description.task === "language_model" ? LanguageModel : Model);
  return new Kind(ort, description, sessions);
}

export class Model {
  constructor(ort, description, sessions) {
    this.ort = ort;
    this.description = description;
    this.sessions = sessions;
    this.task = description.task;
    this.read = READERS[description.input.kind]?.(description.input);
  }

  // An answer for each input, one after the other.
  async predict(inputs) {
    const answers = [];
    for (const item of inputs) {
      const answer = await this.answer(item), empty = typeof item === "string" && !item.trim() && this.task !== "language_model";
      answers.push(empty ? { ...answer, warning: EMPTY_INPUT } : answer);
    }
    return answers;
  }

  async answer(item) {
    const { feed, words } = this.read(item);
    const outputs = await this.run("model", feed);
    return ANSWERS[this.description.output.kind](this.description.output, outputs, this.length(feed), words ?? []);
  }

  // The number of elements of an input that get an answer.
  length(feed) {
    if (!feed.samples) return feed.lengths ? Number(feed.lengths.data[0]) : 0;
    const { window, hop } = this.description.input;
    return Math.floor((Number(feed.lengths.data[0]) - window) / hop) + 1;
  }

  // The outputs of a graph by name, for its inputs by name: { data, dims, type } each.
  async run(part, feed) {
    const tensors = {};
    for (const [name, { type, data, dims }] of Object.entries(feed)) tensors[name] = new this.ort.Tensor(type, data, dims);
    return this.sessions[part].run(tensors);
  }
}

const integers = (values, dims) => ({ type: "int64", data: BigInt64Array.from(values, (value) => BigInt(value)), dims });
const numbers = (values) => Array.from(values, Number);

export class LanguageModel extends Model {
  constructor(ort, description, sessions) {
    super(ort, description, sessions);
    this.tokenizer = new Tokenizer(description.input.tokenizer);
    this.end = description.output.end;
    this.states = description.output.states;
  }

  start() {
    const arrays = { float32: Float32Array, int64: BigInt64Array, bool: Uint8Array };
    return Object.fromEntries(this.states.map(({ input, dtype, shape }) => {
      const dims = [1, ...shape.map((size) => size ?? 0)];
      return [input, { type: dtype, dims, data: new arrays[dtype](dims.reduce((product, size) => product * size, 1)) }];
    }));
  }

  // Log-probabilities (T × V) of the token after each one, and the state after the last.
  async step(tokens, state) {
    const outputs = await this.run("model", { tokens: integers(tokens, [1, tokens.length]), lengths: integers([tokens.length], [1]), ...state });
    return [outputs.log_probabilities, Object.fromEntries(this.states.map(({ input, output }) => [input, outputs[output]]))];
  }

  async answer(item) {
    const tokens = [this.end, ...this.tokenizer.encode(item), this.end];
    const [scores] = await this.step(tokens.slice(0, -1), this.start());
    const size = scores.dims[2];
    const values = tokens.slice(1).map((token, index) => scores.data[index * size + token]);
    const total = values.reduce((sum, value) => sum + value, 0);
    return { log_probability: total, perplexity: Math.exp(Math.min(-total / Math.max(values.length, 1), 700)), log_probabilities: values };
  }

  // Sample a continuation of the prompt, and yield it as it grows: that of `seqloom generate`. lines: stop after
  // this many ends of a line; 0: only at the length.
  async *generate(prompt = "", { length = 300, lines = 1, temperature = 1, top_k = 0, top_p = 1, min_p = 0, seed = 1 } = {}) {
    const sampler = new Sampler({ temperature, top_k, top_p, min_p, seed });
    const earlier = prompt.split("\n").map((text) => this.tokenizer.encode(text));
    let line = earlier.pop();
    const context = [this.end, ...earlier.flatMap((tokens) => [...tokens, this.end]), ...line];
    let last = context.pop(), state = this.start(), scores;
    if (context.length) [, state] = await this.step(context, state);
    let printed = this.tokenizer.decode(line), ended = 0;
    for (let count = 0; count < length; count++) {
      [scores, state] = await this.step([last], state);
      const values = Float32Array.from(scores.data);
      values[PADDING] = -Infinity;
      last = sampler.choose(values);
      if (last === this.end) {
        yield this.tokenizer.decode(line).slice(printed.length) + "\n";
        line = []; printed = "";
        if (++ended === lines) return;
        continue;
      }
      line = [...line, last];
      const text = this.tokenizer.decode(line).replace(/\ufffd+$/u, ""); // an incomplete multi-byte character
      yield text.slice(printed.length);
      if (text.length > printed.length) printed = text;
    }
    yield this.tokenizer.decode(line).slice(printed.length);
  }
}

// A model with a decoder that generates tokens one by one.
class Generator extends Model {
  constructor(ort, description, sessions) {
    super(ort, description, sessions);
    this.tokenizer = new Tokenizer(description.output.tokenizer);
    this.search = description.output.search;
    const { guide } = description.output;
    this.guide = guide ? new Guide(guide, this.tokenizer.tokens.length) : null; // null: the search uses none
  }

  async greedyInGraph(feed) {
    const outputs = await this.run("model", feed);
    const limit = Number(outputs.limits.data[0]);
    return [greedyHypothesis(numbers(outputs.output.data), numbers(outputs.log_probabilities.data), limit, this.description.output.end)];
  }

  // The state before the first token, and the other outputs of the encoder.
  async encode(feed) {
    const outputs = await this.run("encoder", feed);
    return [Object.fromEntries(this.description.output.states.map(({ input, output }) => [input, outputs[output]])), outputs];
  }

  // The log-probabilities of the next tokens of each hypothesis, rows of V numbers, and the next state.
  async step(tokens, state) {
    const fields = this.description.output.states;
    const inputs = Object.fromEntries(fields.map(({ input }) => [input, state[input]]));
    const outputs = await this.run("step", { tokens: integers(tokens, [tokens.length]), ...inputs });
    const size = outputs.log_probabilities.dims[1];
    const scores = tokens.map((_, row) => Float64Array.from(outputs.log_probabilities.data.subarray(row * size, (row + 1) * size)));
    return [scores, Object.fromEntries(fields.map(({ input, output }) => [input, outputs[output]]))];
  }

  // The n-best hypotheses, with the scores of the guide.
  async find(step, state, limit) {
    const { end, suppress } = this.description.output;
    const guided = this.guide ? new GuidedStep(step, this.guide, end) : null;
    const next = guided ? (tokens, before) => guided.run(tokens, before) : step;
    const start = guided ? { ...state, guide: { rows: [null] } } : state;
    const beam = this.search.name === "greedy" ? null : new Beam(this.search, end, suppress, guided);
    const hypotheses = beam ? await beam.run(next, start, limit) : await greedy(next, start, limit, { end, suppress });
    return guided ? guided.judge(hypotheses, beam) : hypotheses;
  }
}

export class Translator extends Generator {
  async answer(item) {
    const { feed } = this.read(item), { allowed, end } = this.description.output;
    let hypotheses;
    if (this.search.name === "greedy" && !this.guide && !allowed) hypotheses = await this.greedyInGraph(feed);
    else {
      const [state, outputs] = await this.encode(feed), step = (tokens, before) => this.step(tokens, before);
      hypotheses = allowed
        ? await this.find(constrained(step, allowed, end), { ...state, allowed: { rows: [-1] } }, 1 + Math.max(...allowed.map((tokens) => tokens.length)))
        : await this.find(step, state, Number(outputs.limits.data[0]));
    }
    if (!hypotheses.length) throw new ModelError("The search found no output that its settings allow.");
    const nbest = hypotheses.map(({ tokens, score, logProbability, logProbabilities, model, language }) => ({
      text: this.tokenizer.decode(tokens), score, log_probability: logProbability,
      tokens: tokens.map((token) => this.tokenizer.readable(token)), log_probabilities: logProbabilities,
      ...(this.guide?.lm ? { model, language } : {}),
    }));
    const { text, score, tokens, log_probabilities } = nbest[0];
    return { text, score, tokens, log_probabilities, nbest };
  }
}

export class Transcriber extends Generator {
  async answer(item) {
    const { feed } = this.read(item);
    const output = this.description.output, name = this.search.name;
    if (name === "best_path" || name === "prefix_beam") {
      if (!output.ctc) throw new ModelError(`The search ${name} needs a model with CTC; this one has a decoder only.`);
      const frames = frameTable(await this.run("model", feed));
      return this.toAnswer(name === "best_path" ? bestPath(frames) : prefixBeam(frames, this.search, this.guide));
    }
    if (name === "greedy" && !output.ctc && !this.guide) return this.toAnswer(this.asTranscripts(await this.greedyInGraph(feed), null));
    if (!output.states) throw new ModelError(`The search ${name} needs a decoder; this model has CTC only.`);
    const [state, outputs] = await this.encode(feed);
    const limit = Number(outputs.limits.data[0]);
    if (!output.ctc) return this.toAnswer(this.asTranscripts(await this.find((tokens, before) => this.step(tokens, before), state, limit), null));
    const frames = frameTable(outputs), scorer = new PrefixScorer(frames, output.end), weight = output.ctc_weight;
    const step = async (tokens, before) => {
      const [scores, following] = await this.step(tokens, before);
      const prefixes = before.prefixes.rows.map((prefix, row) => scorer.extend(prefix, tokens[row]));
      const fused = scores.map((row, index) => {
        const byFrames = scorer.scores(prefixes[index]);
        return row.map((value, token) => (1 - weight) * value + weight * byFrames[token]);
      });
      return [fused, { ...following, prefixes: { rows: prefixes } }];
    };
    const hypotheses = await this.find(step, { ...state, prefixes: { rows: [null] } }, limit);
    return this.toAnswer(this.asTranscripts(hypotheses, frames));
  }

  // The hypotheses of a decoder, with the frames of their tokens on the best path of CTC.
  asTranscripts(hypotheses, table) {
    return hypotheses.map(({ tokens, score, logProbability, logProbabilities, words = [], tokenSpans = [], language = 0, model = logProbability }) => {
      const frames = table ? align(table, tokens) : [];
      const spans = frames.length ? tokenSpans.map(([first, last]) => [frames[first][0], frames[last][1]]) : [];
      return { tokens, score, acoustic: model, language, words, spans, frames, logProbabilities };
    });
  }

  toAnswer(transcripts) {
    if (!transcripts.length) return { text: "", score: -Infinity, acoustic: -Infinity, language: 0, tokens: [], times: [], words: [], word_times: [], nbest: [] };
    const nbest = transcripts.map((transcript) => ({
      text: this.text(transcript).trim(), score: transcript.score, acoustic: transcript.acoustic, language: transcript.language ?? 0,
      ...(transcript.logProbabilities ? { tokens: transcript.tokens.map((token) => this.tokenizer.readable(token)), log_probabilities: transcript.logProbabilities } : {}),
    }));
    const { tokens, frames } = transcripts[0], { text, score, acoustic, language } = nbest[0];
    const spans = this.lexicon ? transcripts[0].spans : frames.length ? this.wordGroups(tokens).map(([first, last]) => [frames[first][0], frames[last][1]]) : [];
    return {
      text, score, acoustic, language,
      tokens: tokens.map((token) => this.tokenizer.readable(token)), times: this.times(frames),
      words: this.words(transcripts[0]), word_times: this.times(spans), nbest,
    };
  }

  get lexicon() { return this.search.name === "best_path" ? null : this.guide?.lexicon ?? null; }

  text(transcript) {
    const byCharacters = this.tokenizer.unit === "characters";
    if (this.lexicon) return this.words(transcript).join(byCharacters && this.lexicon.separator === null ? "" : " ");
    return byCharacters ? this.tokenizer.decode(transcript.tokens) : this.words(transcript).filter(Boolean).join(" ");
  }

  words(transcript) {
    if (this.lexicon) return transcript.words.map((word) => this.lexicon.words[word]);
    return this.wordGroups(transcript.tokens).map(([first, last]) => strip(this.tokenizer.decode(transcript.tokens.slice(first, last + 1))));
  }

  // The first and the last token of each word.
  wordGroups(tokens) {
    const groups = [], unit = this.tokenizer.unit;
    let afterSpace = true;
    tokens.map((token) => this.tokenizer.tokens[token]).forEach((token, index) => {
      if (unit === "characters" && ONLY_SPACE.test(token)) { afterSpace = true; return; }
      if (afterSpace || unit === "words" || (unit === "subwords" && /^[Ġ▁]/u.test(token))) groups.push([index, index]);
      else groups.at(-1)[1] = index;
      afterSpace = false;
    });
    return groups;
  }

  times(spans) {
    const duration = this.description.output.frame_duration;
    const round = (value) => Math.round(value * 1e6) / 1e6;
    return spans.map(([first, last]) => [round(first * duration), round((last + 1) * duration)]);
  }
}

// Searches

const argmax = (values) => values.reduce((best, value, index) => (value > values[best] ? index : best), 0);
const logAdd = (left, right) => (left === -Infinity && right === -Infinity ? -Infinity : Math.max(left, right) + Math.log1p(Math.exp(-Math.abs(left - right))));
const sum = (values) => values.reduce((total, value) => total + value, 0);

function greedyHypothesis(tokens, values, limit, end) {
  const at = tokens.slice(0, limit).indexOf(end), ended = at >= 0, length = ended ? at : limit;
  const logProbabilities = values.slice(0, length + (ended ? 1 : 0)), total = sum(logProbabilities);
  return { tokens: tokens.slice(0, length), score: total, logProbability: total, logProbabilities, ended };
}

async function greedy(step, state, limit, { end, suppress }) {
  const tokens = [], values = [];
  let last = end, rows;
  while (tokens.length < limit) {
    [rows, state] = await step([last], state);
    for (const token of suppress) rows[0][token] = -Infinity;
    last = argmax(rows[0]);
    tokens.push(last);
    values.push(rows[0][last]);
    if (last === end) break;
    if (values.at(-1) === -Infinity) return []; // no token is possible
  }
  return [greedyHypothesis(tokens, values, limit, end)];
}

// The rows of a state, chosen and repeated.
function selectRows(state, rows) {
  return Object.fromEntries(Object.entries(state).map(([name, value]) => {
    if (value.rows) return [name, { rows: rows.map((row) => value.rows[row]) }];
    const width = value.dims.slice(1).reduce((product, size) => product * size, 1);
    const data = new value.data.constructor(rows.length * width);
    rows.forEach((row, place) => data.set(value.data.subarray(row * width, (row + 1) * width), place * width));
    return [name, { type: value.type, dims: [rows.length, ...value.dims.slice(1)], data }];
  }));
}

// A step of a decoder whose output has to be one of a list; the others have probability zero.
function constrained(step, outputs, end) {
  const children = [new Map(), new Map()]; // by token, of each node; 0 is the root, 1 leads nowhere
  for (const tokens of outputs) {
    let node = 0;
    for (const token of [...tokens, end]) {
      if (!children[node].has(token)) { children[node].set(token, children.length); children.push(new Map()); }
      node = children[node].get(token);
    }
  }
  return async (tokens, state) => {
    const [scores, following] = await step(tokens, state), nodes = state.allowed.rows.map((node, row) => (node < 0 ? 0 : children[node].get(tokens[row]) ?? 1));
    const rows = scores.map((values, row) => values.map((value, token) => (children[nodes[row]].has(token) ? value : -Infinity)));
    return [rows, { ...following, allowed: { rows: nodes } }];
  };
}

export class Beam {
  constructor(settings, end, suppress, guided = null) {
    this.settings = { size: 5, nbest: 1, length_penalty: "length", alpha: 1, min_length: 0, threshold: 0, no_repeat_ngram: 0, per_node: 0, patience: 0, groups: 1, coverage_penalty: 0, ...settings };
    if (this.settings.name !== "beam" || this.settings.groups > 1 || this.settings.coverage_penalty) throw new ModelError("Expected the search greedy, or beam without groups and coverage_penalty.");
    this.end = end;
    this.suppress = suppress;
    this.nbest = this.settings.nbest;
    this.gain = guided ? (tokens) => guided.gain(tokens) : () => 0;
    if (guided?.guide.rescores) this.settings.nbest = this.settings.size; // all are reordered afterwards
  }

  // The n-best hypotheses of one input.
  async run(step, state, limit) {
    const { size, per_node, threshold } = this.settings;
    const finished = [];
    let endedCount = 0, live = limit ? [{ tokens: [], values: [], total: 0 }] : [], rows;
    while (live.length) {
      [rows, state] = await step(live.map(({ tokens }) => tokens.at(-1) ?? this.end), state);
      const candidates = [];
      live.forEach(({ tokens, total }, index) => {
        const values = rows[index];
        for (const token of this.suppress) values[token] = -Infinity;
        this.forbid(values, tokens);
        const best = [...values.keys()].sort((a, b) => values[b] - values[a] || a - b).slice(0, Math.min(per_node || size, size));
        for (const token of best) if (values[token] > -Infinity) candidates.push({ total: total + values[token], index, token });
      });
      let kept = candidates.sort((a, b) => b.total - a.total).slice(0, size);
      if (threshold && kept.length) kept = kept.filter(({ total }) => total >= kept[0].total - threshold);
      const length = live[0].tokens.length + 1, going = [];
      for (const { total, index, token } of kept) {
        const isEnd = token === this.end;
        if (!isEnd && length < limit) { going.push({ total, index, token }); continue; }
        endedCount += isEnd ? 1 : 0;
        const cutoff = this.cutoff(finished), score = total / this.divisor(length);
        if ((isEnd || cutoff === -Infinity) && score > cutoff) {
          const { tokens, values } = live[index];
          this.add(finished, { tokens: isEnd ? tokens : [...tokens, token], score, logProbability: total, logProbabilities: [...values, rows[index][token]], ended: isEnd });
        }
      }
      if (!going.length) break;
      const bestCase = going[0].total + this.gain(limit - length); // divided by the longest output if it is negative
      if (this.isFinal(finished, endedCount, bestCase, bestCase > 0 ? length + 1 : limit)) break;
      state = selectRows(state, going.map(({ index }) => index));
      live = going.map(({ index, token, total }) => ({ tokens: [...live[index].tokens, token], values: [...live[index].values, rows[index][token]], total }));
    }
    return finished;
  }

  // Exclude the end before the minimum length, and tokens that would repeat an n-gram.
  forbid(values, tokens) {
    if (tokens.length < this.settings.min_length) values[this.end] = -Infinity;
    const order = this.settings.no_repeat_ngram;
    if (!order || tokens.length < order) return;
    const context = tokens.slice(tokens.length - order + 1);
    for (let place = 0; place <= tokens.length - order; place++) {
      if (context.every((token, index) => token === tokens[place + index])) values[tokens[place + order - 1]] = -Infinity;
    }
  }

  divisor(length) {
    const { length_penalty: kind, alpha } = this.settings;
    return kind === "none" ? 1 : (kind === "length" ? length : (5 + length) / 6) ** alpha;
  }

  cutoff(entries) {
    return entries.length === this.settings.nbest && entries.at(-1).ended ? entries.at(-1).score : -Infinity;
  }

  add(entries, hypothesis) {
    const same = (other) => other.ended === hypothesis.ended && String(other.tokens) === String(hypothesis.tokens);
    if (entries.some(same)) return;
    entries.push(hypothesis);
    entries.sort((a, b) => b.ended - a.ended || b.score - a.score);
    entries.length = Math.min(entries.length, this.settings.nbest);
  }

  isFinal(entries, ended, best, limit) {
    const { patience, size } = this.settings;
    return (patience && ended >= patience * size) || this.cutoff(entries) >= best / this.divisor(limit);
  }
}

// The log-probabilities of the real frames, rows of V numbers.
function frameTable(outputs) {
  const size = outputs.frame_log_probabilities.dims[2], count = Number(outputs.frame_counts.data[0]);
  return Array.from({ length: count }, (_, row) => Float64Array.from(outputs.frame_log_probabilities.data.subarray(row * size, (row + 1) * size)));
}

export function bestPath(frames) {
  const tokens = [], spans = [];
  let total = 0, last = BLANK;
  frames.forEach((row, frame) => {
    const token = argmax(row);
    total += row[token];
    if (token !== BLANK && token === last) spans.at(-1)[1] = frame;
    else if (token !== BLANK) { tokens.push(token); spans.push([frame, frame]); }
    last = token;
  });
  return total > -Infinity ? [{ tokens, score: total, acoustic: total, frames: spans }] : [];
}

// CTC prefix beam search: the probability of a prefix is summed over its paths (Hannun et al. 2014).
export function prefixBeam(table, settings, guide = null) {
  const { size = 64, per_node = 0, merge = "sum", token_threshold = 0, threshold = 0, nbest = 1, lag = 0 } = settings;
  if (lag) throw new ModelError("The option lag of prefix_beam is for streams.");
  const join = merge === "sum" ? logAdd : Math.max;
  const floor = token_threshold ? Math.log(token_threshold) : -Infinity;
  const frames = table.map((row) => {
    const best = argmax(row);
    return row.map((value, token) => (value >= floor || token === BLANK || token === best ? value : -Infinity));
  });
  if (guide?.lexicon) return new WordBeam(settings, guide).run(table, frames);
  const texts = new TextScores(guide?.inSearch, table[0]?.length ?? 0);
  let beam = [{ key: "", tokens: [], blank: 0, repeat: -Infinity, ...texts.start }];
  for (const frame of frames) {
    const places = new Map(beam.map((entry) => [entry.key, entry]));
    const staying = new Map(), extensions = [];
    for (const entry of beam) {
      const total = join(entry.blank, entry.repeat), last = entry.tokens.at(-1);
      staying.set(entry.key, { ...entry, blank: total + frame[BLANK], repeat: last === undefined ? -Infinity : entry.repeat + frame[last] });
    }
    for (const entry of beam) {
      const total = join(entry.blank, entry.repeat), last = entry.tokens.at(-1), own = [], gains = texts.gains(entry.state);
      for (let token = 1; token < frame.length; token++) {
        const value = (token === last ? entry.blank : total) + frame[token];
        if (value === -Infinity) continue;
        const key = `${entry.key},${token}`;
        if (places.has(key)) { const child = staying.get(key); child.repeat = join(child.repeat, value); } // reached from its parent, too
        else own.push({ key, parent: entry, token, blank: -Infinity, repeat: value, score: value + entry.text + gains[token] });
      }
      if (per_node && own.length > per_node) own.sort(byScore).length = per_node;
      extensions.push(...own);
    }
    const candidates = [...staying.values()].map((entry) => ({ ...entry, score: join(entry.blank, entry.repeat) + entry.text })).concat(extensions);
    const kept = candidates.filter(({ score }) => score > -Infinity).sort(byScore).slice(0, size);
    const lowest = threshold && kept.length ? kept[0].score - threshold : -Infinity;
    beam = kept.filter(({ score }) => score >= lowest).map(({ key, tokens, parent, token, blank, repeat, ...text }) => (
      tokens ? { key, tokens, blank, repeat, ...text } : { key, tokens: [...parent.tokens, token], blank, repeat, ...texts.extend(parent, token) }
    ));
  }
  const found = beam.map(({ tokens, blank, repeat, ...text }) => {
    const acoustic = join(blank, repeat), end = texts.end(text);
    return { tokens, acoustic, language: text.language + end, score: acoustic + text.text + weighted(guide?.weight ?? 0, end) };
  });
  return ranked(found, guide, nbest).map((each) => ({ ...each, frames: align(table, each.tokens) }));
}

// The n-best transcripts of a search over frames, scored by the language model if the guide rescores.
function ranked(found, guide, nbest) {
  const texts = new TextScores(guide, 0);
  const scored = !guide?.rescores ? found : found.map((each) => {
    const text = (each.words ?? each.tokens).reduce((before, next) => texts.extend(before, next), texts.start), end = texts.end(text);
    return { ...each, language: text.language + end, score: each.acoustic + text.text + weighted(guide.weight, end) };
  });
  return scored.filter(({ score }) => score > -Infinity).sort(byScore).slice(0, nbest);
}

// The first and the last frame of each token on the most probable path; empty if there are too few frames.
export function align(table, tokens) {
  const count = tokens.length;
  const needed = count + tokens.filter((token, index) => index && token === tokens[index - 1]).length;
  if (!count || needed > table.length) return [];
  let blanks = new Float64Array(count + 1).fill(-Infinity), onTokens = new Float64Array(count + 1).fill(-Infinity); // place 0 has no token
  blanks[0] = 0;
  const steps = [];
  for (const row of table) {
    const emitted = (token) => Math.max(-1e30, Number.isNaN(row[token]) ? -1e30 : row[token]);
    const nextBlanks = new Float64Array(count + 1), nextTokens = new Float64Array(count + 1).fill(-Infinity);
    const step = [new Uint8Array(count + 1), new Uint8Array(count + 1)];
    for (let place = 0; place <= count; place++) {
      step[0][place] = onTokens[place] > blanks[place] ? 1 : 0;
      nextBlanks[place] = Math.max(blanks[place], onTokens[place]) + emitted(BLANK);
      if (!place) continue;
      const canSkip = place > 1 && tokens[place - 1] !== tokens[place - 2];
      const stay = onTokens[place], enter = blanks[place - 1], jump = canSkip ? onTokens[place - 1] : -Infinity, best = Math.max(stay, enter);
      step[1][place] = jump > best ? 2 : enter > stay ? 1 : 0;
      nextTokens[place] = Math.max(best, jump) + emitted(tokens[place - 1]);
    }
    steps.push(step);
    blanks = nextBlanks;
    onTokens = nextTokens;
  }
  let place = count, onToken = onTokens[count] >= blanks[count];
  const spans = tokens.map(() => [0, -1]);
  for (let time = table.length - 1; time >= 0; time--) {
    const step = steps[time][onToken ? 1 : 0][place];
    if (onToken) {
      spans[place - 1] = [time, Math.max(spans[place - 1][1], time)];
      if (step) place--;
    }
    if (step === 1) onToken = !onToken;
  }
  return spans;
}

// log p(token | prefix, frames) by CTC (Watanabe et al. 2017).
class PrefixScorer {
  constructor(table, end) {
    this.table = table;
    this.end = end;
  }

  // The paths of a prefix over the first t frames that end in its last token, and in a blank; null: the empty prefix.
  extend(prefix, token) {
    const count = this.table.length, onTokens = new Float64Array(count + 1).fill(-Infinity), blanks = new Float64Array(count + 1).fill(-Infinity);
    if (prefix === null) {
      blanks[0] = 0;
      this.table.forEach((row, time) => { blanks[time + 1] = blanks[time] + row[BLANK]; });
      return { last: -1, onTokens, blanks, total: 0 };
    }
    let total = -Infinity;
    this.table.forEach((row, time) => {
      const arriving = token === prefix.last ? prefix.blanks[time] : logAdd(prefix.blanks[time], prefix.onTokens[time]);
      total = logAdd(total, arriving + row[token]);
      onTokens[time + 1] = logAdd(onTokens[time], arriving) + row[token];
      blanks[time + 1] = logAdd(blanks[time], onTokens[time]) + row[BLANK];
    });
    return { last: token, onTokens, blanks, total };
  }

  scores({ last, onTokens, blanks, total }) {
    const count = this.table.length, size = this.table[0]?.length ?? 0, scores = new Float64Array(size).fill(-Infinity);
    if (total === -Infinity) return scores;
    this.table.forEach((row, time) => {
      const arriving = logAdd(blanks[time], onTokens[time]);
      for (let token = 1; token < size; token++) scores[token] = logAdd(scores[token], (token === last ? blanks[time] : arriving) + row[token]);
    });
    scores[this.end] = logAdd(blanks[count], onTokens[count]);
    return scores.map((value, token) => (token === BLANK ? -Infinity : Math.min(value - total, 0)));
  }
}

// The guide of a search: a lexicon, an n-gram language model, and scores of words

// Little-endian numbers that are written as base64.
function unpack(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Kind(bytes.buffer);
}

const weighted = (weight, value) => (value > -Infinity ? weight * value : -Infinity);

// What a search knows besides the model: with a lexicon, the language model scores words; without one, tokens.
export class Guide {
  constructor({ lexicon, lm, weight, word_score, unk_score, rescore }, vocabulary) {
    this.lexicon = lexicon ? new Lexicon(lexicon) : null;
    this.lm = lm ? new NGram(lm) : null;
    this.weight = weight;
    this.rescores = rescore && lm !== null && weight > 0;
    this.vocabulary = vocabulary;
    const count = this.lexicon ? this.lexicon.words.length : vocabulary;
    const known = lm ? Array.from(unpack(lm.ids, Int32Array)) : new Array(count).fill(0);
    this.bonuses = known.map((id) => word_score + (id < 0 ? unk_score : 0)); // of each word, or token
    this.ids = known.map((id) => (id < 0 ? lm.unknown ?? -1 : id)); // in the language model; -1: impossible
  }

  // What a search over frames uses: if the guide rescores, the lexicon only.
  get inSearch() {
    if (!this.rescores) return this;
    const zeros = this.bonuses.map(() => 0);
    return Object.assign(Object.create(Guide.prototype), this, { lm: null, bonuses: zeros, ids: zeros });
  }
}

// A back-off n-gram model. Its states are contexts: 0 the empty one, 1 + w the word w, then longer ones.
class NGram {
  constructor({ start, end, words, first, backoff_states, log_probs, log_backoffs }) {
    Object.assign(this, { start, end });
    this.words = unpack(words, Int32Array); // the last word of each n-gram
    this.first = Float64Array.from(unpack(first, BigInt64Array), Number); // the first n-gram that extends each context
    this.backoffStates = unpack(backoff_states, Int32Array); // without the first word
    this.logProbs = unpack(log_probs, Float32Array);
    this.logBackoffs = unpack(log_backoffs, Float32Array); // of contexts only
  }

  // log p(word | state), and the next state.
  score(state, word) {
    if (word < 0) return [-Infinity, 0];
    let backoff = 0, ngram;
    while ((ngram = this.find(state, word)) < 0) {
      backoff += this.logBackoffs[state];
      state = this.backoffStates[state];
    }
    return [backoff + this.logProbs[ngram], ngram < this.logBackoffs.length ? ngram : this.backoffStates[ngram]];
  }

  find(state, word) {
    if (state === 0) return 1 + word;
    let low = this.first[state], high = this.first[state + 1];
    const end = high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.words[middle] < word) low = middle + 1;
      else high = middle;
    }
    return low < end && this.words[low] === word ? low : -1;
  }

  // log p of every word after a state.
  following(state) {
    const contexts = [];
    for (; state; state = this.backoffStates[state]) contexts.push(state);
    const scores = Float64Array.from(this.logProbs.subarray(1, this.first[1]));
    for (const context of contexts.reverse()) {
      scores.forEach((value, word) => { scores[word] = value + this.logBackoffs[context]; });
      for (let ngram = this.first[context]; ngram < this.first[context + 1]; ngram++) scores[this.words[ngram]] = this.logProbs[ngram];
    }
    return scores;
  }
}

// The words of a search as a prefix tree of their spellings. Nodes are numbered level by level; 0 is the root.
class Lexicon {
  constructor({ words, separator, tokens, parents, first, words_at, words_first }) {
    Object.assign(this, { words, separator });
    [this.tokens, this.parents, this.first, this.wordsAt, this.wordsFirst] = [tokens, parents, first, words_at, words_first].map((text) => unpack(text, Int32Array));
    this.leaves = words.map(() => []); // where each word is complete
    this.tokens.forEach((_, node) => this.complete(node).forEach((word) => this.leaves[word].push(node)));
    this.hasVariants = this.leaves.map((nodes) => nodes.length > 1);
    this.anyVariants = this.hasVariants.some(Boolean);
  }

  children(node) { return Array.from({ length: this.first[node + 1] - this.first[node] }, (_, index) => this.first[node] + index); }

  complete(node) { return this.wordsAt.subarray(this.wordsFirst[node], this.wordsFirst[node + 1]); }

  // The tokens that lead to a node.
  path(node) {
    const tokens = [];
    for (; node > 0; node = this.parents[node]) tokens.push(this.tokens[node]);
    return tokens.reverse();
  }

  // The best score of the words below each node.
  lookahead(scores) {
    const best = new Float64Array(this.tokens.length).fill(-Infinity);
    best.forEach((_, node) => this.complete(node).forEach((word) => { best[node] = Math.max(best[node], scores[word]); }));
    for (let node = best.length - 1; node > 0; node--) best[this.parents[node]] = Math.max(best[this.parents[node]], best[node]);
    return best;
  }
}

const NEGLIGIBLE = 12; // log-probability: paths this far below the worst survivor are not added
const DEMOTION = 1e9; // subtracted from the score of a dominated hypothesis
const MIN_CANDIDATES = 256;
const byScore = (a, b) => b.score - a.score;

// CTC prefix beam search for words of a lexicon. A hypothesis is a history of words, a node of the lexicon and its last token.
class WordBeam {
  constructor(settings, guide) {
    this.whole = guide; // with the language model that rescores
    guide = guide.inSearch;
    Object.assign(this, { guide, lexicon: guide.lexicon, settings: { size: 64, per_node: 0, histories: 0, merge: "sum", threshold: 0, nbest: 1, ...settings } });
    this.join = this.settings.merge === "sum" ? logAdd : Math.max;
    const unigram = (word) => (guide.lm ? (guide.ids[word] < 0 ? -Infinity : weighted(guide.weight, guide.lm.logProbs[1 + guide.ids[word]])) : 0);
    this.lookahead = this.lexicon.lookahead(guide.bonuses.map((bonus, word) => bonus + unigram(word)));
    this.gain = this.lookahead[0] + guide.bonuses.reduce((best, bonus) => Math.max(best, bonus), 0); // the most that one more token can add
  }

  run(table, frames) {
    this.histories = [{ before: -1, word: -1, state: this.guide.lm?.start ?? 0, language: 0, score: 0 }];
    this.nextHistory = new Map();
    let beam = new Map([["0,0,-1", { history: 0, node: 0, last: -1, blank: 0, token: -Infinity }]]);
    for (const frame of frames) beam = this.advance(beam, frame);
    return this.transcripts(beam, table);
  }

  rank({ history, node, blank, token }) { return this.join(blank, token) + this.histories[history].score + this.lookahead[node]; }

  language(history, word) { return this.guide.lm ? this.guide.lm.score(this.histories[history].state, this.guide.ids[word]) : [0, 0]; }

  advance(beam, frame) {
    const { join, lexicon, lookahead, histories, guide } = this, { size, per_node, histories: limit } = this.settings;
    const staying = new Map();
    for (const [key, each] of beam) {
      each.total = join(each.blank, each.token);
      staying.set(key, { ...each, blank: each.total + frame[BLANK], token: each.last >= 0 ? each.token + frame[each.last] : -Infinity });
    }
    // Every hypothesis may stay, so that a full beam needs no other with a lower score.
    const bound = beam.size === size && !limit ? Math.min(...[...staying.values()].map((each) => this.rank(each))) : -Infinity;
    const lowest = lexicon.anyVariants ? bound - NEGLIGIBLE : bound;
    const best = frame.reduce((largest, value, token) => (token === BLANK ? largest : Math.max(largest, value)), -Infinity);
    let candidates = new Map();
    for (const { history, node, last, blank, total } of beam.values()) {
      const { score, word: before, state } = histories[history], own = [];
      if (total + best + score + this.gain <= bound - NEGLIGIBLE) continue;
      const least = node === 0 && history > 0 && lexicon.hasVariants[before] ? lowest : bound;
      for (let child = lexicon.first[node]; child < lexicon.first[node + 1]; child++) {
        const token = lexicon.tokens[child], paths = (token === last ? blank : total) + frame[token];
        if (!(paths + score + this.gain > bound - NEGLIGIBLE)) continue;
        if (lexicon.first[child] < lexicon.first[child + 1]) {
          const reached = staying.get(`${history},${child},${token}`), value = paths + score + lookahead[child];
          if (reached) reached.token = join(reached.token, paths);
          else if (value > least) own.push({ key: `${history},${child},${token},-1`, history, node: child, last: token, word: -1, score: value, paths, state });
        }
        for (const word of lexicon.complete(child)) {
          const reached = staying.get(`${this.nextHistory.get(`${history},${word}`) ?? -1},0,${token}`);
          if (reached) { reached.token = join(reached.token, paths); continue; }
          const [language, after] = this.language(history, word);
          const value = paths + score + guide.bonuses[word] + lookahead[0] + guide.weight * language;
          if (value > least || (value > lowest && lexicon.hasVariants[word])) own.push({ key: `${history},0,${token},${word}`, history, node: 0, last: token, word, score: value, paths, state: after });
        }
      }
      if (per_node && own.length > per_node) own.sort(byScore).length = per_node;
      for (const each of own) { // equal ones differ in how a word was spelled
        const other = candidates.get(each.key), together = other ? join(other.paths, each.paths) : each.paths;
        candidates.set(each.key, { ...each, score: together + (each.score - each.paths), paths: together });
      }
      if (candidates.size > Math.max(4 * size, MIN_CANDIDATES) - size) candidates = new Map([...candidates].sort(([, a], [, b]) => byScore(a, b)).slice(0, size));
    }
    return this.select(staying, candidates);
  }

  // The next beam.
  select(staying, candidates) {
    const { size, histories: limit, threshold, nbest } = this.settings;
    let entries = [...candidates.values()].map((each) => ({ ...each, blank: -Infinity, token: each.paths }));
    for (const each of staying.values()) entries.push({ ...each, word: -1, score: this.rank(each), state: this.histories[each.history].state });
    if (limit) { // of hypotheses with different words at one node
      const counts = new Map();
      for (const each of [...entries].sort(byScore)) {
        counts.set(each.node, (counts.get(each.node) ?? 0) + 1);
        if (counts.get(each.node) > limit) each.score = -Infinity;
      }
    }
    if (entries.length > size) {
      if (nbest === 1 && !this.whole.rescores) { // others with the same future can never overtake the best of them
        const leaders = new Map();
        for (const each of entries) {
          const future = `${each.state},${each.node},${each.last}`, leader = leaders.get(future);
          const [better, worse] = !leader ? [each, null] : each.score > leader.score ? [each, leader] : [leader, each];
          if (worse) worse.score -= DEMOTION;
          leaders.set(future, better);
        }
      }
      entries = entries.sort(byScore).slice(0, size);
    }
    const least = entries.reduce((largest, { score }) => Math.max(largest, score), -Infinity) - (threshold || Infinity);
    const beam = new Map();
    for (const { score, history, node, last, word, blank, token } of entries) {
      if (!(score >= least) || score === -Infinity) continue;
      const after = word < 0 ? history : this.append(history, word);
      beam.set(`${after},${node},${last}`, { history: after, node, last, blank, token });
    }
    return beam;
  }

  // The history after one more word.
  append(history, word) {
    const key = `${history},${word}`;
    if (!this.nextHistory.has(key)) {
      const [language, state] = this.language(history, word), before = this.histories[history];
      this.nextHistory.set(key, this.histories.length);
      this.histories.push({ before: history, word, state, language: before.language + language, score: before.score + this.guide.weight * language + this.guide.bonuses[word] });
    }
    return this.nextHistory.get(key);
  }

  // The n-best, as if the last separator had been read; those with the same words are one.
  transcripts(beam, table) {
    const { lexicon, guide: { lm, weight, bonuses } } = this, ends = new Map();
    for (const { history, node, blank, token } of beam.values()) {
      const { before, word: last, state, language, score } = this.histories[history];
      const complete = node ? lexicon.children(node).filter((child) => lexicon.tokens[child] === lexicon.separator).flatMap((child) => Array.from(lexicon.complete(child), (word) => [history, word])) : [[before, last]];
      for (const [earlier, word] of complete) {
        let added = 0, after = state, bonus = 0;
        if (node) { [added, after] = this.language(earlier, word); bonus = bonuses[word]; }
        if (lm && added > -Infinity) added += lm.score(after, lm.end)[0];
        const total = score + bonus + weighted(weight, added), key = `${earlier},${word}`;
        if (!(total > -Infinity)) continue;
        if (!ends.has(key)) ends.set(key, { earlier, word, group: [] });
        ends.get(key).group.push({ paths: this.join(blank, token), total, language: language + added });
      }
    }
    const found = [...ends.values()].map(({ earlier, word, group }) => {
      const best = group.reduce((left, right) => (right.paths > left.paths ? right : left)), acoustic = group.map(({ paths }) => paths).reduce((left, right) => this.join(left, right));
      return { score: acoustic + best.total, acoustic, language: best.language, words: [...this.words(earlier), ...(word >= 0 ? [word] : [])] };
    });
    return ranked(found, this.whole, this.settings.nbest).map((each) => {
      const spellings = each.words.map((word) => lexicon.leaves[word].map((node) => lexicon.path(node)));
      const { tokens, frames, bounds } = alignWords(table, spellings, lexicon.separator !== null);
      const spans = each.words.map((_, index) => {
        const last = bounds[index + 1] - 1 - (tokens[bounds[index + 1] - 1] === lexicon.separator ? 1 : 0);
        return [frames[bounds[index]][0], frames[last][1]];
      });
      return { ...each, tokens, frames, spans };
    });
  }

  words(history) {
    const words = [];
    for (; history > 0; history = this.histories[history].before) words.push(this.histories[history].word);
    return words.reverse();
  }
}

// The most probable path through words with one or several spellings: its tokens, their frames, and the first token of each word.
function alignWords(table, spellings, optionalEnd) {
  const tokens = [], sources = [], numbers = [];
  let ends = [-1];
  spellings.forEach((variants, number) => {
    const last = ends;
    ends = [];
    for (const spelling of variants) {
      spelling.forEach((token, index) => { sources.push(index ? [tokens.length - 1] : last); tokens.push(token); numbers.push(number); });
      ends.push(tokens.length - 1);
    }
  });
  const count = tokens.length;
  if (!count) return { tokens: [], frames: [], bounds: [0] };
  if (optionalEnd) ends = [...ends, ...ends.map((end) => end - 1)];
  let blanks = new Float64Array(count + 1).fill(-Infinity), onTokens = new Float64Array(count + 1).fill(-Infinity); // place 0 is the start
  blanks[0] = 0;
  const steps = [];
  for (const row of table) {
    const emitted = (token) => Math.max(-1e30, Number.isNaN(row[token]) ? -1e30 : row[token]);
    const nextBlanks = new Float64Array(count + 1), nextTokens = new Float64Array(count + 1).fill(-Infinity), step = { blank: [], token: [null] };
    for (let place = 0; place <= count; place++) {
      step.blank.push(onTokens[place] > blanks[place]);
      nextBlanks[place] = Math.max(blanks[place], onTokens[place]) + emitted(BLANK);
      if (!place) continue;
      let best = onTokens[place], from = null; // stays
      for (const source of sources[place - 1]) {
        if (blanks[source + 1] > best) { best = blanks[source + 1]; from = { place: source + 1, onToken: false }; }
        if (source >= 0 && tokens[source] !== tokens[place - 1] && onTokens[source + 1] > best) { best = onTokens[source + 1]; from = { place: source + 1, onToken: true }; }
      }
      step.token.push(from);
      nextTokens[place] = best + emitted(tokens[place - 1]);
    }
    steps.push(step);
    blanks = nextBlanks;
    onTokens = nextTokens;
  }
  const finals = [...ends.map((end) => ({ place: end + 1, onToken: true, score: onTokens[end + 1] })), ...ends.map((end) => ({ place: end + 1, onToken: false, score: blanks[end + 1] }))];
  let { place, onToken } = finals.reduce((best, each) => (each.score > best.score ? each : best));
  const spans = new Map();
  for (let time = table.length - 1; time >= 0; time--) {
    if (!onToken) { onToken = steps[time].blank[place]; continue; }
    spans.set(place - 1, [time, spans.get(place - 1)?.[1] ?? time]);
    const from = steps[time].token[place];
    if (from) ({ place, onToken } = from);
  }
  const visited = [...spans.keys()].sort((a, b) => a - b);
  return {
    tokens: visited.map((token) => tokens[token]), frames: visited.map((token) => spans.get(token)),
    bounds: Array.from({ length: spellings.length + 1 }, (_, number) => visited.filter((token) => numbers[token] < number).length),
  };
}

// Reads tokens as words of a lexicon, scored by a language model of words. A reading has a node (-1: the root after a
// separator, where another word has to follow), a state of the language model, and its complete words.
class LexiconReader {
  constructor(guide, withScores) {
    this.lexicon = guide.lexicon;
    this.lm = withScores && guide.weight ? guide.lm : null;
    this.weight = guide.weight;
    this.ids = guide.ids;
    this.bonuses = withScores ? guide.bonuses : guide.bonuses.map(() => 0);
    this.start = new Map([["start", { node: 0, state: this.lm?.start ?? 0, score: 0, language: 0, words: [] }]]);
    this.shortest = this.lexicon.path(this.lexicon.tokens.findIndex((_, node) => this.lexicon.complete(node).length)).length;
    this.largest = this.bonuses.reduce((best, bonus) => Math.max(best, bonus), 0);
  }

  // The readings after each token that may follow.
  extend(readings) {
    const { lexicon } = this, following = new Map(), root = lexicon.separator === null ? 0 : -1;
    const keep = (token, reading) => {
      const options = following.get(token) ?? following.set(token, new Map()).get(token), key = `${reading.node},${reading.state}`;
      if (!options.has(key) || options.get(key).score < reading.score) options.set(key, reading);
    };
    for (const reading of readings.values()) {
      for (const child of lexicon.children(Math.max(reading.node, 0))) {
        const token = lexicon.tokens[child];
        if (lexicon.first[child] < lexicon.first[child + 1]) keep(token, { ...reading, node: child });
        for (const whole of this.complete(child, reading)) keep(token, { ...whole, node: root });
      }
    }
    return following;
  }

  // The best reading if the text ends here; null: it cannot.
  end(readings) {
    const { lexicon } = this, ends = [];
    for (const reading of readings.values()) {
      if (reading.node === 0) ends.push(this.ended(reading));
      else if (lexicon.separator !== null && reading.node > 0) { // a word may also be complete before the end
        for (const child of lexicon.children(reading.node)) if (lexicon.tokens[child] === lexicon.separator) ends.push(...this.complete(child, reading).map((whole) => this.ended(whole)));
      }
    }
    return ends.filter(({ score }) => score > -Infinity).reduce((best, each) => (best === null || each.score > best.score ? each : best), null);
  }

  // The best words of a whole text; null if it does not consist of words.
  read(tokens) {
    let readings = this.start;
    for (const token of tokens) readings = this.extend(readings).get(token) ?? new Map();
    return this.end(readings);
  }

  // The first and the last token of each word, without the separator.
  spans({ words }) {
    let first = 0;
    return words.map(({ node }) => {
      const start = first;
      first += this.lexicon.path(node).length;
      return [start, first - 1 - (this.lexicon.separator === null ? 0 : 1)];
    });
  }

  gain(tokens) { return (tokens > 0 ? 1 + Math.floor((tokens - 1) / this.shortest) : 0) * this.largest; }

  complete(node, reading) {
    return Array.from(this.lexicon.complete(node)).flatMap((word) => {
      const [language, state] = this.lm ? this.lm.score(reading.state, this.ids[word]) : [0, 0];
      if (language === -Infinity) return [];
      return [{ node, state, score: reading.score + this.weight * language + this.bonuses[word], language: reading.language + language, words: [...reading.words, { word, node }] }];
    });
  }

  ended(reading) {
    const language = this.lm ? this.lm.score(reading.state, this.lm.end)[0] : 0;
    return { ...reading, score: reading.score + this.weight * language, language: reading.language + language };
  }
}

// The step of a decoder with the scores of a guide added (shallow fusion).
class GuidedStep {
  constructor(step, guide, end) {
    Object.assign(this, { step, guide, end });
    this.reader = guide.lexicon ? new LexiconReader(guide, !guide.rescores) : null;
    this.bonuses = guide.bonuses.map((bonus, token) => (!guide.lexicon && token === end ? 0 : bonus));
    this.ids = guide.ids.map((id, token) => (guide.lm && !guide.lexicon && token === end ? guide.lm.end : id));
    this.largest = this.bonuses.reduce((best, bonus) => Math.max(best, bonus), 0);
  }

  async run(tokens, { guide: places, ...state }) {
    const [scores, following] = await this.step(tokens, state);
    const after = tokens.map((token, row) => {
      if (!this.reader && this.guide.rescores) return null;
      const [added, place] = this.reader ? this.words(token, places.rows[row]) : this.tokens(token, places.rows[row]);
      scores[row] = scores[row].map((value, index) => value + added[index]);
      return place;
    });
    return [scores, { ...following, guide: { rows: after } }];
  }

  tokens(token, place) {
    const lm = this.guide.weight ? this.guide.lm : null;
    if (!lm) return [this.bonuses, {}];
    const state = place === null || token === this.end ? lm.start : lm.score(place.state, Math.max(this.ids[token], 0))[1], following = lm.following(state);
    return [this.ids.map((id, index) => (id < 0 ? -Infinity : weighted(this.guide.weight, following[id]) + this.bonuses[index])), { state }];
  }

  words(token, place) {
    const readings = place === null ? this.reader.start : place.following.get(token), scores = new Float64Array(this.guide.vocabulary).fill(-Infinity);
    if (!readings?.size) return [scores, { following: new Map() }];
    const best = Math.max(...[...readings.values()].map(({ score }) => score));
    const relative = new Map([...readings].map(([key, reading]) => [key, { ...reading, score: reading.score - best }]));
    const following = this.reader.extend(relative);
    for (const [option, after] of following) scores[option] = Math.max(...[...after.values()].map(({ score }) => score));
    scores[this.end] = this.reader.end(relative)?.score ?? -Infinity;
    return [scores, { following }];
  }

  gain(tokens) { return this.reader ? this.reader.gain(tokens) : this.guide.rescores ? 0 : this.largest * Math.max(tokens, 0); }

  // The hypotheses with the scores of the guide; if it rescores, in their new order.
  judge(hypotheses, beam) {
    const { guide } = this, reader = guide.lexicon ? new LexiconReader(guide, true) : null, rows = [];
    for (const hypothesis of hypotheses) {
      let judged = { ...hypothesis, words: [], spans: [] };
      if (reader) {
        let length = judged.tokens.length;
        while (length && !judged.ended && reader.read(judged.tokens.slice(0, length)) === null) length--; // the maximum length cuts a word
        if (length < judged.tokens.length) judged = { ...judged, tokens: judged.tokens.slice(0, length), logProbabilities: judged.logProbabilities.slice(0, length) };
        const reading = reader.read(judged.tokens);
        if (reading === null) continue;
        const words = reading.words.map(({ word }) => word);
        judged = { ...judged, words, tokenSpans: reader.spans(reading), language: reading.language, bonus: sum(words.map((word) => guide.bonuses[word])) };
      } else judged = { ...judged, tokenSpans: [], language: this.logProbability(judged), bonus: sum(judged.tokens.map((token) => this.bonuses[token])) };
      const added = guide.weight * judged.language + judged.bonus;
      if (guide.rescores && beam) judged.score += added / beam.divisor(judged.logProbabilities.length);
      rows.push({ ...judged, model: judged.logProbability - (guide.rescores ? 0 : added) });
    }
    if (guide.rescores) rows.sort((a, b) => b.ended - a.ended || b.score - a.score);
    return beam ? rows.slice(0, beam.nbest) : rows;
  }

  logProbability({ tokens, ended }) {
    const lm = this.guide.weight ? this.guide.lm : null;
    if (!lm) return 0;
    let state = lm.start, total = 0, value;
    for (const token of ended ? [...tokens, this.end] : tokens) {
      [value, state] = lm.score(state, this.ids[token]);
      total += value;
    }
    return total;
  }
}

// Scores of prefixes of tokens in a search over frames: by the language model and the scores of tokens.
class TextScores {
  constructor(guide, vocabulary) {
    this.guide = guide;
    this.bonuses = guide ? guide.bonuses : new Array(vocabulary).fill(0);
    this.after = new Map();
    this.start = { state: guide?.lm?.start ?? 0, text: 0, language: 0 };
  }

  // What each token adds to a score after a state of the language model.
  gains(state) {
    if (!this.guide?.lm) return this.bonuses;
    if (!this.after.has(state)) {
      const { ids, lm, weight } = this.guide, following = lm.following(state);
      this.after.set(state, ids.map((id, token) => (id < 0 ? -Infinity : weighted(weight, following[id]) + this.bonuses[token])));
    }
    return this.after.get(state);
  }

  extend({ state, text, language }, token) {
    if (!this.guide?.lm) return { state, text: text + this.bonuses[token], language };
    const [value, after] = this.guide.lm.score(state, this.guide.ids[token]);
    return { state: after, text: text + this.bonuses[token] + this.guide.weight * value, language: language + value };
  }

  // The log-probability of the end.
  end({ state }) { return this.guide?.lm ? this.guide.lm.score(state, this.guide.lm.end)[0] : 0; }
}

// Draws a token: temperature first, then top-k, top-p and min-p; random numbers are those of torch and NumPy.
export class Sampler {
  constructor({ temperature, top_k, top_p, min_p, seed }) {
    if (!(temperature >= 0 && top_k >= 0 && top_p > 0 && top_p <= 1 && min_p >= 0 && min_p <= 1)) throw new ModelError("Expected temperature ≥ 0, top_k ≥ 0, 0 < top_p ≤ 1 and 0 ≤ min_p ≤ 1.");
    Object.assign(this, { temperature, top_k, top_p, min_p });
    this.state = new Uint32Array(624);
    this.state[0] = seed >>> 0;
    for (let i = 1; i < 624; i++) {
      const previous = this.state[i - 1] ^ (this.state[i - 1] >>> 30);
      this.state[i] = Math.imul(1812433253, previous) + i;
    }
    this.position = 624;
  }

  next() { // MT19937
    const state = this.state;
    if (this.position === 624) {
      for (let i = 0; i < 624; i++) {
        const y = (state[i] & 0x80000000) | (state[(i + 1) % 624] & 0x7fffffff);
        state[i] = state[(i + 397) % 624] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
      }
      this.position = 0;
    }
    let y = state[this.position++];
    y ^= y >>> 11; y ^= (y << 7) & 0x9d2c5680; y ^= (y << 15) & 0xefc60000; y ^= y >>> 18;
    return y >>> 0;
  }

  uniform() {
    const high = this.next(), low = this.next();
    return ((high & 0x1fffff) * 4294967296 + low) * 2 ** -53;
  }

  choose(scores) {
    const best = argmax(scores), largest = scores[best];
    if (!Number.isFinite(largest)) throw new ModelError("Cannot sample: no token has a positive probability.");
    if (this.temperature === 0) return best;
    const temperature = Math.fround(this.temperature);
    const weights = Array.from(scores, (value) => Math.fround(Math.exp(this.temperature === 1 ? Math.fround(value - largest) : Math.fround(Math.fround(value - largest) / temperature))));
    let tokens = [...weights.keys()], chosen = weights;
    if (this.top_k || this.top_p < 1) {
      tokens.sort((a, b) => weights[b] - weights[a] || a - b);
      const mass = this.top_p * sum(weights);
      if (this.top_k) tokens = tokens.slice(0, this.top_k);
      let before = 0;
      chosen = tokens.map((token, index) => {
        const keep = index === 0 || (weights[token] >= this.min_p && before < mass);
        before += weights[token];
        return keep ? weights[token] : 0;
      });
    } else if (this.min_p) chosen = weights.map((value) => (value < this.min_p ? 0 : value));
    let total = 0;
    const cumulative = chosen.map((value) => (total += value));
    const target = total * (this.uniform() * (1 - 1e-12));
    return tokens[cumulative.findIndex((value) => value > target)];
  }
}

// Inputs: from one input to the arrays of a batch of one, and its words

function requireText(item) {
  if (typeof item !== "string") throw new ModelError(`Expected a text, found ${typeof item}.`);
  return item;
}

function checkVectors(item, size, single = false) {
  let rows = item;
  if (rows.length && !Array.isArray(rows[0]) && (single || size === 1)) rows = single ? [rows] : rows.map((value) => [value]);
  if (!rows.length || rows.some((row) => row.length !== size)) throw new ModelError(`Expected rows of ${size} ${size === 1 ? "number" : "numbers"}, found ${rows.length ? `one of ${rows.find((row) => row.length !== size)?.length}` : "none"}.`);
  if (rows.flat().some((value) => !Number.isFinite(value))) throw new ModelError("An input contains something that is not a number.");
  return rows;
}

const vectorFeed = (rows, size) => ({ values: { type: "float64", data: Float64Array.from(rows.flat()), dims: [1, rows.length, size] }, lengths: integers([rows.length], [1]) });

// Rows of ids as an array, filled with padding.
function padded(rows) {
  const longest = Math.max(1, ...rows.map((row) => row.length));
  return integers(rows.flatMap((row) => [...row, ...Array(longest - row.length).fill(PADDING)]), [rows.length, longest]);
}

// Words as the ids of their characters, of a long word those of its start and its end; special tokens have a character of their own.
function speller(characters, longest, specials = []) {
  const ids = new Map(characters.map((token, index) => [token, index])), letters = new Map([...ids].filter(([token]) => [...token].length === 1)), own = new Set(specials), half = Math.floor(longest / 2);
  const spell = (word) => {
    let row = own.has(word) ? [ids.get(word) ?? UNKNOWN] : [...word].map((letter) => letters.get(letter) ?? UNKNOWN);
    if (row.length > longest) row = [...row.slice(0, half), ...row.slice(row.length - (longest - half))];
    return [...row, ...Array(longest - row.length).fill(PADDING)];
  };
  return (rows) => {
    const most = Math.max(1, ...rows.map((row) => row.length)), empty = Array(longest).fill(PADDING);
    return integers(rows.flatMap((row) => [...row.map(spell), ...Array(most - row.length).fill(empty)]).flat(), [rows.length, most, longest]);
  };
}

// What a model with pretrained vectors reads besides its own tokens: a function from rows of words, as they are written, to inputs of the graph.
function pretrainedVectors({ pretrained = null }) {
  const { language = null, words = [] } = pretrained ?? {}, tables = words.map((tokens) => new Map(tokens.map((token, index) => [token, index])));
  const tokenizer = language && new Tokenizer(language.tokenizer), lower = tokenizer?.lowercase && tokenizer.unit !== "subwords";
  const spell = language?.characters ? speller(language.characters, language.max_characters, ["<unk>", ...tokenizer.specials]) : null;
  return (rows, { end = false, reverse = false } = {}) => {
    const feed = {};
    if (spell) feed.context = spell(rows.map((row) => [END, ...row]));
    else if (tokenizer) feed.context = padded(rows.map((row) => [tokenizer.tokens.indexOf(END), ...tokenizer.lookUp(lower ? row.map((word) => word.toLowerCase()) : row)]));
    const ordered = rows.map((row) => [...(reverse ? [...row].reverse() : row), ...(end ? [END] : [])]);
    tables.forEach((ids, number) => { feed[`vector_words_${number}`] = padded(ordered.map((row) => row.map((word) => ids.get(word) || (ids.get(word.toLowerCase()) ?? UNKNOWN)))); });
    return feed;
  };
}

// Texts as the ids of their tokens, with those of pretrained vectors.
function textReader(description) {
  const tokenizer = new Tokenizer(description.tokenizer), pretrained = pretrainedVectors(description);
  return (texts, { end = null, reverse = false } = {}) => {
    const rows = texts.map((text) => { const ids = tokenizer.encode(text); return [...(reverse ? ids.reverse() : ids), ...(end === null ? [] : [end])]; });
    const further = pretrained(texts.map((text) => tokenizer.casedTokens(text)), { end: end !== null, reverse });
    return { feed: { tokens: padded(rows), lengths: integers(rows.map((row) => row.length), [rows.length]), ...further } };
  };
}

const READERS = {
  text: (description) => {
    const read = textReader(description);
    return (item) => read([requireText(item)]);
  },
  text_pair: (description) => {
    const read = textReader(description);
    return (item) => {
      const texts = (typeof item === "string" ? item.split(/\t|\|\|\|/) : item.map(requireText)).map((text) => text.replaceAll("\t", " ").trim());
      if (texts.length !== 2) throw new ModelError(`Expected two texts with a tab or ||| between them, found ${texts.length}.`);
      return read(texts);
    };
  },
  source: (description) => {
    const read = textReader(description), { reverse, end } = description;
    return (item) => read([requireText(item)], { reverse, end });
  },
  words: (description) => {
    const { vocabulary, lowercase, characters, max_characters: longest } = description, pretrained = pretrainedVectors(description);
    const known = new Map(vocabulary.map((word, index) => [word, index])), spell = characters ? speller(characters, longest) : null;
    return (item) => {
      const words = typeof item === "string" ? splitSpaces(item) : item.map(requireText);
      const ids = words.map((word) => known.get(lowercase ? word.toLowerCase() : word) ?? UNKNOWN);
      const feed = { words: padded([ids]), lengths: integers([words.length], [1]), ...pretrained([words]) };
      if (spell) feed.characters = spell([words]);
      return { feed, words };
    };
  },
  vectors: ({ size, line_height: height = 0, single = false }) => (item) => {
    const rows = height && item.pixels ? lineColumns(item, height) : checkVectors(item, size, single);
    return { feed: vectorFeed(rows, size) };
  },
  series: ({ columns, history, previous }) => (item) => {
    const rows = checkVectors(item, columns.length), start = history ? Math.max(0, rows.length - history) : 0;
    const feed = vectorFeed(rows.slice(start), columns.length);
    if (previous) feed.previous = { type: "float64", data: Float64Array.from(rows[Math.max(start - 1, 0)]), dims: [1, columns.length] };
    return { feed };
  },
  // { samples, rate }
  sound: ({ rate, window }) => (item) => {
    const samples = resample(Float32Array.from(item.samples), item.rate ?? rate, rate);
    if (samples.length < window) throw new ModelError(`The sound has ${samples.length} samples, but a window needs ${window}.`);
    return { feed: { samples: { type: "float32", data: samples, dims: [1, samples.length] }, lengths: integers([samples.length], [1]) } };
  },
  // { pixels, width, height }, three numbers from 0 to 255 for each pixel
  image: ({ size, resize: fit }) => (item) => ({ feed: { pixels: { type: "uint8", data: square(item, size, fit), dims: [1, size, size, 3] } } }),
  // images
  video: ({ size, resize: fit }) => (items) => {
    const data = new Uint8Array(items.length * size * size * 3);
    items.forEach((item, index) => data.set(square(item, size, fit), index * size * size * 3));
    return { feed: { frames: { type: "uint8", data, dims: [1, items.length, size, size, 3] }, lengths: integers([items.length], [1]) } };
  },
};

// Sound and images

const round = (value) => { const low = Math.floor(value), rest = value - low; return rest > 0.5 || (rest === 0.5 && low % 2) ? low + 1 : low; }; // as in Python: half to even

// An image as a square: its centre, or the whole of it with grey margins.
export function square({ pixels, width, height }, size, fit) {
  if (fit === "crop") {
    const side = Math.min(width, height), top = (height - side) / 2, left = (width - side) / 2;
    return resize(pixels, width, height, 3, size, size, [left, left + side], [top, top + side]);
  }
  const side = Math.max(width, height);
  const innerWidth = Math.max(round((width * size) / side), 1), innerHeight = Math.max(round((height * size) / side), 1);
  const inner = resize(pixels, width, height, 3, innerWidth, innerHeight, [0, width], [0, height]);
  const left = Math.floor((size - innerWidth) / 2), top = Math.floor((size - innerHeight) / 2);
  const canvas = new Uint8Array(size * size * 3).fill(128);
  for (let row = 0; row < innerHeight; row++) canvas.set(inner.subarray(row * innerWidth * 3, (row + 1) * innerWidth * 3), ((top + row) * size + left) * 3);
  return canvas;
}

// The columns of the image of a text line, scaled to a height, 0 black to 1 white.
export function lineColumns({ pixels, width, height }, size) {
  const grey = new Uint8Array(width * height);
  for (let i = 0; i < grey.length; i++) grey[i] = (pixels[3 * i] * 19595 + pixels[3 * i + 1] * 38470 + pixels[3 * i + 2] * 7471 + 0x8000) >>> 16;
  const newWidth = Math.max(round((width * size) / height), 1);
  const scaled = resize(grey, width, height, 1, newWidth, size, [0, width], [0, height]);
  return Array.from({ length: newWidth }, (_, column) => Array.from({ length: size }, (__, row) => Math.fround(scaled[row * newWidth + column] * Math.fround(1 / 255))));
}

// Bilinear interpolation with averaging of many pixels, with the rounding of Pillow.
function resize(pixels, width, height, channels, newWidth, newHeight, columns, rows) {
  let data = pixels, stride = width;
  if (newWidth !== width || columns[0] !== 0 || columns[1] !== width) {
    const output = new Uint8Array(height * newWidth * channels);
    filters(width, newWidth, columns).forEach(({ first, weights }, column) => {
      for (let row = 0; row < height; row++) for (let channel = 0; channel < channels; channel++) {
        let total = 1 << 21;
        for (let i = 0; i < weights.length; i++) total += weights[i] * data[(row * width + first + i) * channels + channel];
        output[(row * newWidth + column) * channels + channel] = Math.max(0, Math.min(255, total >> 22));
      }
    });
    data = output;
    stride = newWidth;
  }
  if (newHeight === height && rows[0] === 0 && rows[1] === height) return data;
  const output = new Uint8Array(newHeight * stride * channels);
  filters(height, newHeight, rows).forEach(({ first, weights }, row) => {
    for (let place = 0; place < stride * channels; place++) {
      let total = 1 << 21;
      for (let i = 0; i < weights.length; i++) total += weights[i] * data[(first + i) * stride * channels + place];
      output[row * stride * channels + place] = Math.max(0, Math.min(255, total >> 22));
    }
  });
  return output;
}

function filters(length, size, [start, stop]) {
  const scale = (stop - start) / size, support = Math.max(scale, 1);
  return Array.from({ length: size }, (_, place) => {
    const centre = start + (place + 0.5) * scale;
    const first = Math.max(Math.trunc(centre - support + 0.5), 0), last = Math.min(Math.trunc(centre + support + 0.5), length);
    const raw = Array.from({ length: last - first }, (__, i) => Math.max(1 - Math.abs((first + i - centre + 0.5) / support), 0)), total = sum(raw);
    return { first, weights: raw.map((value) => Math.floor((value / total) * (1 << 22) + 0.5)) };
  });
}

const ZERO_CROSSINGS = 10, BETA = 5; // of the sinc on each side, and of its Kaiser window

// Sound at another rate, by a windowed sinc.
export function resample(samples, rate, newRate) {
  const gcd = (a, b) => (b ? gcd(b, a % b) : a), divisor = gcd(rate, newRate), up = newRate / divisor, down = rate / divisor;
  if (up === down) return samples;
  const widest = Math.max(up, down), reach = Math.floor((ZERO_CROSSINGS * widest) / up) + 1, points = Math.min(widest, 1 << 12);
  let total = 0;
  for (let i = -ZERO_CROSSINGS * points; i <= ZERO_CROSSINGS * points; i++) total += sinc(i / points);
  total *= widest / points;
  const cache = new Map(), output = new Float32Array(Math.ceil((samples.length * up) / down));
  for (let place = 0; place < output.length; place++) {
    const phase = (place * down) % up, middle = Math.floor((place * down) / up);
    if (!cache.has(phase)) cache.set(phase, Float32Array.from({ length: 2 * reach + 1 }, (_, i) => (up * sinc((phase - (i - reach) * up) / widest)) / total));
    const weights = cache.get(phase);
    let value = 0;
    for (let i = Math.max(0, reach - middle); i < weights.length && middle + i - reach < samples.length; i++) value += weights[i] * samples[middle + i - reach];
    output[place] = value;
  }
  return output;
}

function bessel(x) { // I0, by its power series
  let total = 1, term = 1;
  for (let k = 1; term > 1e-17 * total; k++) { term *= (x / (2 * k)) ** 2; total += term; }
  return total;
}

function sinc(distance) {
  if (Math.abs(distance) > ZERO_CROSSINGS) return 0;
  const window = bessel(BETA * Math.sqrt(Math.max(1 - (distance / ZERO_CROSSINGS) ** 2, 0))) / bessel(BETA);
  return window * (distance === 0 ? 1 : Math.sin(Math.PI * distance) / (Math.PI * distance));
}

// Answers: from the outputs of the graph to what `seqloom predict --json` prints

const ANSWERS = {
  classes({ labels }, { probabilities }) {
    const values = numbers(probabilities.data), best = argmax(values);
    return { label: labels[best], probability: values[best], probabilities: Object.fromEntries(labels.map((label, index) => [label, values[index]])) };
  },
  numbers({ names, deviations }, outputs) {
    const values = rounded(numbers(outputs.numbers.data), deviations);
    return { values: Object.fromEntries(names.map((name, index) => [name, values[index]])) };
  },
  step_numbers({ names, deviations }, outputs, length, words) {
    const values = rounded(numbers(outputs.numbers.data), deviations);
    const column = (index) => Array.from({ length }, (_, row) => values[row * names.length + index]);
    return { words, values: Object.fromEntries(names.map((name, index) => [name, column(index)])) };
  },
  tags({ labels: names, step_seconds: step }, outputs, length, words) {
    const labels = numbers(outputs.labels.data).slice(0, length).map((label) => names[label]);
    const answer = { words, labels, probabilities: numbers(outputs.probabilities.data).slice(0, length) };
    return step ? { ...answer, segments: segments(labels, step) } : answer;
  },
  forecast({ columns, every_step, deviations, levels, horizon }, outputs, length) {
    const size = horizon * columns.length, last = every_step ? length - 1 : 0;
    const exact = (values) => (deviations ? rounded(values, deviations) : values);
    const table = (values) => Array.from({ length: horizon }, (_, row) => values.slice(row * columns.length, (row + 1) * columns.length));
    const values = exact(numbers(outputs.forecast.data)), quantiles = {};
    levels.forEach((level, place) => {
      const all = numbers(outputs.quantiles.data).filter((_, index) => index % levels.length === place);
      quantiles[String(level)] = table(exact(all).slice(last * size, (last + 1) * size));
    });
    const step = (index) => table(values.slice(index * size, (index + 1) * size));
    return { columns, values: step(last), steps: every_step ? Array.from({ length }, (_, index) => step(index)) : [], quantiles };
  },
};

// Values without the digits that single precision does not determine, given the deviation of each column.
function rounded(values, deviations) {
  const decimals = deviations.map((deviation) => Math.max(5 - Math.floor(Math.log10(deviation)), 0));
  return values.map((value, index) => Number(value.toFixed(Math.min(decimals[index % decimals.length], 100))));
}

function segments(labels, step) {
  const all = [], time = (frame) => Math.round(frame * step * 1e6) / 1e6;
  let start = 0;
  labels.forEach((label, index) => {
    if (index + 1 < labels.length && labels[index + 1] === label) return;
    all.push([time(start), time(index + 1), label]);
    start = index + 1;
  });
  return all;
}

// Text

const SPACE = "\\t\\n\\v\\f\\r\\x1c-\\x1f \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SPACES = new RegExp(`[${SPACE}]+`, "u"), ONLY_SPACE = new RegExp(`^[${SPACE}]+$`, "u");
const strip = (text) => text.replace(new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "gu"), "");
const splitSpaces = (text) => text.split(SPACES).filter(Boolean);

export class Tokenizer {
  constructor({ unit, split, lowercase, vocabulary, specials, tokenizer }) {
    Object.assign(this, { unit, split, lowercase, specials, tokens: vocabulary.tokens });
    this.firstTextId = 2 + specials.length;
    const entries = this.tokens.map((token, index) => [token, index]);
    this.ids = new Map(unit === "subwords" ? entries : entries.filter(([token]) => !RESERVED.has(token)));
    if (unit === "subwords") {
      const { model } = JSON.parse(tokenizer);
      this.subwords = model.type === "BPE" ? new BytePairs(model) : new Unigram(model);
    }
  }

  encode(text) {
    return this.lookUp(this.pieces(this.lowercase ? text.toLowerCase() : text));
  }

  lookUp(tokens) {
    return tokens.map((token) => this.ids.get(token) ?? UNKNOWN);
  }

  // The tokens of a text in their original case, if there are as many.
  casedTokens(text) {
    const tokens = this.pieces(this.lowercase ? text.toLowerCase() : text), cased = this.subwords ? tokens : this.pieces(text);
    return cased.length === tokens.length ? cased : tokens;
  }

  pieces(text) {
    if (this.subwords) return this.subwords.encode(text);
    if (this.unit === "words") return this.split === "punctuation" ? splitWords(text) : this.split === "lines" ? splitLines(text) : splitSpaces(text);
    return [...text];
  }

  decode(ids) {
    const kept = ids.filter((id) => id === UNKNOWN || id >= this.firstTextId), tokens = kept.map((id) => this.tokens[id]);
    if (this.subwords) return this.subwords.decode(tokens);
    if (this.unit === "words") return this.split === "punctuation" ? joinWords(tokens) : this.split === "lines" ? joinLines(tokens) : tokens.join(" ");
    return kept.map((id, index) => (id === UNKNOWN ? "\ufffd" : tokens[index])).join("");
  }

  readable(id) {
    const token = this.tokens[id];
    if (!this.subwords || id < this.firstTextId) return token;
    return token.includes("▁") ? token.replaceAll("▁", " ") : this.decode([id]) || token;
  }
}

const CJK = "\\u2e80-\\u2fdf\\u3005-\\u3007\\u3021-\\u3029\\u3031-\\u3035\\u3038-\\u303b\\u3041-\\u30ff\\u31f0-\\u31ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\uff66-\\uff9f\\u{20000}-\\u{3ffff}";
const IDEOGRAPH = new RegExp(`[${CJK}、。！？，；：（）「」『』【】]`, "u");
const NO_BLANK_BEFORE = new Set(",.!?;:)]}%…»”’،؛؟、。！？，；：）」』】〉》‥"), NO_BLANK_AFTER = new Set("([{«“‘¿¡$£€¥#@（「『【〈《„"), NO_BLANK_AROUND = new Set("/\\");
const CLOSING = new Map([['"', '"'], ["“", "„"]]), OPENING = new Set(CLOSING.values());
const WORD = "[\\p{L}\\p{N}_]", MARK = "(?:(?![\\u{1f000}-\\u{10ffff}])\\p{M})";
const LETTER = `(?:(?![${CJK}])[\\p{L}\\p{Nl}\\p{No}]|${MARK})`, PART = `(?:${LETTER}|[\\p{Nd}_])`;
// Addresses, abbreviations, numbers, endings, words with hyphens and apostrophes, and single marks.
const WORDS = new RegExp([
  `https?://[^${SPACE}]*[^${SPACE}.,;:!?'")\\]}>]`, "[\\p{L}\\p{N}_.+\\-]+@[\\p{L}\\p{N}_\\-]+(?:\\.[\\p{L}\\p{N}_\\-]+)+", `[@#]${WORD}+`, "<[a-zA-Z_]+>",
  `[${CJK}]${MARK}*`, `(?:${LETTER}\\.){2,}`, `\\p{Nd}+(?:[.,:]\\p{Nd}+)+(?!${WORD})`, `['’](?:s|re|ve|ll|d|m|t|em)(?!${WORD})`,
  `${PART}+(?:['’·\\-]${PART}+)*(?:-$)?`, "\\.{2,}|-{2,}|`{2}|'{2}", `[^\\p{L}\\p{N}_${SPACE}](?:${MARK}|\\u200d)*`,
].join("|"), "gu");

export const splitWords = (text) => splitSpaces(text).flatMap((word) => word.match(WORDS) ?? []);

const INDENT = SPACE.replace("\\n", "");
const LINES = new RegExp(`^[${INDENT}]+|\\n[${INDENT}]*|[^${SPACE}]+`, "gu"), STARTS_BLANK = new RegExp(`^[${SPACE}]`, "u"), ENDS_BLANK = new RegExp(`[${SPACE}]$`, "u");

// Words between blanks; a line break, and the indentation of a line after it or at the start, is one, too.
const splitLines = (text) => text.match(LINES) ?? [];

const joinLines = (words) => words.reduce((text, word) => text + (!text || STARTS_BLANK.test(word) || ENDS_BLANK.test(text) ? "" : " ") + word, "");

// A text with blanks where they are usual between these words and punctuation marks.
export function joinWords(tokens) {
  let text = "", glue = true;
  const opened = new Set(); // quotation marks that wait for the second of a pair
  for (const token of tokens) {
    const letters = [...token], first = letters[0] ?? "", last = letters.at(-1) ?? "", before = [...text.slice(-2)].at(-1) ?? "";
    const closing = opened.has(CLOSING.get(token) ?? "");
    const near = NO_BLANK_BEFORE.has(first) || NO_BLANK_AROUND.has(first) || closing;
    const wide = IDEOGRAPH.test(first) && IDEOGRAPH.test(before);
    text += glue || near || wide || !text ? token : ` ${token}`;
    const opens = !closing && OPENING.has(token);
    if (closing) opened.delete(CLOSING.get(token));
    else if (opens) opened.add(token);
    glue = NO_BLANK_AROUND.has(last) || opens || (NO_BLANK_AFTER.has(token) && !closing);
  }
  return text;
}

const SUBWORD_SPACE = "\\t\\n\\v\\f\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const IS_SUBWORD_SPACE = new RegExp(`[${SUBWORD_SPACE}]`, "u");
const ENDINGS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];
const BYTE_LETTERS = (() => {
  const isPrintable = (byte) => (byte >= 33 && byte < 127) || (byte >= 161 && byte < 173) || byte >= 174;
  let others = 0;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isPrintable(byte) ? byte : 256 + others++));
})();
const BYTE_VALUES = new Map(BYTE_LETTERS.map((letter, byte) => [letter, byte]));

// Byte-level byte pair encoding (Sennrich et al. 2016).
class BytePairs {
  constructor({ merges, vocab }) {
    this.ranks = new Map(merges.map((merge, rank) => [Array.isArray(merge) ? merge.join(" ") : merge, rank]));
    this.pieces = new Set(Object.keys(vocab));
    this.cache = new Map();
  }

  encode(text) {
    const bytes = new TextEncoder();
    return byteLevelParts([...text]).flatMap((part) => this.merge(Array.from(bytes.encode(part), (byte) => BYTE_LETTERS[byte]).join("")));
  }

  merge(part) {
    if (this.cache.has(part)) return this.cache.get(part);
    let pieces = [...part];
    while (pieces.length > 1) {
      const ranks = pieces.slice(1).map((piece, index) => this.ranks.get(`${pieces[index]} ${piece}`) ?? Infinity), rank = Math.min(...ranks);
      if (rank === Infinity) break;
      const index = ranks.indexOf(rank);
      pieces.splice(index, 2, pieces[index] + pieces[index + 1]);
    }
    if (this.cache.size < 1 << 14) this.cache.set(part, pieces);
    return pieces;
  }

  decode(pieces) {
    const bytes = pieces.filter((piece) => this.pieces.has(piece)).flatMap((piece) => [...piece].map((letter) => BYTE_VALUES.get(letter)));
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }
}

const letterKind = (letter) => (IS_SUBWORD_SPACE.test(letter) ? "space" : /\p{L}/u.test(letter) ? "L" : /\p{N}/u.test(letter) ? "N" : "other");

// The parts that are encoded one by one: endings, letters, digits, others with a blank before them, and blanks.
function byteLevelParts(letters) {
  const parts = [];
  for (let start = 0; start < letters.length;) {
    const rest = letters.slice(start, start + 3).join(""), ending = ENDINGS.find((each) => rest.startsWith(each));
    if (ending) { parts.push(ending); start += ending.length; continue; }
    const first = start + (letters[start] === " " && start + 1 < letters.length && !IS_SUBWORD_SPACE.test(letters[start + 1]) ? 1 : 0);
    const kind = letterKind(letters[first]);
    let stop = first;
    while (stop < letters.length && letterKind(letters[stop]) === kind) stop++;
    if (kind === "space" && stop < letters.length && stop - start > 1) stop--; // the last blank belongs to what follows
    parts.push(letters.slice(start, stop).join(""));
    start = stop;
  }
  return parts;
}

// The most probable subwords (Kudo 2018); ▁ stands for a space.
class Unigram {
  constructor({ vocab, unk_id: unknown }) {
    this.scores = new Map(vocab);
    this.unknown = vocab[unknown][0];
    this.unknownScore = Math.min(...this.scores.values()) - 10;
    this.longest = Math.max(...[...this.scores.keys()].map((piece) => [...piece].length));
  }

  encode(text) {
    text = text.normalize("NFKC").replace(new RegExp(`[${SUBWORD_SPACE}]+`, "gu"), " ").replace(/^ +| +$/gu, "");
    if (!text) return [];
    const marked = (text.startsWith("▁") ? "" : "▁") + text.replaceAll(" ", "▁");
    return marked.split(/(?=▁)/u).filter(Boolean).flatMap((word) => this.best([...word]));
  }

  // The pieces of a word with the largest sum of scores; neighbouring unknown letters are one piece.
  best(letters) {
    const best = [[0, 0], ...letters.map(() => [-Infinity, 0])]; // score, start of the last piece
    letters.forEach((_, start) => {
      const score = best[start][0];
      let hasSingle = false, piece = "";
      for (let stop = start + 1; stop <= Math.min(letters.length, start + this.longest); stop++) {
        piece += letters[stop - 1];
        const value = this.scores.get(piece);
        if (value === undefined) continue;
        hasSingle ||= stop === start + 1;
        if (score + value > best[stop][0]) best[stop] = [score + value, start];
      }
      if (!hasSingle && score + this.unknownScore > best[start + 1][0]) best[start + 1] = [score + this.unknownScore, start];
    });
    const pieces = [];
    for (let stop = letters.length; stop > 0;) {
      const start = best[stop][1], piece = letters.slice(start, stop).join(""), known = this.scores.has(piece);
      if (known || pieces.at(-1) !== "") pieces.push(known ? piece : "");
      stop = start;
    }
    return pieces.reverse().map((piece) => piece || this.unknown);
  }

  decode(pieces) {
    return pieces.join("").replaceAll("▁", " ").replace(/^ /u, "");
  }
}
