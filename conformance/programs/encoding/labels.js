for (const label of ['latin1', 'utf-16le', 'ascii', 'windows-1252']) console.log(label, new TextDecoder(label).encoding, new TextDecoder(label).decode(new Uint8Array([65, 0, 66, 0])).length);
