// Files that somebody gave to a model, kept in this browser by their hash, so that an address can name them.

const MOST = 24, MOST_BYTES = 128 * 2 ** 20; // those that were not used for the longest time are dropped
const FACTS = "facts", CONTENTS = "contents"; // stores: which files there are, and what is in them

function settled(request) {
  return new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
}

async function open() {
  const request = indexedDB.open("seqloom-studio", 1);
  request.onupgradeneeded = () => { for (const name of [FACTS, CONTENTS]) request.result.createObjectStore(name); };
  return settled(request);
}

// call(facts, contents) gets the stores of one transaction.
async function transact(mode, call) {
  const database = await open();
  try {
    const transaction = database.transaction([FACTS, CONTENTS], mode);
    return await call(transaction.objectStore(FACTS), transaction.objectStore(CONTENTS));
  } finally {
    database.close(); // once the transaction has ended
  }
}

// Of pages that are not local and came without encryption, browsers compute no hash: such a file gets a random name.
async function hashOf(content) {
  const bytes = crypto.subtle ? new Uint8Array(await crypto.subtle.digest("SHA-256", content)) : crypto.getRandomValues(new Uint8Array(32));
  return [...bytes.subarray(0, 16)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// The hash under which a file is kept.
export async function keepFile(file) {
  const content = await file.arrayBuffer(), hash = await hashOf(content);
  await transact("readwrite", async (facts, contents) => {
    const others = (await settled(facts.getAll())).filter((each) => each.hash !== hash).sort((a, b) => b.used - a.used);
    let bytes = content.byteLength;
    others.forEach((each, index) => {
      bytes += each.size;
      if (index + 1 < MOST && bytes <= MOST_BYTES) return;
      facts.delete(each.hash);
      contents.delete(each.hash);
    });
    facts.put({ hash, name: file.name, type: file.type, size: content.byteLength, used: Date.now() }, hash);
    return settled(contents.put(content, hash));
  });
  return hash;
}

// null: this browser does not have it.
export async function keptFile(hash) {
  return transact("readwrite", async (facts, contents) => {
    const fact = await settled(facts.get(hash));
    if (!fact) return null;
    facts.put({ ...fact, used: Date.now() }, hash);
    return new File([await settled(contents.get(hash))], fact.name, { type: fact.type });
  }).catch(() => null);
}

export async function countFiles() {
  return transact("readonly", (facts) => settled(facts.count())).catch(() => 0);
}

export async function deleteFiles() {
  return transact("readwrite", async (facts, contents) => {
    facts.clear();
    return settled(contents.clear());
  });
}
