const d = new TextDecoder('utf-8', { fatal: true });
for (const bytes of [[0x61], [0xff], [0xc3], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0x98, 0x80], [0xc0, 0x80]]) try { console.log(d.decode(new Uint8Array(bytes))); } catch (error) { console.log(error.name); }
try { new TextDecoder('nope'); } catch (error) { console.log(error.name); }
