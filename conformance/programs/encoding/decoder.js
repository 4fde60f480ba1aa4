const d = new TextDecoder();
console.log(d.encoding, d.fatal, d.ignoreBOM, d.decode(), d.decode(new Uint8Array([0xe2, 0x82, 0xac])), d.decode(new Uint8Array([0xff, 0x41])), d.decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61])).length, new TextDecoder('utf-8', { ignoreBOM: true }).decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61])).length);
console.log(d.decode(new Uint16Array([0x4241])), d.decode(new DataView(new Uint8Array([0x61, 0x62]).buffer, 1)), d.decode(new Uint8Array([0x61]).buffer), new TextDecoder('UTF8').encoding, new TextDecoder(' utf-8 ').encoding);
