// Requests to the studio. Errors have the message of the server.

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The studio does not answer. Was it stopped? Start it again with seqloom studio, then reload this page.");
  }
  if (response.ok) return response;
  let text = `${response.status} ${response.statusText}`;
  try {
    text = (await response.json()).error.message;
  } catch {
    // not JSON: the status says it
  }
  throw new Error(text);
}

export async function get(path, query = {}) {
  const url = `${path}?${new URLSearchParams(query)}`;
  return (await ask(url)).json();
}

async function send(path, body, signal) {
  const options = { method: "POST", body: body instanceof FormData ? body : JSON.stringify(body), signal };
  return ask(path, options);
}

export async function post(path, body, signal) {
  return (await send(path, body, signal)).json();
}

// JSON with numbers behind it: {content, values}.
export async function postPacked(path, body, signal) {
  const buffer = await (await send(path, body, signal)).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const content = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return { content, values: new Float32Array(buffer, 4 + length) };
}
