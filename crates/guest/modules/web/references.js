// Large answers of tools: they lie outside the heap, and code has what stands for them, `{$ref: {id, …}}`.
const PREFIX = 'ref_';
const { told, sliceOf } = natives;

const notFound = (id) => {
  const error = new Error(`this session has no reference ${id}`);
  error.name = 'RefNotFound';
  error.code = 'RefNotFound';
  return error;
};
const idOf = (reference) => {
  const id = reference?.$ref?.id;
  if (typeof id !== 'string') throw new TypeError('a reference is {$ref: {id}}, as a tool answered it');
  if (!id.startsWith(PREFIX)) throw notFound(id);
  return id;
};
const refs = {
  // Offsets are in bytes; a slice of text begins and ends with whole characters.
  read(reference, start, end) {
    const id = idOf(reference);
    const part = sliceOf(id, start, end);
    if (part === undefined) throw notFound(id);
    return part;
  },
  // Its bytes become the file's without passing through the heap.
  save(reference, path) {
    const { fs, core, adoptCopy } = natives.loadModule('web/volume');
    const id = idOf(reference);
    if (told(natives.blobStat(id)) < 0) throw notFound(id);
    const descriptor = fs.openSync(path, 'w');
    try {
      adoptCopy(core.getResolvedLinkOrThrow(path, 'open').getNode(), id);
    } finally {
      fs.closeSync(descriptor);
    }
  },
  list: () => told(natives.blobList(PREFIX)).map(([id, bytes]) => ({ $ref: { id, bytes } })),
  delete: (reference) => told(natives.blobRemove(idOf(reference))) === 1,
};

module.exports = { refs };
