// Addresses of pages.

export function address(path, query = {}) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== "" && item !== undefined && item !== null) given.append(name, item);
    }
  }
  const text = given.toString();
  return text ? `${path}?${text}` : path;
}

// Show another page.
export function go(path, query) {
  history.pushState(null, "", address(path, query));
  window.dispatchEvent(new PopStateEvent("popstate"));
}

// Keep what is shown in the address. isNew: as a new entry in the history, so that Back leads to what was shown before.
export function remember(path, query, { isNew = false } = {}) {
  history[isNew ? "pushState" : "replaceState"](null, "", address(path, query));
  window.dispatchEvent(new Event("remembered"));
}

// Whether the address holds an input that somebody typed, drew or gave.
export function holdsOwnInput() {
  const query = new URLSearchParams(location.search);
  return query.has("text") || query.has("given");
}
