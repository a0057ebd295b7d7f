// Numbers, times and settings as people read them.

export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1e6 || (size < 1e-4 && size > 0)) return value.toExponential(2).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(digits)));
}

// On an axis: short, also where it is large.
export function axisNumber(value, digits = 3) {
  const size = Math.abs(value);
  if (size >= 1e9) return value.toExponential(1).replace(/\.0e/, "e").replace("e+", "e");
  if (size >= 1e6) return `${number(value / 1e6, digits)} M`;
  return size >= 1e5 ? `${number(value / 1e3, digits)} k` : number(value, Math.max(digits, 4));
}

export function interval(score) {
  return score && score.low !== null && score.high !== null ? `[${number(score.low, 3)}, ${number(score.high, 3)}]` : "";
}

export function percent(value) {
  const text = (100 * value).toFixed(1);
  if (value < 1 && text === "100.0") return "99.9 %";
  if (value > 0 && text === "0.0") return "<0.1 %";
  return `${text} %`;
}

export function duration(seconds) {
  if (!seconds) return "–";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

export function count(value) {
  if (!value) return "–";
  if (value >= 1e6) return `${number(value / 1e6, 3)} M`;
  if (value >= 1e4) return `${Math.round(value / 1e3)} k`;
  return value.toLocaleString("en");
}

export function setting(value) {
  return typeof value === "string" ? value || '""' : JSON.stringify(value);
}

// The same where there is little room.
export function shortSetting(value) {
  return typeof value === "number" && String(value).length > 8 ? number(value) : setting(value);
}

export function date(text) {
  const time = new Date(text);
  if (!text || Number.isNaN(time.getTime())) return "–";
  return time.toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}
